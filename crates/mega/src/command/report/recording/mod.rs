//! A recording as one page.

mod gather;
mod heat;
mod page;

use std::path::Path;

use mega_record::Look;
use mega_record::overview::Overview;

use crate::exit::Failure;
use crate::recording;
use gather::Gathered;

pub(super) use gather::RecordedReport;
pub(super) use page::draw;

/// Reads a recording twice: for its length and processes, and for what the page shows over time.
///
/// # Errors
/// Where it is no recording, cannot be read, or has no look.
pub(super) fn read(path: &Path) -> Result<RecordedReport, Failure> {
    let mut first = recording::open(path)?;
    let mut overview = Overview::default();
    for look in first.by_ref() {
        overview.add(&look);
    }
    recording::need_look(path, first.usable())?;
    let mut gathered = Gathered::new(overview, first.header().clone(), first.usable().clone());
    recording::open(path)?.for_each(|look: Look| gathered.add(&look));
    Ok(gathered.report(path))
}
