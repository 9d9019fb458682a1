//! Reading a recording, and saying how much of it was usable.

use std::fmt;
use std::io::{self, Read};
use std::time::Duration;

use mega_core::Call;
use serde::Deserialize;

use crate::format::acted::WireActed;
use crate::format::block::{self, BlockError, Kind};
use crate::format::called::WireCalls;
use crate::format::compacted::WireCompacted;
use crate::format::header::WireHeader;
use crate::format::wire::{self, WireEnd, WireGlance, WireLook};
use crate::format::{MAGIC, OLDEST, VERSION};
use crate::look::{Acted, Compacted, Header, Look};

/// Why a file cannot be read as a recording at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is something else.
    #[error("it is not a recording: it does not begin as those of `mega record` do")]
    NoRecording,
    /// It is of another version.
    #[error(
        "it is a recording of version {0}, and this mega reads the versions {OLDEST} to {VERSION}: read it with the mega that made it"
    )]
    OtherVersion(u32),
    /// Its header is not whole.
    #[error("its header is not usable: {0}")]
    Header(String),
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// How a recording ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    Whole,
    /// In the middle: the recorder was killed, or it still records, or the file was cut.
    Cut,
    /// Something in it is not as it was written.
    Damaged(String),
}

/// How much of a recording was usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usable {
    /// Looks.
    pub looks: u64,
    /// The time of the last of them.
    pub until: Duration,
    /// Bytes from the beginning on.
    pub bytes: u64,
    /// How it ended.
    pub ending: Ending,
}

impl fmt::Display for Usable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usable {
            looks,
            until,
            bytes,
            ending,
        } = self;
        let seconds = until.as_secs_f64();
        let used = format!("{looks} looks over {seconds:.1} s (its first {bytes} bytes)");
        match ending {
            Ending::Whole => write!(f, "all of it is usable: {used}"),
            Ending::Cut => write!(f, "it was cut off; usable are {used}"),
            Ending::Damaged(how) => write!(f, "it is damaged ({how}); usable are {used}"),
        }
    }
}

/// Reads a recording look by look: an iterator, which ends where nothing usable follows. It keeps one block in memory.
pub struct Reader<R> {
    input: R,
    version: u32,
    header: Header,
    /// The content of the block that is read, and how far it was.
    block: Vec<u8>,
    place: usize,
    usable: Usable,
    /// Bytes of what was read, with those of the block that is read.
    bytes: u64,
    is_over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the beginning of a recording.
    ///
    /// # Errors
    /// Where it is none that this version reads.
    pub fn new(mut input: R) -> Result<Self, OpenError> {
        let mut begin = [0; 12];
        input
            .read_exact(&mut begin)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => OpenError::NoRecording,
                _ => OpenError::Io(error),
            })?;
        let (magic, version) = begin.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(OpenError::NoRecording);
        }
        let version = version
            .iter()
            .rev()
            .fold(0, |version, byte| version << 8 | u32::from(*byte));
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(OpenError::OtherVersion(version));
        }
        let unusable = |why: &dyn fmt::Display| OpenError::Header(why.to_string());
        let (kind, content, length) = match block::read(&mut input) {
            Ok(Some(block)) => block,
            Ok(None) => return Err(unusable(&BlockError::Cut)),
            Err(BlockError::Io(error)) => return Err(error.into()),
            Err(error) => return Err(unusable(&error)),
        };
        if kind != Kind::Header {
            return Err(unusable(&"another block is in its place"));
        }
        let header: WireHeader<'_> =
            serde_json::from_slice(&content).map_err(|error| unusable(&error))?;
        let Some(header) = header.of_version(version) else {
            return Err(unusable(
                &"it belongs to another version of the format than the file begins with",
            ));
        };
        let bytes = begin.len() as u64 + length;
        Ok(Reader {
            input,
            version,
            header,
            block: Vec::new(),
            place: 0,
            usable: Usable {
                looks: 0,
                until: Duration::ZERO,
                bytes,
                ending: Ending::Cut,
            },
            bytes,
            is_over: false,
        })
    }

    /// What is said of the recording once.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How much was usable: all that was until now, and of all once the iterator has ended.
    #[must_use]
    pub fn usable(&self) -> &Usable {
        &self.usable
    }

    /// Reads the next block of looks. False where none follows.
    fn read_block(&mut self) -> bool {
        let ending = match block::read(&mut self.input) {
            Ok(Some((Kind::Looks, content, length))) => {
                self.block = content;
                self.place = 0;
                self.bytes += length;
                return true;
            }
            Ok(Some((Kind::End, content, length))) => self.end(&content, length),
            Ok(Some((Kind::Header, ..))) => Ending::Damaged("a second header".to_owned()),
            Ok(None) | Err(BlockError::Cut) => Ending::Cut,
            Err(error) => Ending::Damaged(error.to_string()),
        };
        self.usable.ending = ending;
        false
    }

    fn end(&mut self, content: &[u8], length: u64) -> Ending {
        match postcard::from_bytes::<WireEnd>(content) {
            Ok(end) if end.looks == self.usable.looks => {
                self.usable.bytes += length;
                Ending::Whole
            }
            Ok(end) => Ending::Damaged(format!(
                "of {} looks {} are there",
                end.looks, self.usable.looks
            )),
            Err(_) => Ending::Damaged("its end makes no sense".to_owned()),
        }
    }

    /// The next look of the block.
    fn next_of_block(&mut self) -> Result<Look, String> {
        let rest = self.block.get(self.place..).unwrap_or_default();
        let (wire, behind) = decoded(self.version, rest)
            .map_err(|error| format!("a look makes no sense: {error}"))?;
        self.place = self.block.len() - behind.len();
        let mut look = Look::try_from(wire.look).map_err(|error| error.to_string())?;
        let actions = wire.actions.into_iter().map(Acted::try_from);
        look.actions = actions
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let called = wire.calls.calls.into_iter().map(Call::try_from);
        look.calls = called
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        look.calls_lost = wire.calls.lost;
        let compacted = wire.compacted.into_iter().map(Compacted::try_from);
        look.compacted = compacted
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let processes = look.observation.processes.iter_mut();
        for (process, cpu_time) in processes.zip(wire.cpu_times) {
            process.cpu_time = cpu_time;
        }
        look.observation.glances =
            wire::glances(wire.glances).map_err(|error| error.to_string())?;
        if self.usable.looks > 0 && look.at < self.usable.until {
            return Err("a look is older than the one before it".to_owned());
        }
        Ok(look)
    }
}

/// A look as it is written in this version.
struct Decoded {
    look: WireLook,
    actions: Vec<WireActed>,
    calls: WireCalls,
    compacted: Vec<WireCompacted>,
    cpu_times: Vec<Option<Duration>>,
    glances: Vec<WireGlance>,
}

/// The look with which these bytes of a recording of this version begin, and what is behind it.
fn decoded(version: u32, bytes: &[u8]) -> postcard::Result<(Decoded, &[u8])> {
    let (look, bytes) = postcard::take_from_bytes(bytes)?;
    let (actions, bytes) = part_since(2, version, bytes)?;
    let (calls, bytes) = part_since(3, version, bytes)?;
    let (compacted, bytes) = part_since(5, version, bytes)?;
    let (cpu_times, bytes) = part_since(6, version, bytes)?;
    let (glances, bytes) = part_since(7, version, bytes)?;
    let decoded = Decoded {
        look,
        actions,
        calls,
        compacted,
        cpu_times,
        glances,
    };
    Ok((decoded, bytes))
}

/// What looks have from version `first` on.
fn part_since<'b, T: Default + Deserialize<'b>>(
    first: u32,
    version: u32,
    bytes: &'b [u8],
) -> postcard::Result<(T, &'b [u8])> {
    if version < first {
        return Ok((T::default(), bytes));
    }
    postcard::take_from_bytes(bytes)
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Look;

    fn next(&mut self) -> Option<Look> {
        while !self.is_over && self.place >= self.block.len() {
            self.is_over = !self.read_block();
        }
        if self.is_over {
            return None;
        }
        match self.next_of_block() {
            Ok(look) => {
                self.usable.looks += 1;
                self.usable.until = look.at;
                if self.place >= self.block.len() {
                    self.usable.bytes = self.bytes;
                }
                Some(look)
            }
            Err(how) => {
                self.is_over = true;
                self.usable.ending = Ending::Damaged(how);
                None
            }
        }
    }
}
