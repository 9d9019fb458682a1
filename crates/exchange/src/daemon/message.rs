//! What a VMM and the daemon say to each other. Computes only.

/// The bytes "MEGAHOST" in the order of addresses.
const MAGIC: [u8; 8] = *b"MEGAHOST";
const VERSION: u32 = 1;
/// Magic, version, and how many ranges follow or what the answer is.
const HEADER_BYTES: usize = 16;
/// Guest-physical address, length, and address in the VMM.
const RANGE_BYTES: usize = 24;
/// Ranges of a guest, at most. A machine has a handful.
pub const MAX_RANGES: usize = 64;
/// The bytes of the longest message.
pub(super) const LONGEST: usize = HEADER_BYTES + MAX_RANGES * RANGE_BYTES;
/// Bytes of a reason, at most; of a longer one the rest is left out.
pub const TOLD_BYTES: usize = 200;

/// A message is not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is something else.
    #[error("this is not the protocol of mega's exchanges")]
    Magic,
    /// It is newer, or older.
    #[error("version {0} is not spoken here, {VERSION} is")]
    Version(u32),
    /// It has no ranges or too many, or is as long as it does not say.
    #[error("the message is not as long as it says, or has no ranges or more than {MAX_RANGES}")]
    Length,
    /// The page or the doorbell is missing, or there are more descriptors.
    #[error("the message does not come with two descriptors, the page and the doorbell")]
    Descriptors,
}

/// Asks to have a guest served. It comes with two descriptors: the page, then the doorbell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Of each range of the guest's memory: guest-physical address, length, address in the VMM.
    pub ranges: Vec<(u64, u64, u64)>,
}

impl Request {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// It is not one.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (count, rest) = header(bytes)?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if !(1..=MAX_RANGES).contains(&count) || rest.len() != count * RANGE_BYTES {
            return Err(Malformed::Length);
        }
        let range = |bytes: &[u8]| {
            let number = |index: usize| u64_at(bytes, 8 * index).ok_or(Malformed::Length);
            Ok((number(0)?, number(1)?, number(2)?))
        };
        let ranges = rest.chunks_exact(RANGE_BYTES).map(range);
        Ok(Request {
            ranges: ranges.collect::<Result<_, Malformed>>()?,
        })
    }

    /// The message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let count = u32::try_from(self.ranges.len()).unwrap_or(u32::MAX);
        let mut bytes = begin(count);
        for (guest, length, address) in &self.ranges {
            for number in [guest, length, address] {
                bytes.extend(number.to_le_bytes());
            }
        }
        bytes
    }
}

/// What the daemon answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It serves the guest from now on.
    Serving,
    /// It does not, and why.
    Refused(String),
}

impl Answer {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// It is not one.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (refused, reason) = header(bytes)?;
        Ok(match refused {
            0 => Answer::Serving,
            _ => Answer::Refused(String::from_utf8_lossy(reason).into_owned()),
        })
    }

    /// The message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Answer::Serving => begin(0),
            Answer::Refused(reason) => {
                let mut bytes = begin(1);
                bytes.extend(reason.bytes().take(TOLD_BYTES));
                bytes
            }
        }
    }
}

fn begin(number: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes
}

/// The number in the header, and what follows.
fn header(bytes: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    if !bytes.starts_with(&MAGIC) {
        return Err(Malformed::Magic);
    }
    let number = |at: usize| {
        let field = bytes.get(at..at + 4).ok_or(Malformed::Length)?;
        Ok(u32::from_le_bytes(
            field.try_into().map_err(|_| Malformed::Length)?,
        ))
    };
    match number(8)? {
        VERSION => {}
        other => return Err(Malformed::Version(other)),
    }
    Ok((number(12)?, bytes.get(HEADER_BYTES..).unwrap_or_default()))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(field.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_request_is_read_as_it_was_written(
            ranges in prop::collection::vec(any::<(u64, u64, u64)>(), 1..=MAX_RANGES),
        ) {
            let request = Request { ranges };
            let bytes = request.to_bytes();
            prop_assert!(bytes.len() <= LONGEST);
            prop_assert_eq!(Request::parse(&bytes), Ok(request));
            // No part of it is one.
            prop_assert!(Request::parse(&bytes[..bytes.len() - 1]).is_err());
            prop_assert!(Request::parse(&[bytes.as_slice(), &[0]].concat()).is_err());
        }

        #[test]
        fn anything_is_read_or_refused(
            begins_well in any::<bool>(),
            mut bytes in prop::collection::vec(any::<u8>(), 0..2 * LONGEST),
        ) {
            if begins_well {
                let head = begin(u32::try_from(bytes.len() / RANGE_BYTES).unwrap());
                bytes.splice(..head.len().min(bytes.len()), head);
            }
            if let Ok(request) = Request::parse(&bytes) {
                prop_assert!((1..=MAX_RANGES).contains(&request.ranges.len()));
                prop_assert_eq!(request.to_bytes(), bytes.as_slice());
            }
            let _ = Answer::parse(&bytes);
        }

        #[test]
        fn an_answer_is_read_as_it_was_written(reason in "[ -~]{0,300}") {
            prop_assert_eq!(Answer::parse(&Answer::Serving.to_bytes()), Ok(Answer::Serving));
            let told = reason.chars().take(TOLD_BYTES).collect();
            let bytes = Answer::Refused(reason).to_bytes();
            prop_assert!(bytes.len() <= LONGEST);
            prop_assert_eq!(Answer::parse(&bytes), Ok(Answer::Refused(told)));
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Request {
            ranges: vec![(0, 1, 2)],
        }
        .to_bytes();
        bytes[8] = 2;
        assert_eq!(Request::parse(&bytes), Err(Malformed::Version(2)));
        bytes[0] = 0;
        assert_eq!(Request::parse(&bytes), Err(Malformed::Magic));
        assert_eq!(Request::parse(b"MEGAHOST"), Err(Malformed::Length));
    }
}
