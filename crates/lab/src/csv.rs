//! Fields of comma-separated values, quoted as RFC 4180 says.

/// A field, in quotes where it needs them.
pub(crate) fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field back from its quotes, and what follows it.
    fn unquote(line: &str) -> (String, &str) {
        let Some(mut rest) = line.strip_prefix('"') else {
            let end = line.find(',').unwrap();
            return (line[..end].to_owned(), &line[end..]);
        };
        let mut text = String::new();
        loop {
            let end = rest.find('"').unwrap();
            text.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.strip_prefix('"') {
                Some(more) => {
                    text.push('"');
                    rest = more;
                }
                None => return (text, rest),
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_one_field(text in "[a,\"\n\r ]*|\\PC*") {
            let line = format!("{},next", field(&text));
            proptest::prop_assert_eq!(unquote(&line), (text, ",next"));
        }
    }
}
