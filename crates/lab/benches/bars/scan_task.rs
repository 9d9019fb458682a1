//! Reading and clearing Accessed bits in one pass by the kernel module's SCAN_TASK, against a BPF scan and then
//! clear_refs, over this process's own memory, of which every page is accessed before each.
//!
//! The module keeps an access known to the kernel's reclaim by a flag of the page, which clear_refs clears. A manager
//! finds it set in all scans but its first; so here the second of two scans in a row is timed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mega_lab::Error;
use mega_lab::mapping::Area;
use mega_lab::translations::Translations;
use mega_linux::kernel::Kernel;
use mega_linux::observe::tracker::{BpfTracker, ModuleTracker, Tracker};

use crate::bar::{Bar, Wanted};
use crate::setting::{Setting, median};
use crate::timed_scan::{milliseconds_per_gib, timed_scan};

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Bar>, Error> {
    let missing = |e: mega_linux::observe::tracker::Unavailable| Error::Missing(e.to_string());
    let mut module = ModuleTracker::open(Arc::clone(&setting.kernel)).map_err(missing)?;
    let mut bpf = BpfTracker::open(Arc::clone(&setting.kernel)).map_err(missing)?;
    let kernel = setting.kernel.as_ref();
    let mut memory = Memory::map(setting)?;
    let (mut ratios, mut one_pass, mut two_passes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setting.repetitions {
        memory.access_all()?;
        memory.scan(kernel, &mut module)?;
        memory.access_all()?;
        let scanned = memory.scan(kernel, &mut module)?;
        memory.access_all()?;
        let read = memory.scan(kernel, &mut bpf)?;
        let cleared = clear_refs(kernel)?;
        ratios.push(scanned.as_secs_f64() / (read + cleared).as_secs_f64());
        one_pass.push(memory.per_gib(scanned));
        two_passes.push(memory.per_gib(read + cleared));
    }
    eprintln!(
        "bars: per GiB of base pages, all accessed: SCAN_TASK with CLEAR {:.2} ms, a BPF scan and clear_refs {:.2} ms",
        median(&one_pass)?,
        median(&two_passes)?
    );
    Ok(vec![Bar {
        name: "SCAN_TASK with CLEAR, of a BPF scan and clear_refs",
        unit: "x",
        measured: median(&ratios)?,
        wanted: Wanted::AtMost(1.0 / 3.0),
    }])
}

/// Base pages of this process.
struct Memory {
    area: Area,
    translations: Translations,
}

impl Memory {
    fn map(setting: &Setting) -> Result<Self, Error> {
        let bytes = usize::try_from(setting.size).unwrap_or(usize::MAX);
        let area = Area::map(bytes)
            .map_err(|e| Error::io(format!("mapping {bytes} bytes of memory"), e))?;
        area.advise_base()
            .map_err(|e| Error::io("asking for base pages", e))?;
        let translations = Translations::new()
            .map_err(|e| Error::io("mapping memory to have the TLB flushed by", e))?;
        Ok(Memory { area, translations })
    }

    /// Writes to every page; without the TLB's translations from before, with which no Accessed bit is set.
    fn access_all(&mut self) -> Result<(), Error> {
        self.translations
            .forget()
            .map_err(|e| Error::io("having the TLB flushed", e))?;
        self.area.touch_all();
        Ok(())
    }

    /// One scan, which must find every page accessed.
    fn scan(&self, kernel: &dyn Kernel, tracker: &mut dyn Tracker) -> Result<Duration, Error> {
        let range = self.area.start()..self.area.start() + self.area.bytes() as u64;
        let (regions, elapsed) = timed_scan(kernel, tracker, std::process::id(), &range)?;
        let accessed: usize = regions.iter().map(|r| usize::from(r.accessed)).sum();
        if accessed != self.area.pages() {
            return Err(Error::Failed(format!(
                "the {} tracker found {accessed} of {} pages accessed",
                tracker.kind().name(),
                self.area.pages()
            )));
        }
        Ok(elapsed)
    }

    fn per_gib(&self, time: Duration) -> f64 {
        milliseconds_per_gib(time, self.area.bytes() as u64)
    }
}

fn clear_refs(kernel: &dyn Kernel) -> Result<Duration, Error> {
    let path = Path::new("/proc/self/clear_refs");
    let started = Instant::now();
    kernel
        .write(path, b"1")
        .map_err(|e| Error::io(format!("writing {}", path.display()), e))?;
    Ok(started.elapsed())
}
