//! Text in lines of a given width.

/// Breaks a text between words into lines of at most `width` characters; a word that is longer has a line of its own.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_full_as_they_can_be() {
        assert_eq!(
            wrap("one two  three\nfour", 9),
            ["one two", "three", "four"]
        );
        assert_eq!(wrap("longer than it", 3), ["longer", "than", "it"]);
        assert!(wrap(" ", 10).is_empty());
    }
}
