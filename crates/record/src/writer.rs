//! Writing a recording as it is made.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use crate::format::acted::WireActed;
use crate::format::block::{self, Kind};
use crate::format::called::{WireCall, WireCalls};
use crate::format::compacted::WireCompacted;
use crate::format::header::WireHeader;
use crate::format::wire::{WireEnd, WireGlance, WireLook};
use crate::format::{MAGIC, VERSION};
use crate::look::{Header, Look};

/// Bytes of looks that make a block full.
const FULL: usize = 256 << 10;
/// The time whose looks make a block full: what a recorder that is killed loses.
const LONG: Duration = Duration::from_secs(10);

/// Writes a recording. It keeps the looks of one block in memory.
pub struct Writer<W> {
    out: W,
    block: Vec<u8>,
    /// When the first look of the block was.
    since: Option<Duration>,
    looks: u64,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// Where `out` takes nothing.
    pub fn new(mut out: W, header: &Header) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let begun = (MAGIC.len() + VERSION.to_le_bytes().len()) as u64;
        let bytes = block::write(
            &mut out,
            Kind::Header,
            &serde_json::to_vec(&WireHeader::new(header))?,
        )?;
        out.flush()?;
        Ok(Writer {
            out,
            block: Vec::new(),
            since: None,
            looks: 0,
            bytes: begun + bytes,
        })
    }

    /// Adds a look, whose observation is in its normal form ([`mega_core::Observation::normalise`]).
    ///
    /// # Errors
    /// Where the recording cannot be written any further.
    pub fn write(&mut self, look: &Look) -> io::Result<()> {
        let actions: Vec<WireActed> = look.actions.iter().map(WireActed::from).collect();
        let calls = WireCalls {
            calls: look.calls.iter().map(WireCall::from).collect(),
            lost: look.calls_lost,
        };
        let compacted = look.compacted.iter().map(WireCompacted::from);
        let compacted: Vec<WireCompacted> = compacted.collect();
        let processes = look.observation.processes.iter();
        let cpu_times: Vec<Option<Duration>> = processes.map(|process| process.cpu_time).collect();
        let glances = look.observation.glances.iter().map(WireGlance::from);
        let glances: Vec<WireGlance> = glances.collect();
        let since_version_2 = (actions, calls, compacted, cpu_times, glances);
        let content = encoded(&(WireLook::from(look), since_version_2))?;
        // So that no block becomes longer than one can be because of what it held already.
        if self.block.len() + content.len() > block::LONGEST {
            self.close_block()?;
        }
        self.block.extend(content);
        self.looks += 1;
        let since = *self.since.get_or_insert(look.at);
        if self.block.len() >= FULL || look.at.saturating_sub(since) >= LONG {
            self.close_block()?;
        }
        Ok(())
    }

    fn close_block(&mut self) -> io::Result<()> {
        self.since = None;
        if self.block.is_empty() {
            return Ok(());
        }
        self.bytes += block::write(&mut self.out, Kind::Looks, &self.block)?;
        self.block.clear();
        self.out.flush()
    }

    /// Looks written so far.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// Bytes written so far, those of looks that wait for their block not among them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the recording. Returns what it was written to, and its length in bytes.
    ///
    /// # Errors
    /// Where the rest cannot be written.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.close_block()?;
        let end = encoded(&WireEnd { looks: self.looks })?;
        self.bytes += block::write(&mut self.out, Kind::End, &end)?;
        self.out.flush()?;
        Ok((self.out, self.bytes))
    }
}

fn encoded(value: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(value).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
