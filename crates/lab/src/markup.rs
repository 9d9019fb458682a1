//! Text within XML and HTML.

/// A text as it may stand in an element, or in an attribute between double quotes. Characters that XML does not have
/// (section 2.2 of XML 1.0) are replaced.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' => escaped.push(character),
            '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            control if control.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(
            escape("a < \"b\" & 'c' > d\n\0"),
            "a &lt; &quot;b&quot; &amp; 'c' &gt; d\n\u{fffd}"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_keeps_a_special_character(text: String) {
            let escaped = escape(&text);
            proptest::prop_assert!(!escaped.contains(['<', '>', '"']));
            let entities = ["amp;", "lt;", "gt;", "quot;"];
            for rest in escaped.split('&').skip(1) {
                proptest::prop_assert!(entities.iter().any(|entity| rest.starts_with(entity)));
            }
        }
    }
}
