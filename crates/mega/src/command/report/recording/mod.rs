//! A recording as one page.

mod gather;
mod heat;
mod page;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use mega_record::overview::Overview;
use mega_record::{Look, Reader};

use crate::exit::Failure;
use gather::Gathered;

pub(super) use gather::RecordedReport;
pub(super) use page::draw;

/// Reads a recording twice: for its length and processes, and for what the page shows over time.
///
/// # Errors
/// Where it is no recording, or cannot be read.
pub(super) fn read(path: &Path) -> Result<RecordedReport, Failure> {
    let mut first = reader(path)?;
    let mut overview = Overview::default();
    for look in first.by_ref() {
        overview.add(&look);
    }
    let mut gathered = Gathered::new(overview, first.header().clone(), first.usable().clone());
    reader(path)?.for_each(|look: Look| gathered.add(&look));
    Ok(gathered.report(path))
}

fn reader(path: &Path) -> Result<Reader<BufReader<File>>, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        let path = path.display();
        Failure::Failed(format!("cannot read the recording {path}: {why}"))
    };
    let file = File::open(path).map_err(|error| cannot(&error))?;
    Reader::new(BufReader::new(file)).map_err(|error| cannot(&error))
}
