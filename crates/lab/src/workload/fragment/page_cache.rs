//! Trident's way (section 4): it caches a file in random order, and then gives parts of the cache back.
//!
//! Trident's authors fill all memory with a file's pages and read on at random until reclaim has freed scattered pages.
//! With a bound on memory nothing is reclaimed, so this gives a random half of the file's pages back instead.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Advice, OFlags};

use super::generation::Generation;
use crate::error::Error;
use crate::mapping::PAGE;
use crate::random::{Random, below};
use crate::workload::arguments::Common;
use crate::workload::report::{Accessed, AreaReport, Done, Reporter};
use crate::workload::stop::Stop;

/// `f_type` of tmpfs, whose pages are not page cache that could be given back.
const TMPFS_MAGIC: i64 = 0x0102_1994;

pub(super) fn run(
    common: &Common,
    folder: &Path,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    let mut random = Random::new(common.seed);
    let mut anonymous = Generation::map(common.size() / 2, common.seed)?;
    let pages = anonymous.area().pages();
    let file = CachedFile::create(folder, pages)?;
    for (page, of_file) in shuffled(pages, &mut random).into_iter().enumerate() {
        anonymous.touch_page(page);
        file.cache(of_file)?;
    }
    let given_back = shuffled(pages, &mut random);
    for page in &given_back[..pages / 2] {
        file.give_back(*page)?;
    }
    reporter.ready(vec![AreaReport::new(
        "held",
        anonymous.area(),
        pages,
        Accessed::None,
    )])?;
    stop.start();
    stop.wait();
    let done = Done::new(stop.elapsed(), pages as u64)?;
    Ok(done.checked(anonymous.wrong_pages(), 0))
}

/// All numbers below `count` in random order (Fisher and Yates).
fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        numbers.swap(last, below(random.word(), last + 1));
    }
    numbers
}

/// A file without a name, all hole: its pages are cached like any others, and no disk is waited for.
struct CachedFile {
    file: File,
    /// What it is, for errors.
    name: String,
}

impl CachedFile {
    fn create(folder: &Path, pages: usize) -> Result<Self, Error> {
        let name = format!("a file in {}", folder.display());
        let failed = |what: &str, e| Error::io(format!("{what} {name}"), e);
        let kind = rustix::fs::statfs(folder).map_err(|e| failed("looking for room for", e))?;
        if kind.f_type == TMPFS_MAGIC {
            return Err(Error::Missing(format!(
                "{} is on tmpfs, which has no page cache to fragment with; name a folder on a disk, by --folder or, in an experiment, by the variable TMPDIR",
                folder.display()
            )));
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder, flags, rustix::fs::Mode::RUSR)
            .map_err(|e| failed("creating", e))?;
        rustix::fs::ftruncate(&file, (pages * PAGE) as u64).map_err(|e| failed("extending", e))?;
        // Read page by page, not ahead.
        rustix::fs::fadvise(&file, 0, None, Advice::Random)
            .map_err(|e| failed("advising random reads of", e))?;
        Ok(CachedFile {
            file: File::from(file),
            name,
        })
    }

    /// Brings one page into the cache.
    fn cache(&self, page: usize) -> Result<(), Error> {
        self.file
            .read_exact_at(&mut [0; 8], (page * PAGE) as u64)
            .map_err(|e| Error::io(format!("reading {}", self.name), e))
    }

    /// Gives one page back to the kernel.
    fn give_back(&self, page: usize) -> Result<(), Error> {
        let length = std::num::NonZeroU64::new(PAGE as u64);
        rustix::fs::fadvise(&self.file, (page * PAGE) as u64, length, Advice::DontNeed)
            .map_err(|e| Error::io(format!("giving back a page of {}", self.name), e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::process::Command;

    /// Pages of a file in the cache, as `fincore` counts them.
    fn cached_pages(file: &CachedFile) -> u64 {
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.file.as_raw_fd());
        let output = Command::new("fincore")
            .args(["--noheadings", "--output", "PAGES", &path])
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    }

    #[test]
    fn single_pages_are_cached_and_given_back() {
        // The repository is on a disk; the folder for temporary files may not be.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = CachedFile::create(folder.path(), 64).unwrap();
        for page in [7, 21, 22] {
            file.cache(page).unwrap();
        }
        assert_eq!(cached_pages(&file), 3);
        file.give_back(21).unwrap();
        assert_eq!(cached_pages(&file), 2);
    }

    #[test]
    fn every_number_comes_once() {
        let mut numbers = shuffled(1000, &mut Random::new(5));
        assert_ne!(numbers, (0..1000).collect::<Vec<_>>());
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    }
}
