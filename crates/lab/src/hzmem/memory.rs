//! The kinds of memory to compare. Each is set up on a freshly booted machine that runs nothing else.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::mapping::{Area, HUGE_PAGE};

/// Where hzmem is mounted.
const HZMEM: &str = "/run/figures/hzmem";
/// Where hugetlbfs is mounted.
const HUGETLBFS: &str = "/run/figures/hugetlbfs";
const GROUP: &str = "/sys/fs/cgroup/figures";
/// What a program needs beside the memory that it is given in a group of its own.
const PROGRAM: u64 = 12 << 20;

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Memory {
    /// hzmem.
    Hzmem,
    /// The kernel's own huge pages.
    Hugetlbfs,
    /// Transparent huge pages, and zram to swap to.
    Zram,
}

impl Memory {
    pub(super) const ALL: [Memory; 3] = [Memory::Hzmem, Memory::Hugetlbfs, Memory::Zram];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Memory::Hzmem => "hzmem",
            Memory::Hugetlbfs => "hugetlbfs",
            Memory::Zram => "zram + THP",
        }
    }
}

/// How it is set up.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Setup {
    /// Bytes of memory configured
    #[arg(long, value_name = "SIZE", value_parser = mega_core::bytes::parse)]
    pub(super) configured: u64,
    /// Bytes of base pages that compressed data may take
    #[arg(long, value_name = "SIZE", value_parser = mega_core::bytes::parse, default_value = "256MiB")]
    pub(super) compressed: u64,
    /// Milliseconds between two looks for cold pages
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(super) period_ms: u64,
}

/// Sets `memory` up: hzmem mounted, the pool of huge pages filled, or the swap device and the group with its limit.
pub(super) fn set_up(memory: Memory, setup: &Setup) -> Result<(), Error> {
    match memory {
        Memory::Hzmem => hzmem(setup),
        Memory::Hugetlbfs => hugetlbfs(setup),
        Memory::Zram => zram(setup),
    }
}

fn hzmem(setup: &Setup) -> Result<(), Error> {
    // More than there is room for, so that it is memory that ends and not the mount.
    let options = format!(
        "size=64g,period={}ms,compressed={}",
        setup.period_ms, setup.compressed
    );
    mount("hzmem", HZMEM, &options)
}

fn hugetlbfs(setup: &Setup) -> Result<(), Error> {
    let pages = setup.configured / HUGE_PAGE as u64;
    let path = "/proc/sys/vm/nr_hugepages";
    write(path, &pages.to_string())?;
    let reserved = read(path)?;
    if reserved.trim() != pages.to_string() {
        return Err(Error::Missing(format!(
            "only {} of {pages} huge pages could be reserved",
            reserved.trim()
        )));
    }
    mount("hugetlbfs", HUGETLBFS, "pagesize=2M")
}

fn zram(setup: &Setup) -> Result<(), Error> {
    write("/sys/kernel/mm/transparent_hugepage/enabled", "always")?;
    let zram = Path::new("/sys/block/zram0");
    if !zram.exists() {
        return Err(Error::Missing(
            "there is no zram (kernel/vm/run --with zram)".to_owned(),
        ));
    }
    // The algorithm that hzmem has by default, where this kernel's zram has it.
    let algorithm = zram.join("comp_algorithm");
    let _ = std::fs::write(&algorithm, "lz4");
    // More than fits, but not so much that describing it takes the memory.
    write(zram.join("disksize"), &(4u64 << 30).to_string())?;
    write(zram.join("mem_limit"), &setup.compressed.to_string())?;
    command("mkswap", &["/dev/zram0"])?;
    command("swapon", &["/dev/zram0"])?;
    write("/sys/fs/cgroup/cgroup.subtree_control", "+memory")?;
    std::fs::create_dir_all(GROUP).map_err(|error| Error::io(format!("make {GROUP}"), error))?;
    let limit = setup.configured + PROGRAM;
    write(Path::new(GROUP).join("memory.max"), &limit.to_string())
}

/// Unmounts hzmem, so that its module can be unloaded. All else goes with the machine.
pub(super) fn take_down(memory: Memory) -> Result<(), Error> {
    match memory {
        Memory::Hzmem => command("umount", &[HZMEM]),
        Memory::Hugetlbfs | Memory::Zram => Ok(()),
    }
}

/// The algorithm that zram compresses with.
pub(super) fn zram_algorithm() -> Result<String, Error> {
    let text = read("/sys/block/zram0/comp_algorithm")?;
    let chosen = text.split(['[', ']']).nth(1).unwrap_or(text.trim());
    Ok(chosen.to_owned())
}

/// Whether so little is left of the memory that zram may use that the kernel might next kill the program.
pub(super) fn zram_is_full() -> Result<bool, Error> {
    const LEFT: u64 = 16 << 20;
    let path = "/sys/block/zram0/mm_stat";
    let text = read(path)?;
    // Original and compressed size, memory used, its limit.
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    match numbers.as_slice() {
        &[_, _, used, limit, ..] => Ok(used + LEFT >= limit),
        _ => Err(Error::Failed(format!("{path} holds no numbers: {text}"))),
    }
}

/// Moves this program into the group whose memory is limited, where there is one. What it has already it keeps outside.
pub(super) fn enter_group(memory: Memory) -> Result<(), Error> {
    if memory != Memory::Zram {
        return Ok(());
    }
    let path = Path::new(GROUP).join("cgroup.procs");
    write(path, &std::process::id().to_string())
}

/// Memory of one kind, mapped piece by piece.
pub(super) struct Mapper {
    /// The file that is mapped; `None` for anonymous memory.
    file: Option<File>,
    /// Its path, which is removed when this is dropped.
    path: PathBuf,
    /// Its size.
    mapped: u64,
}

impl Mapper {
    pub(super) fn new(memory: Memory) -> Result<Self, Error> {
        let folder = match memory {
            Memory::Hzmem => HZMEM,
            Memory::Hugetlbfs => HUGETLBFS,
            Memory::Zram => {
                return Ok(Mapper {
                    file: None,
                    path: PathBuf::new(),
                    mapped: 0,
                });
            }
        };
        let path = Path::new(folder).join(format!("figures-{}", std::process::id()));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(|error| Error::io(format!("create {}", path.display()), error))?;
        Ok(Mapper {
            file: Some(file),
            path,
            mapped: 0,
        })
    }

    /// The next `bytes`, not touched.
    pub(super) fn map(&mut self, bytes: usize) -> io::Result<Area> {
        let Some(file) = &self.file else {
            return Area::map(bytes);
        };
        let offset = self.mapped;
        let bytes = bytes.next_multiple_of(HUGE_PAGE);
        file.set_len(offset + bytes as u64)?;
        let area = Area::map_file(file, offset, bytes)?;
        self.mapped += bytes as u64;
        Ok(area)
    }
}

impl Mapper {
    /// Gives back memory that was mapped last.
    pub(super) fn give_back(&mut self, area: Area) -> io::Result<()> {
        let bytes = area.bytes() as u64;
        drop(area);
        let Some(file) = &self.file else {
            return Ok(());
        };
        self.mapped = self.mapped.saturating_sub(bytes);
        file.set_len(self.mapped)
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // It goes with the machine in any case.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn mount(filesystem: &str, folder: &str, options: &str) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|error| Error::io(format!("make {folder}"), error))?;
    command("mount", &["-t", filesystem, "-o", options, "none", folder])
}

fn command(program: &str, arguments: &[&str]) -> Result<(), Error> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| Error::io(format!("run {program}"), error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Missing(format!(
        "{program} {}: {}; run this in a machine of its own, by kernel/vm/figures/hzmem",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}

fn write(path: impl AsRef<Path>, value: &str) -> Result<(), Error> {
    let path = path.as_ref();
    std::fs::write(path, value)
        .map_err(|error| Error::io(format!("write {value} to {}", path.display()), error))
}

fn read(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| Error::io(format!("read {path}"), error))
}
