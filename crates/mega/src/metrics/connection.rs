//! One client: reads its request, writes the response, and closes. It never blocks.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::request::{self, Reply};
use crate::manager::watchdog;

/// How long a client may take in all. Prometheus gives up after 10 s.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that one read takes.
const PIECE: usize = 1024;

/// One client.
pub(super) struct Connection<S> {
    pub(super) stream: S,
    /// When it is cut off.
    pub(super) deadline: Instant,
    stage: Stage,
}

enum Stage {
    /// What it has sent so far.
    Reading(Vec<u8>),
    /// What it gets, and how much of that it has taken.
    Writing(Arc<[u8]>, usize),
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// For the client to send more.
    ToRead,
    /// For the client to take more.
    ToWrite,
}

impl<S: Read + Write> Connection<S> {
    /// A client that came at `now`. Its stream must not block.
    pub(super) fn new(stream: S, now: Instant) -> Self {
        Connection {
            stream,
            deadline: now + PATIENCE,
            stage: Stage::Reading(Vec::new()),
        }
    }

    /// What it waits for.
    pub(super) fn waits(&self) -> Waits {
        match self.stage {
            Stage::Reading(_) => Waits::ToRead,
            Stage::Writing(..) => Waits::ToWrite,
        }
    }

    /// Goes on as far as it can without waiting. `page` makes the response that holds the metrics. Returns false once the
    /// connection is of no more use.
    pub(super) fn advance(&mut self, page: impl FnOnce() -> Arc<[u8]>) -> bool {
        if let Stage::Reading(sent) = &mut self.stage {
            match receive(&mut self.stream, sent) {
                Received::Nothing => return true,
                Received::End => return false,
                Received::Request(Reply::Metrics) => self.stage = Stage::Writing(page(), 0),
                Received::Request(Reply::Health) => {
                    let response = request::health(watchdog::is_alive());
                    self.stage = Stage::Writing(response.into(), 0);
                }
                Received::Request(Reply::Refusal(refusal)) => {
                    self.stage = Stage::Writing(refusal.response().into(), 0);
                }
            }
        }
        let Stage::Writing(response, taken) = &mut self.stage else {
            return true;
        };
        while let Some(rest) = response.get(*taken..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return false,
                Ok(written) => *taken += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        false
    }
}

/// What came of reading.
enum Received {
    /// No whole request yet.
    Nothing,
    /// The client has gone.
    End,
    Request(Reply),
}

/// Reads until a request is whole or nothing more is there. What `sent` holds is bounded.
fn receive(stream: &mut impl Read, sent: &mut Vec<u8>) -> Received {
    let mut piece = [0; PIECE];
    loop {
        let room = request::LONGEST.saturating_sub(sent.len()).min(PIECE);
        match stream.read(&mut piece[..room]) {
            Ok(0) => return Received::End,
            Ok(length) => sent.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Received::Nothing,
            Err(_) => return Received::End,
        }
        if let Some(reply) = request::reply(sent) {
            return Received::Request(reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// A client that sends pieces and takes pieces, and is not ready in between.
    struct Script {
        sends: VecDeque<Vec<u8>>,
        /// How much it takes in one go; 0 means that it is not ready.
        takes: VecDeque<usize>,
        got: Vec<u8>,
        /// Whether it closes once it has sent all.
        closes: bool,
    }

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let Some(mut piece) = self.sends.pop_front() else {
                return if self.closes {
                    Ok(0)
                } else {
                    Err(ErrorKind::WouldBlock.into())
                };
            };
            if piece.is_empty() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let length = piece.len().min(buffer.len());
            buffer[..length].copy_from_slice(&piece[..length]);
            let rest = piece.split_off(length);
            if !rest.is_empty() {
                self.sends.push_front(rest);
            }
            Ok(length)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            match self.takes.pop_front().unwrap_or(usize::MAX) {
                0 => Err(ErrorKind::WouldBlock.into()),
                most => {
                    let length = most.min(bytes.len());
                    self.got.extend_from_slice(&bytes[..length]);
                    Ok(length)
                }
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Lets a client talk until the connection ends or nothing more happens. Returns what it got, and how often the page
    /// was made.
    fn talk(script: Script) -> (Vec<u8>, u32) {
        let mut connection = Connection::new(script, Instant::now());
        let mut pages = 0;
        for _ in 0..20_000 {
            let goes_on = connection.advance(|| {
                pages += 1;
                Arc::from(&b"the page"[..])
            });
            if !goes_on {
                break;
            }
        }
        (connection.stream.got, pages)
    }

    #[test]
    fn a_request_in_pieces_is_answered_in_pieces() {
        let request = b"GET /metrics HTTP/1.1\r\n\r\n";
        let sends = request.iter().flat_map(|byte| [vec![*byte], vec![]]);
        let (got, pages) = talk(Script {
            sends: sends.collect(),
            takes: [0, 1, 0, 0, 3].into(),
            got: Vec::new(),
            closes: false,
        });
        assert_eq!((got.as_slice(), pages), (&b"the page"[..], 1));
    }

    proptest! {
        #[test]
        fn rubbish_is_refused_or_cut_off_and_never_makes_the_page(
            sends in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 0..12),
            takes in prop::collection::vec(0..50_usize, 0..50),
            closes: bool,
        ) {
            let (got, pages) = talk(Script { sends: sends.into(), takes: takes.into(), got: Vec::new(), closes });
            prop_assert_eq!(pages, 0);
            prop_assert!(got.is_empty() || got.starts_with(b"HTTP/1.1 4"));
        }

        #[test]
        fn what_almost_is_a_request_is_survived(
            method in "(GET|POST|get|\\PC{0,9})",
            path in "(/metrics|/|\\PC{0,99})",
            headers in prop::collection::vec("[A-Za-z:-]{0,40}: ?[ -~]{0,80}(\r\n|\n|)", 0..80),
            cut in 0..9000_usize,
            closes: bool,
        ) {
            let mut sent = format!("{method} {path} HTTP/1.1\r\n{}\r\n", headers.concat()).into_bytes();
            sent.truncate(cut);
            let (got, pages) = talk(Script { sends: [sent].into(), takes: VecDeque::new(), got: Vec::new(), closes });
            prop_assert!(pages == 0 || got == b"the page");
        }
    }
}
