//! `mega lab damo`: a record of damo's becomes a recording, and a recording one that damo reads.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};

use mega_record::damo::{self, Record};
use mega_record::format::MAGIC;
use mega_record::{Ending, Reader, Writer};

use crate::Error;

/// `mega lab damo`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A record that `damo record` wrote, or a recording of `mega record`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The file to write: a recording, or a record that damo reads
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// The target that is read of damo's record [default: the one with the most snapshots]
    #[arg(long, value_name = "ID")]
    target: Option<u64>,
}

/// Turns one into the other.
///
/// # Errors
/// Where the file is neither of both or a recording without a look, or a file cannot be read or written.
pub fn run(args: &Args) -> Result<String, Error> {
    if is_recording(&args.file)? {
        export(args)
    } else {
        import(args)
    }
}

fn is_recording(file: &Path) -> Result<bool, Error> {
    let mut begin = Vec::new();
    let length = MAGIC.len() as u64;
    open(file)?
        .take(length)
        .read_to_end(&mut begin)
        .map_err(|error| Error::io(reading(file), error))?;
    Ok(begin == MAGIC)
}

fn import(args: &Args) -> Result<String, Error> {
    let input = open(&args.file)?;
    let record = damo::read(input, args.target)
        .map_err(|error| Error::Failed(format!("cannot {}: {error}", reading(&args.file))))?;
    write(&args.output, &record).map_err(|error| Error::io(writing(&args.output), error))?;
    let mut text = format!(
        "{}: {} looks of target {}\n",
        args.output.display(),
        record.looks.len(),
        record.target
    );
    if !record.others.is_empty() {
        let others: Vec<String> = record.others.iter().map(u64::to_string).collect();
        text += &format!("Other targets (--target): {}\n", others.join(", "));
    }
    text += "DAMON does not say what is mapped: all of its regions are taken to be, by base pages. Nor does it say what memory is free: replay it with --memory.\n";
    Ok(text)
}

fn write(file: &Path, record: &Record) -> std::io::Result<()> {
    let out = BufWriter::new(File::create(file)?);
    let mut writer = Writer::new(out, &record.header)?;
    for look in &record.looks {
        writer.write(look)?;
    }
    writer.finish()?;
    Ok(())
}

fn export(args: &Args) -> Result<String, Error> {
    if args.target.is_some() {
        return Err(Error::Failed(format!(
            "{} is a recording, all of whose processes become targets: leave out --target",
            args.file.display()
        )));
    }
    let reader = || {
        let failed =
            |error: &dyn std::fmt::Display| format!("cannot {}: {error}", reading(&args.file));
        let file = open(&args.file).map_err(|error| error.to_string())?;
        Reader::new(file).map_err(|error| failed(&error))
    };
    let mut first = reader().map_err(Error::Failed)?;
    first.by_ref().for_each(drop);
    let usable = first.usable();
    if usable.looks == 0 {
        let file = args.file.display();
        return Err(Error::Failed(format!(
            "the recording {file} has no look: {usable}"
        )));
    }
    if usable.ending != Ending::Whole {
        eprintln!("mega lab: {}: {usable}", args.file.display());
    }
    let out =
        File::create(&args.output).map_err(|error| Error::io(writing(&args.output), error))?;
    let pids = damo::export(first.header(), reader, BufWriter::new(out))
        .map_err(|error| Error::Failed(format!("cannot {}: {error}", writing(&args.output))))?;
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    Ok(format!(
        "{}: targets {}\ndamo report heatmap --input {0} draws it.\n",
        args.output.display(),
        pids.join(", ")
    ))
}

fn open(file: &Path) -> Result<BufReader<File>, Error> {
    let opened = File::open(file).map_err(|error| Error::io(reading(file), error))?;
    Ok(BufReader::new(opened))
}

fn reading(file: &Path) -> String {
    format!("read {}", file.display())
}

fn writing(file: &Path) -> String {
    format!("write {}", file.display())
}
