//! RESP2, the protocol of Redis.

use super::protocol::{Answer, Protocol};

/// Bytes in the longest line: a length, or an error's text.
const LONGEST_LINE: usize = 4 << 10;
/// The longest string that Redis holds.
const LONGEST_STRING: usize = 512 << 20;
/// How deep arrays lie within arrays; no reply of ours has any in one.
const DEEPEST: u32 = 4;

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    Status(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    String(&'a [u8]),
    Nothing,
    Array(Vec<Reply<'a>>),
}

/// Appends a command.
pub(crate) fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The reply at the start of what was received, and its length in bytes; `None` where some of it is still to come.
///
/// # Errors
/// Says what is wrong with the bytes.
pub(crate) fn reply(received: &[u8]) -> Result<Option<(Reply<'_>, usize)>, String> {
    let mut rest = received;
    let reply = take_reply(&mut rest, DEEPEST)?;
    Ok(reply.map(|reply| (reply, received.len() - rest.len())))
}

fn take_reply<'a>(rest: &mut &'a [u8], depth: u32) -> Result<Option<Reply<'a>>, String> {
    let Some(line) = take_line(rest)? else {
        return Ok(None);
    };
    let Some((kind, line)) = line.split_first() else {
        return Err("an empty line is no reply".into());
    };
    Ok(match kind {
        b'+' => Some(Reply::Status(line)),
        b'-' => Some(Reply::Error(line)),
        b':' => Some(Reply::Integer(number(line)?)),
        b'$' => take_string(rest, number(line)?)?,
        b'*' => take_array(rest, number(line)?, depth)?,
        kind => return Err(format!("a reply starts with {:?}", char::from(*kind))),
    })
}

/// The bytes up to the next end of line.
fn take_line<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, String> {
    let within = &rest[..rest.len().min(LONGEST_LINE)];
    match within.windows(2).position(|pair| pair == b"\r\n") {
        Some(end) => {
            let line = &rest[..end];
            *rest = &rest[end + 2..];
            Ok(Some(line))
        }
        None if within.len() == LONGEST_LINE => {
            Err(format!("a line is longer than {LONGEST_LINE} bytes"))
        }
        None => Ok(None),
    }
}

fn take_string<'a>(rest: &mut &'a [u8], length: i64) -> Result<Option<Reply<'a>>, String> {
    if length == -1 {
        return Ok(Some(Reply::Nothing));
    }
    let length = usize::try_from(length)
        .ok()
        .filter(|length| *length <= LONGEST_STRING)
        .ok_or_else(|| format!("a string of {length} bytes"))?;
    if rest.len() < length + 2 {
        return Ok(None);
    }
    let (string, after) = rest.split_at(length);
    *rest = after
        .strip_prefix(b"\r\n")
        .ok_or("a string is longer than it says")?;
    Ok(Some(Reply::String(string)))
}

fn take_array<'a>(
    rest: &mut &'a [u8],
    length: i64,
    depth: u32,
) -> Result<Option<Reply<'a>>, String> {
    if length == -1 {
        return Ok(Some(Reply::Nothing));
    }
    if depth == 0 {
        return Err(format!("arrays lie deeper than {DEEPEST} in one another"));
    }
    let length = usize::try_from(length).map_err(|_| format!("an array of {length} replies"))?;
    // Grows with what comes: the length alone is not to be trusted with memory.
    let mut replies = Vec::new();
    for _ in 0..length {
        match take_reply(rest, depth - 1)? {
            Some(reply) => replies.push(reply),
            None => return Ok(None),
        }
    }
    Ok(Some(Reply::Array(replies)))
}

fn number(line: &[u8]) -> Result<i64, String> {
    std::str::from_utf8(line)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("{:?} is not a number", String::from_utf8_lossy(line)))
}

/// RESP2 as a load speaks it.
pub(crate) struct Resp;

impl Protocol for Resp {
    fn set(out: &mut Vec<u8>, key: &str, value: &[u8]) {
        command(out, &[b"SET", key.as_bytes(), value]);
    }

    fn get(out: &mut Vec<u8>, key: &str) {
        command(out, &[b"GET", key.as_bytes()]);
    }

    fn answer(received: &[u8]) -> Result<Option<(Answer<'_>, usize)>, String> {
        let Some((reply, length)) = reply(received)? else {
            return Ok(None);
        };
        let answer = match reply {
            Reply::Status(b"OK") => Answer::Stored,
            Reply::String(value) => Answer::Value(value),
            Reply::Nothing => Answer::Missing,
            Reply::Error(text) => return Err(String::from_utf8_lossy(text).into_owned()),
            other => return Err(format!("{other:?} answers neither a GET nor a SET")),
        };
        Ok(Some((answer, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn replies_of_each_kind() {
        let text = b"*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*0\r\n+next\r\n";
        let expected = Reply::Array(vec![
            Reply::Status(b"OK"),
            Reply::Error(b"ERR no"),
            Reply::Integer(-7),
            Reply::String(b"a\r\n"),
            Reply::Nothing,
            Reply::Array(Vec::new()),
        ]);
        assert_eq!(reply(text), Ok(Some((expected, text.len() - 7))));
    }

    #[test]
    fn bad_replies_are_refused() {
        for bad in [
            &b"?\r\n"[..],
            b"\r\n",
            b"$99999999999\r\n",
            b"$-2\r\n",
            b"*-2\r\n",
            b"$1\r\nabc\r\n",
            b":x\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
            &[b'+'; LONGEST_LINE],
        ] {
            assert!(reply(bad).is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>) {
            let _ = reply(&bytes);
        }

        #[test]
        fn any_bytes_that_look_like_replies_too(text in "([*$:+-][0-9-]{0,3}\r\n[a-c\r\n]{0,4}){0,6}") {
            let _ = reply(text.as_bytes());
        }

        #[test]
        fn a_command_reads_back_and_no_part_of_it_does(words: Vec<Vec<u8>>) {
            let mut bytes = Vec::new();
            command(&mut bytes, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let expected = Reply::Array(words.iter().map(|word| Reply::String(word)).collect());
            prop_assert_eq!(reply(&bytes), Ok(Some((expected, bytes.len()))));
            for part in 0..bytes.len() {
                prop_assert_eq!(reply(&bytes[..part]), Ok(None));
            }
        }
    }
}
