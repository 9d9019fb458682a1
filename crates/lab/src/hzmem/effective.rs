//! Figure 4: how much a program can have of memory of one configured size, before it fails.
//!
//! As in the paper, a program maps memory and writes it until it cannot. It runs in a process of its own, because what
//! ends it may be a signal. Where it was told that there is no more, it then looks whether all is as it was written (not in
//! zram: that is the kernel's own, and slow).

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use mega_core::bytes;
use serde::{Deserialize, Serialize};

use super::content::{Content, Source};
use super::memory::{self, Mapper, Memory, Setup};
use super::{state, table};
use crate::error::Error;
use crate::mapping::HUGE_PAGE;

/// A program stops at this many bytes: zeros would never end.
const MOST: u64 = 3 << 29;
const MOST_QUICK: u64 = 256 << 20;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measurement {
    memory: Memory,
    configured: u64,
    /// Bytes of base pages that compressed data may take.
    compressed: u64,
    /// zram's.
    algorithm: Option<String>,
    contents: Vec<Filled>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Filled {
    content: Content,
    bytes: u64,
    /// Whether it stopped because it had enough.
    stopped_at_most: bool,
    /// How it ended: with an error, or by a signal.
    ended: String,
    /// Whether all was as it was written; `None` where a signal ended it, and for zram.
    verified: Option<bool>,
    /// Compressed to original size; hzmem only.
    ratio: Option<f64>,
    /// Base pages that compressed data took at the end; hzmem only.
    compressed_size: Option<u64>,
    seconds: f64,
}

pub(super) fn measure(memory: Memory, setup: &Setup, quick: bool) -> Result<Measurement, Error> {
    memory::set_up(memory, setup)?;
    let algorithm = match memory {
        Memory::Zram => Some(memory::zram_algorithm()?),
        _ => None,
    };
    let most = if quick { MOST_QUICK } else { MOST };
    let contents = Content::ALL
        .into_iter()
        .map(|content| fill_in_a_process(memory, content, most));
    Ok(Measurement {
        memory,
        configured: setup.configured,
        compressed: setup.compressed,
        algorithm,
        contents: contents.collect::<Result<_, _>>()?,
    })
}

fn fill_in_a_process(memory: Memory, content: Content, most: u64) -> Result<Filled, Error> {
    let own = std::env::current_exe().map_err(|error| Error::io("find this program", error))?;
    let start = Instant::now();
    let kind = clap::ValueEnum::to_possible_value(&memory).map(|value| value.get_name().to_owned());
    let mut child = Command::new(own)
        .args(["fill", &kind.unwrap_or_default(), content.name()])
        .arg(most.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Error::io("start this program again", error))?;
    let mut filled = Filled {
        content,
        bytes: 0,
        stopped_at_most: false,
        ended: String::new(),
        verified: None,
        ratio: None,
        compressed_size: None,
        seconds: 0.0,
    };
    let lines = BufReader::new(child.stdout.take().ok_or_else(|| {
        Error::Failed("the program that fills memory has no standard output".to_owned())
    })?)
    .lines();
    for line in lines {
        let line = line.map_err(|error| Error::io("read what was filled", error))?;
        match line.split_once(' ') {
            Some(("filled", bytes)) => filled.bytes = bytes.parse().unwrap_or(filled.bytes),
            Some(("ended", why)) => {
                filled.ended = why.to_owned();
                filled.seconds = start.elapsed().as_secs_f64();
                filled.stopped_at_most = why == ENOUGH;
                if memory == Memory::Hzmem {
                    let held = state::mount()?.held;
                    filled.ratio = held.ratio();
                    filled.compressed_size = Some(held.compressed_size);
                }
            }
            Some(("verified", whether)) => filled.verified = Some(whether == "true"),
            _ => {}
        }
    }
    let status = child
        .wait()
        .map_err(|error| Error::io("wait for the program that fills memory", error))?;
    if filled.ended.is_empty() {
        filled.ended = status.to_string();
        filled.seconds = start.elapsed().as_secs_f64();
    }
    if filled.bytes == 0 {
        return Err(Error::Failed(format!(
            "no {} could be had at all: {}",
            memory.name(),
            filled.ended
        )));
    }
    Ok(filled)
}

const ENOUGH: &str = "enough";
/// Huge pages given back before the others are looked at.
const GIVEN_BACK: usize = 8;

/// What the process of its own does: fills memory until it fails, and says how far it came.
pub(super) fn fill(memory: Memory, content: Content, most: u64) -> Result<String, Error> {
    let source = Source::new(content)
        .map_err(|error| Error::io("make what memory is filled with", error))?;
    memory::enter_group(memory)?;
    let mut mapper = Mapper::new(memory)?;
    let mut areas = Vec::new();
    let ended = loop {
        let number = areas.len() as u64;
        if number * HUGE_PAGE as u64 >= most {
            break ENOUGH.to_owned();
        }
        if memory == Memory::Zram && memory::zram_is_full()? {
            break "zram is full".to_owned();
        }
        let next = mapper.map(HUGE_PAGE).and_then(|mut area| {
            source.fill(area.bytes_mut(), number)?;
            Ok(area)
        });
        match next {
            Ok(area) => areas.push(area),
            Err(error) => break error.to_string(),
        }
        tell(&format!("filled {}", areas.len() * HUGE_PAGE))?;
    };
    tell(&format!("ended {ended}"))?;
    // Where all is full, not even a page could be decompressed to look at it.
    for area in areas.drain(areas.len().saturating_sub(GIVEN_BACK)..).rev() {
        mapper
            .give_back(area)
            .map_err(|error| Error::io("give memory back", error))?;
    }
    if memory == Memory::Zram {
        return Ok(String::new());
    }
    let right = (0u64..)
        .zip(&areas)
        .all(|(number, area)| source.is_in(area.words(), number));
    Ok(format!("verified {right}\n"))
}

fn tell(line: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Error::io("say how much is filled", error))
}

pub(super) fn report(measurements: &[Measurement]) -> String {
    let mut sizes: Vec<u64> = measurements.iter().map(|one| one.configured).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut rows = vec![vec![
        "configured".to_owned(),
        "for compressed data".to_owned(),
        "content".to_owned(),
    ]];
    rows[0].extend(Memory::ALL.map(|memory| memory.name().to_owned()));
    rows[0].push("hzmem's ratio".to_owned());
    for &size in &sizes {
        for content in Content::ALL {
            let of = |memory| {
                measurements
                    .iter()
                    .find(|one| one.memory == memory && one.configured == size)
            };
            let mut row = vec![
                bytes::format(size),
                of(Memory::Hzmem).map_or_else(String::new, |one| bytes::format(one.compressed)),
                content.name().to_owned(),
            ];
            row.extend(Memory::ALL.map(|memory| {
                let filled = of(memory).and_then(|one| one.of(content));
                filled.map_or_else(|| "-".to_owned(), |filled| cell(filled, size))
            }));
            let ratio = of(Memory::Hzmem)
                .and_then(|one| one.of(content))
                .and_then(|filled| filled.ratio);
            row.push(ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
            rows.push(row);
        }
    }
    let damaged = measurements
        .iter()
        .flat_map(|one| &one.contents)
        .filter(|filled| filled.verified == Some(false))
        .count();
    format!(
        "Effective memory: what a program could fill before it failed, and how many times the configured size that is\n\n\
         {}\n\
         >: stopped there. !: ended by a signal. What hzmem and hugetlbfs held was compared, and was right{}\n\
         zram: filled until the device was full, a step before the kernel kills the program.\n\
         Paper, figure 4 (Yelp reviews, LZ4, ratio 0.23, 64 GB machine): hugetlbfs 1.00x at every size; Hzmem up to \
         44.65x at the smallest size, less the larger it is, because compressed data lies in what is left of memory.\n",
        table(&rows),
        if damaged == 0 {
            ".".to_owned()
        } else {
            format!(", EXCEPT FOR {damaged} RUNS.")
        }
    )
}

#[allow(clippy::cast_precision_loss)]
fn cell(filled: &Filled, configured: u64) -> String {
    let more = if filled.stopped_at_most { ">" } else { "" };
    let killed = if filled.ended.starts_with("signal") {
        "!"
    } else {
        ""
    };
    let times = filled.bytes as f64 / configured as f64;
    format!(
        "{more}{} ({times:.2}x){killed}",
        bytes::format(filled.bytes)
    )
}

impl Measurement {
    fn of(&self, content: Content) -> Option<&Filled> {
        self.contents
            .iter()
            .find(|filled| filled.content == content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(memory: Memory, bytes: u64, verified: Option<bool>) -> Measurement {
        Measurement {
            memory,
            configured: 64 << 20,
            compressed: 128 << 20,
            algorithm: None,
            contents: vec![Filled {
                content: Content::Text,
                bytes,
                stopped_at_most: false,
                ended: match verified {
                    Some(_) => "Bad address (os error 14)".to_owned(),
                    None => "signal: 9 (SIGKILL)".to_owned(),
                },
                verified,
                ratio: Some(0.25),
                compressed_size: None,
                seconds: 1.0,
            }],
        }
    }

    #[test]
    fn the_table_says_how_many_times_the_configured_size_was_had() {
        let text = report(&[
            measured(Memory::Hzmem, 256 << 20, Some(true)),
            measured(Memory::Zram, 128 << 20, None),
        ]);
        assert!(text.contains("256 MiB (4.00x)  "), "{text}");
        assert!(text.contains("128 MiB (2.00x)!"), "{text}");
        assert!(!text.contains("EXCEPT"), "{text}");
    }

    #[test]
    fn damage_cannot_be_overlooked() {
        let text = report(&[measured(Memory::Hzmem, 256 << 20, Some(false))]);
        assert!(text.contains("EXCEPT FOR 1 RUNS"), "{text}");
    }
}
