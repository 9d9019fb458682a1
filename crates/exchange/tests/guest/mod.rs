//! Memory as a VMM has it for a guest, with a tag in every page that says which page it once was.
#![allow(dead_code)]

use std::fs;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mega_exchange::{BLOCK_BYTES, Error, Exchanger, Pair, Range};

pub const BLOCK: usize = BLOCK_BYTES as usize;
pub const PAGE: usize = 4096;
pub const PAGES: usize = BLOCK / PAGE;
/// Where the guest sees its first block.
pub const GUEST: u64 = 0x1_0000_0000;

/// Which pages the kernel gives this memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Huge,
    Base,
}

/// Private anonymous memory of whole blocks, between two blocks that are not the guest's.
#[derive(Debug)]
pub struct Guest {
    mapped: usize,
    bytes: usize,
    pub start: usize,
    pub blocks: usize,
}

impl Guest {
    pub fn new(blocks: usize, kind: Kind) -> Self {
        Self::with_flags(blocks, kind, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
    }

    /// All of it written: each block holds itself.
    pub fn filled(blocks: usize, kind: Kind) -> Self {
        let guest = Self::new(blocks, kind);
        guest.fill_all();
        guest
    }

    pub fn fill_all(&self) {
        (0..self.blocks).for_each(|block| self.fill(block));
    }

    pub fn with_flags(blocks: usize, kind: Kind, flags: i32) -> Self {
        let bytes = (blocks + 3) * BLOCK;
        // SAFETY: new addresses, of the kernel's choice.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        assert_ne!(
            mapped,
            libc::MAP_FAILED,
            "{}",
            std::io::Error::last_os_error()
        );
        let mapped = mapped.expose_provenance();
        let guest = Self {
            mapped,
            bytes,
            start: mapped.next_multiple_of(BLOCK) + BLOCK,
            blocks,
        };
        let advice = if kind == Kind::Huge {
            libc::MADV_HUGEPAGE
        } else {
            libc::MADV_NOHUGEPAGE
        };
        if flags & libc::MAP_HUGETLB == 0 {
            guest.advise(guest.start - BLOCK, (blocks + 2) * BLOCK, advice);
        }
        guest
    }

    pub fn range(&self) -> Range {
        // SAFETY: the memory is mapped until self is dropped, which the tests do last, and is accessed by atomics only.
        unsafe { Range::new(GUEST, (self.blocks * BLOCK) as u64, self.start) }
    }

    /// Memory of a second kind, which the guest sees after the first.
    pub fn range_at(&self, guest: u64) -> Range {
        // SAFETY: as above.
        unsafe { Range::new(guest, (self.blocks * BLOCK) as u64, self.start) }
    }

    pub fn address(&self, block: usize) -> usize {
        self.start + block * BLOCK
    }

    pub fn advise(&self, start: usize, bytes: usize, advice: i32) {
        assert!(start >= self.mapped && start + bytes <= self.mapped + self.bytes);
        // SAFETY: our own mapping, which atomics access only.
        let result =
            unsafe { libc::madvise(ptr::with_exposed_provenance_mut(start), bytes, advice) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }

    pub fn word(&self, address: usize) -> &AtomicU64 {
        assert!(
            address.is_multiple_of(8)
                && address >= self.mapped
                && address + 8 <= self.mapped + self.bytes
        );
        // SAFETY: within our own mapping, aligned, and only ever accessed by atomics.
        unsafe { AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(address)) }
    }

    /// Writes every word of a block's pages: which page it is, and which word.
    pub fn fill(&self, block: usize) {
        for word in 0..BLOCK / 8 {
            self.word(self.address(block) + word * 8)
                .store(value(block, word), Relaxed);
        }
    }

    /// Panics unless `block` holds all that `fill(was)` wrote.
    pub fn assert_holds(&self, block: usize, was: usize) {
        for word in 0..BLOCK / 8 {
            let found = self.word(self.address(block) + word * 8).load(Relaxed);
            assert_eq!(
                found,
                value(was, word),
                "word {word} of block {block}, which holds block {was}"
            );
        }
    }

    /// The same for the first and the last word of each page, which is faster.
    pub fn assert_tags(&self, block: usize, was: usize) {
        for page in 0..PAGES {
            for word in [page * 512, page * 512 + 511] {
                let found = self.word(self.address(block) + word * 8).load(Relaxed);
                assert_eq!(
                    found,
                    value(was, word),
                    "page {page} of block {block}, which holds block {was}"
                );
            }
        }
    }

    /// Which block's contents are there, by its first word. 0 is nothing.
    pub fn owner(&self, block: usize) -> Option<usize> {
        let word = self.word(self.address(block)).load(Relaxed);
        (word >> 32)
            .checked_sub(1)
            .map(|block| usize::try_from(block).unwrap())
    }

    pub fn huge_bytes(&self) -> u64 {
        smaps(
            self.start,
            self.start + self.blocks * BLOCK,
            "AnonHugePages:",
        )
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // SAFETY: our own mapping; nobody uses it any more.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(self.mapped), self.bytes) };
    }
}

fn value(block: usize, word: usize) -> u64 {
    ((block as u64 + 1) << 32) | word as u64
}

pub fn pair(source: usize, target: usize) -> Pair {
    Pair {
        source: GUEST + (source * BLOCK) as u64,
        target: GUEST + (target * BLOCK) as u64,
    }
}

/// The sum of a smaps field over the mappings within these addresses.
fn smaps(start: usize, end: usize, field: &str) -> u64 {
    let (mut within, mut sum) = (false, 0);
    for line in fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        if let Some((low, rest)) = line.split_once('-')
            && let Ok(low) = usize::from_str_radix(low, 16)
        {
            let high = usize::from_str_radix(rest.split(' ').next().unwrap(), 16).unwrap();
            within = low < end && high > start;
        } else if within && let Some(value) = line.strip_prefix(field) {
            sum += value.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
        }
    }
    sum
}

/// An exchanger, or None on a kernel that has no UFFDIO_MOVE, which it must say itself.
pub fn exchanger(ranges: Vec<Range>, test: &str) -> Option<Exchanger> {
    match Exchanger::new(ranges) {
        Ok(exchanger) => Some(exchanger),
        Err(error @ (Error::NoMove(_) | Error::NoUserfaultfd(_))) => {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "{test} cannot run: {error}"
            );
            eprintln!("{test} is skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// xorshift64*: the tests draw the same numbers each time.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }
}
