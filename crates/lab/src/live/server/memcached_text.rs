//! The text protocol of memcached.

use super::protocol::{Answer, Protocol};

/// Bytes in the longest line: a value's head, with a key of 250 bytes at most, or an error's text.
const LONGEST_LINE: usize = 2 << 10;
/// The largest value that memcached can be told to hold.
const LONGEST_VALUE: usize = 1 << 30;

/// memcached's text protocol as a load speaks it.
pub(crate) struct MemcachedText;

impl Protocol for MemcachedText {
    fn set(out: &mut Vec<u8>, key: &str, value: &[u8]) {
        out.extend_from_slice(format!("set {key} 0 0 {}\r\n", value.len()).as_bytes());
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    fn get(out: &mut Vec<u8>, key: &str) {
        out.extend_from_slice(format!("get {key}\r\n").as_bytes());
    }

    fn answer(received: &[u8]) -> Result<Option<(Answer<'_>, usize)>, String> {
        let within = &received[..received.len().min(LONGEST_LINE)];
        let Some(end) = within.windows(2).position(|pair| pair == b"\r\n") else {
            return if within.len() == LONGEST_LINE {
                Err(format!("a line is longer than {LONGEST_LINE} bytes"))
            } else {
                Ok(None)
            };
        };
        let line = String::from_utf8_lossy(&received[..end]);
        let head = end + 2;
        match &*line {
            "STORED" => Ok(Some((Answer::Stored, head))),
            "END" => Ok(Some((Answer::Missing, head))),
            _ => value(&line, received, head),
        }
    }
}

/// The value that follows the line `VALUE key flags bytes`, and the `END` after it.
fn value<'a>(
    line: &str,
    received: &'a [u8],
    head: usize,
) -> Result<Option<(Answer<'a>, usize)>, String> {
    let length = line
        .strip_prefix("VALUE ")
        .and_then(|rest| rest.split(' ').nth(2)?.parse::<usize>().ok())
        .filter(|length| *length <= LONGEST_VALUE)
        .ok_or_else(|| format!("it says {line:?}"))?;
    let tail = b"\r\nEND\r\n";
    let end = head + length;
    if received.len() < end + tail.len() {
        return Ok(None);
    }
    if !received[end..].starts_with(tail) {
        return Err("a value is longer than it says".into());
    }
    Ok(Some((
        Answer::Value(&received[head..end]),
        end + tail.len(),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_of_each_kind() {
        let answer = MemcachedText::answer;
        assert_eq!(answer(b"STORED\r\nEND"), Ok(Some((Answer::Stored, 8))));
        assert_eq!(answer(b"END\r\n"), Ok(Some((Answer::Missing, 5))));
        let value = b"VALUE key 0 3\r\na\r\n\r\nEND\r\n";
        let expected = Answer::Value(b"a\r\n");
        assert_eq!(answer(value), Ok(Some((expected, value.len()))));
        for part in 0..value.len() {
            assert_eq!(answer(&value[..part]), Ok(None));
        }
    }

    #[test]
    fn complaints_and_nonsense_are_refused() {
        for bad in [
            &b"SERVER_ERROR out of memory storing object\r\n"[..],
            b"VALUE key 0\r\n",
            b"VALUE key 0 99999999999999999999\r\n",
            b"VALUE key 0 1\r\nabcdefghijk\r\n",
            &[b' '; LONGEST_LINE],
        ] {
            assert!(MemcachedText::answer(bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>) {
            let _ = MemcachedText::answer(&bytes);
        }

        #[test]
        fn any_bytes_that_look_like_values_too(text in "VALUE k 0 [0-9]{1,3}\r\n[a-c\r\n]{0,8}(END\r\n)?") {
            let _ = MemcachedText::answer(text.as_bytes());
        }
    }
}
