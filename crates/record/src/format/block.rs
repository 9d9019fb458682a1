//! Blocks: pieces of a recording, each compressed and with a checksum of its own.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// Bytes of a frame: its kind, the length stored, the length of the content, the checksum.
const FRAME: usize = 13;
/// The longest content. A look at 16 TiB of which no two neighbouring regions are alike is shorter.
pub const LONGEST: usize = 64 << 20;
/// Deflate makes nothing longer than that.
const LONGEST_STORED: usize = LONGEST + LONGEST / 1000 + 64;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What is said of the recording once.
    Header,
    /// Looks.
    Looks,
    /// The end.
    End,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Kind::Header => 0,
            Kind::Looks => 1,
            Kind::End => 2,
        }
    }

    fn of(code: u8) -> Option<Self> {
        [Kind::Header, Kind::Looks, Kind::End]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// Why a block cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// The file ends in its middle.
    #[error("it ends in the middle of a block")]
    Cut,
    /// It is not as it was written.
    #[error("{0}")]
    Damaged(&'static str),
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Writes a block. Returns how many bytes it takes.
///
/// # Errors
/// Where `out` takes no more, and where `content` is longer than [`LONGEST`].
pub fn write(out: &mut impl Write, kind: Kind, content: &[u8]) -> io::Result<u64> {
    let too_long = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "one look is too large for a block",
        )
    };
    if content.len() > LONGEST {
        return Err(too_long());
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content)?;
    let stored = encoder.finish()?;
    let mut frame = [0; FRAME];
    frame[0] = kind.code();
    let lengths = [stored.len(), content.len()];
    for (place, length) in frame[1..9].chunks_exact_mut(4).zip(lengths) {
        let length = u32::try_from(length).map_err(|_| too_long())?;
        place.copy_from_slice(&length.to_le_bytes());
    }
    let sum = checksum(&frame, &stored);
    frame[9..].copy_from_slice(&sum.to_le_bytes());
    out.write_all(&frame)?;
    out.write_all(&stored)?;
    Ok((FRAME + stored.len()) as u64)
}

/// Reads the next block: its kind, its content and how many bytes it took. `None` where there is none.
///
/// # Errors
/// Where it is not whole. `input` is somewhere in its middle then.
pub fn read(input: &mut impl Read) -> Result<Option<(Kind, Vec<u8>, u64)>, BlockError> {
    let mut frame = [0; FRAME];
    match fill(input, &mut frame)? {
        0 => return Ok(None),
        FRAME => {}
        _ => return Err(BlockError::Cut),
    }
    let number =
        |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let (stored, length) = (number(1) as usize, number(5) as usize);
    if stored > LONGEST_STORED || length > LONGEST {
        return Err(BlockError::Damaged("a block is longer than any can be"));
    }
    // Memory is taken as it is filled: a length that is wrong costs none.
    let mut content = Vec::new();
    input
        .by_ref()
        .take(stored as u64)
        .read_to_end(&mut content)?;
    if content.len() < stored {
        return Err(BlockError::Cut);
    }
    if checksum(&frame, &content) != number(9) {
        return Err(BlockError::Damaged("a block's checksum is wrong"));
    }
    let kind = Kind::of(frame[0]).ok_or(BlockError::Damaged("a block is of no known kind"))?;
    let mut whole = Vec::new();
    DeflateDecoder::new(content.as_slice())
        .take(length as u64 + 1)
        .read_to_end(&mut whole)
        .map_err(|_| BlockError::Damaged("a block cannot be decompressed"))?;
    if whole.len() != length {
        return Err(BlockError::Damaged("a block has not the length it claims"));
    }
    Ok(Some((kind, whole, (FRAME + stored) as u64)))
}

/// Of the frame without its checksum, and of what is stored.
fn checksum(frame: &[u8; FRAME], stored: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[..9]);
    hasher.update(stored);
    hasher.finalize()
}

/// Reads until `buffer` is full or nothing is left. Returns how much was read.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
