//! The records of damo, the tool of Linux's access monitor DAMON: read as recordings, and written from them.
//!
//! A file of damo's is a JSON array, plain or as one zlib stream. Each element is what was seen of one target: a program's addresses.
//! It has `intervals` (how often DAMON looked at a page, `sample_us`, and over what time it counted, `aggr_us`) and `snapshots`. Each
//! of these has its `regions`, with the number of samples at which the page that stands for a region had been accessed. Numbers
//! may be strings, with commas in them. Found by converting records with damo 3.4.3, the form that it writes for a file.
//!
//! | DAMON's | here |
//! |---|---|
//! | samples of a region, of all in the interval | that part of its base pages was accessed: the least that it can be |
//! | a region | all of it is taken to be mapped, by base pages: DAMON does not say |
//! | free memory | not known: nothing is free |

mod export;
mod import;
mod number;

pub use export::{ExportError, export};
pub use import::{ImportError, Record, read};

/// Samples of an aggregation in what is exported: as many as a region has base pages, so that none of them is lost.
const SAMPLES: u64 = 512;
