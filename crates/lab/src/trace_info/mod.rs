//! `mega lab trace-info`: what a recording has, and a heat map of it: addresses against time.

mod picture;
mod pixels;
mod terminal;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use mega_core::ProcessId;
use mega_record::overview::heat::{HeatMap, Resolution};
use mega_record::overview::{
    ActionCounts, CallCounts, CompactionCounts, Overview, ProcessOverview,
};
use mega_record::{Header, Reader, Usable};
use serde::Serialize;

use crate::Error;

/// The version of what `--json` prints.
const VERSION: u32 = 1;

/// `mega lab trace-info`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording, which `mega record` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The process whose memory is drawn [default: the one with the most resident]
    #[arg(long)]
    pid: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Also draw the heat map as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also draw it finely: a pixel or a few for each look and some regions, without letters
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Info {
    version: u32,
    header: Header,
    looks: u64,
    missed: u64,
    seconds: f64,
    usable_bytes: u64,
    /// How much of it was usable, in words.
    usable: String,
    /// Who else used Accessed bits or changed page sizes, at any time.
    others: Vec<String>,
    /// What a manager did, where one recorded itself.
    actions: ActionCounts,
    /// What its compaction did.
    compaction: CompactionCounts,
    /// What its processes did to their mappings, where that was seen.
    calls: CallCounts,
    processes: Vec<ProcessOverview>,
    /// `None` where nothing of the process was mapped.
    heat: Option<HeatMap>,
}

/// Reads the recording twice: for its measures, and to draw it.
///
/// # Errors
/// Where it is no recording, or a file cannot be read or written.
pub fn run(args: &Args) -> Result<String, Error> {
    let (overview, header, usable) = overview(&args.file)?;
    let process = chosen(&overview, args.pid)?;
    let heat_at = |resolution| match process {
        Some(process) => heat_map(&args.file, &overview, process, &usable, resolution),
        None => Ok(None),
    };
    let heat = heat_at(Resolution::TEXT)?;
    if let Some(file) = &args.png {
        let heat = heat_at(pixels::resolution(usable.looks))?.ok_or_else(|| {
            Error::Failed("there is nothing to draw: nothing was mapped".to_owned())
        })?;
        pixels::write(file, &header.subject, &heat)?;
    }
    let info = Info {
        version: VERSION,
        header,
        looks: usable.looks,
        missed: overview.missed,
        seconds: usable.until.as_secs_f64(),
        usable_bytes: usable.bytes,
        usable: usable.to_string(),
        others: overview.others.into_iter().collect(),
        actions: overview.actions,
        compaction: overview.compaction,
        calls: overview.calls,
        processes: overview
            .processes
            .into_values()
            .map(|known| known.overview)
            .collect(),
        heat,
    };
    if let Some(file) = &args.svg {
        std::fs::write(file, picture::draw(&info))
            .map_err(|error| Error::io(format!("write {}", file.display()), error))?;
    }
    if args.json {
        let json = serde_json::to_string_pretty(&info);
        return json
            .map(|text| text + "\n")
            .map_err(|error| Error::Failed(format!("cannot write JSON: {error}")));
    }
    Ok(terminal::in_words(&info))
}

fn open(file: &Path) -> Result<Reader<BufReader<File>>, Error> {
    let attempted = || format!("read {}", file.display());
    let opened = File::open(file).map_err(|error| Error::io(attempted(), error))?;
    Reader::new(BufReader::new(opened))
        .map_err(|error| Error::Failed(format!("cannot {}: {error}", attempted())))
}

fn overview(file: &Path) -> Result<(Overview, Header, Usable), Error> {
    let mut reader = open(file)?;
    let mut overview = Overview::default();
    for look in reader.by_ref() {
        overview.add(&look);
    }
    Ok((overview, reader.header().clone(), reader.usable().clone()))
}

/// Whose memory is drawn. `None` where nobody is there.
fn chosen(overview: &Overview, pid: Option<u32>) -> Result<Option<ProcessId>, Error> {
    let Some(pid) = pid else {
        return Ok(overview.by_size().first().copied());
    };
    let mut processes = overview.processes.keys().copied();
    match processes.find(|process| process.pid == pid) {
        Some(process) => Ok(Some(process)),
        None => Err(Error::Failed(format!(
            "the recording has no process {pid}; without --pid the list shows those that it has"
        ))),
    }
}

fn heat_map(
    file: &Path,
    overview: &Overview,
    process: ProcessId,
    usable: &Usable,
    resolution: Resolution,
) -> Result<Option<HeatMap>, Error> {
    let Some(mut heat) = overview.heat_map(process, usable.until, resolution) else {
        return Ok(None);
    };
    for look in open(file)? {
        let actions = look.actions.iter();
        actions
            .filter(|acted| acted.action.target.process == process)
            .for_each(|acted| heat.add_action(acted));
        let compacted = look.compacted.iter();
        compacted.for_each(|compacted| heat.add_compacted(compacted));
        let calls = look.calls.iter().filter(|call| call.process == process);
        calls.for_each(|call| heat.add_call(call));
        let mut seen = look.observation.processes.iter();
        heat.add(look.at, seen.find(|seen| seen.process == process));
    }
    Ok(Some(heat))
}
