//! What the patched kernel is told about giant pages for an experiment, and what it counts of them. Nothing is put back:
//! the machine is one that is thrown away afterwards.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mega_linux::kernel::{Kernel, LiveKernel};
use mega_linux::physical::vmstat;
use mega_linux::settings::chunk_order;
use serde::{Deserialize, Serialize};

use crate::error::Error;

const SIZES: &str = "/sys/kernel/mm/transparent_hugepage";
const GIANT: &str = "hugepages-1048576kB";
const HUGE: &str = "hugepages-2048kB";
/// How long the pool of zeroed chunks may take to fill.
const PATIENCE: Duration = Duration::from_secs(300);

/// Which pages faults take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Giant, else huge, else base pages.
    AllSizes,
    /// Giant, else base pages.
    GiantOrBase,
}

/// Has faults take these pages, whoever the program is, and khugepaged none: what is promoted, a policy promotes.
pub(super) fn set_faults(faults: Faults) -> Result<(), Error> {
    let huge = match faults {
        Faults::AllSizes => "always",
        Faults::GiantOrBase => "never",
    };
    write(&of_size(GIANT, "enabled"), "always")?;
    write(&of_size(HUGE, "enabled"), huge)?;
    let sleep = Path::new(SIZES).join("khugepaged/scan_sleep_millisecs");
    write(&sleep, &u32::MAX.to_string())
}

/// Whether the kernel empties one chunk after the other, or the one with the least in it first.
pub(super) fn set_sequential(sequential: bool) -> Result<(), Error> {
    let value = if sequential { "Y" } else { "N" };
    write(Path::new(chunk_order::PATH), value)
}

/// How many zeroed chunks are kept ready for faults.
pub(super) fn set_pool(chunks: u32) -> Result<(), Error> {
    write(&of_size(GIANT, "pool_target"), &chunks.to_string())
}

/// Waits until the pool holds that many chunks.
pub(super) fn wait_for_pool(chunks: u64) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        let held = number(&of_size(GIANT, "pool_chunks"))?;
        if held == chunks {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            return Err(Error::Failed(format!(
                "the pool holds {held} chunks instead of {chunks}"
            )));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What the kernel counted since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Giant pages that faults took, and those that they could not have.
    pub(super) faulted: u64,
    pub(super) fell_back: u64,
    /// Chunks that were emptied for somebody, those that could not be, and the frames moved out of either.
    pub(super) emptied: u64,
    pub(super) kept: u64,
    pub(super) moved: u64,
}

impl Counts {
    pub(super) fn read() -> Result<Self, Error> {
        let events = text(Path::new("/proc/vmstat"))?;
        Ok(Counts {
            faulted: event(&events, "anon_pud_fault_alloc")?,
            fell_back: event(&events, "anon_pud_fault_fallback")?,
            emptied: event(&events, "anon_pud_compact_success")?,
            kept: event(&events, "anon_pud_compact_fail")?,
            moved: event(&events, "anon_pud_compact_moved")?,
        })
    }

    pub(super) fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            faulted: self.faulted - earlier.faulted,
            fell_back: self.fell_back - earlier.fell_back,
            emptied: self.emptied - earlier.emptied,
            kept: self.kept - earlier.kept,
            moved: self.moved - earlier.moved,
        }
    }
}

fn of_size(size: &str, file: &str) -> PathBuf {
    Path::new(SIZES).join(size).join(file)
}

fn write(path: &Path, value: &str) -> Result<(), Error> {
    LiveKernel
        .write(path, value.as_bytes())
        .map_err(|error| Error::io(format!("write {value} to {}", path.display()), error))
}

fn text(path: &Path) -> Result<String, Error> {
    LiveKernel
        .read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|error| Error::io(format!("read {}", path.display()), error))
}

fn number(path: &Path) -> Result<u64, Error> {
    let text = text(path)?;
    text.trim()
        .parse()
        .map_err(|_| Error::Failed(format!("{} holds {text:?}", path.display())))
}

/// The value of a line of `/proc/vmstat`.
fn event(events: &str, name: &str) -> Result<u64, Error> {
    vmstat::event(events, name).ok_or_else(|| Error::Missing(format!("/proc/vmstat has no {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_found_by_its_whole_name() {
        let events = "thp_split 3\nthp_split_pmd 7\n";
        assert_eq!(event(events, "thp_split").unwrap(), 3);
        assert_eq!(event(events, "thp_split_pmd").unwrap(), 7);
        assert!(event(events, "thp").is_err());
    }
}
