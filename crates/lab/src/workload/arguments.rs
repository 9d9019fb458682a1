//! The command line of the workloads.

use mega_core::bytes;

/// What a workload is told that any number of threads can do.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Parallel {
    #[command(flatten)]
    pub(super) common: Common,
    /// Threads; where it is more than one, one thread and all of them take turns of a twentieth of a second
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads)]
    pub(super) threads: usize,
    /// End once so many operations are done, however long that takes; with one thread only
    #[arg(long, value_name = "N", conflicts_with_all = ["seconds", "until_eof", "threads"])]
    pub(super) operations: Option<u64>,
}

/// What `grow` is told besides.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Growth {
    /// Write objects of 4 KiB, each with an entry at a random place of an index
    #[arg(long)]
    pub(super) objects: bool,
    /// Grow and free the memory again and again until the end
    #[arg(long)]
    pub(super) bursts: bool,
    /// Grow beside another area of this size, which a thread updates at random
    #[arg(long, value_name = "BYTES", value_parser = size, requires = "bursts")]
    pub(super) busy: Option<usize>,
}

/// What every workload is told.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Common {
    /// Bytes of memory, rounded up to whole huge pages [default: 256MiB; 4MiB for `small`; `matrix` takes 384KiB at most]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(super) size: Option<usize>,
    /// Seconds to run, after its memory is touched [default: 10 without --until-eof]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Run until standard input ends, working or resting. Until then a line `rest` has a program that works in slices of
    /// time (those with --threads, and some others) rest at the end of its slice and say so, and a line `work` go on; the
    /// others work on. Any other line is an error that ends the program
    #[arg(long)]
    pub(super) until_eof: bool,
    /// Milliseconds that it waits before it maps its memory
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    pub(super) delay: u64,
    /// Where the random sequence starts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Print JSON lines
    #[arg(long)]
    pub(super) json: bool,
    /// Take base pages only, whatever the machine's THP mode (`prctl(PR_SET_THP_DISABLE)`)
    #[arg(long)]
    pub(super) no_huge_pages: bool,
    /// Ask for huge pages once the memory is touched (`MADV_HUGEPAGE`), for khugepaged to see to
    #[arg(long)]
    pub(super) advise: bool,
    /// Keep each thread to a CPU of its own, from the last one on
    #[arg(long)]
    pub(super) pin: bool,
}

impl Common {
    /// Bytes of memory, or `default` where none are asked for.
    pub(super) fn size_or(&self, default: usize) -> usize {
        self.size.unwrap_or(default)
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        self.size_or(256 << 20)
    }
}

fn size(text: &str) -> Result<usize, String> {
    let bytes = bytes::parse(text)?;
    if bytes == 0 {
        return Err("a workload needs at least one byte of memory".into());
    }
    usize::try_from(bytes).map_err(|e| e.to_string())
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(threads) if (1..=256).contains(&threads) => Ok(threads),
        _ => Err(format!("`{text}` is not a number of threads from 1 to 256")),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let day = 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=day).contains(&seconds) => Ok(seconds),
        _ => Err(format!(
            "`{text}` is not a number of seconds from 0 to {day}"
        )),
    }
}
