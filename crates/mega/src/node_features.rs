//! A file for Kubernetes's Node Feature Discovery, which makes labels of a node of it: how many huge pages this machine could
//! give now. No right on the API server is needed to write it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mega_core::HUGE_PAGE_SIZE;
use mega_linux::kernel::Kernel;
use mega_linux::observe::memory;
use tracing::warn;

use crate::utc;

/// Between two looks. Node Feature Discovery looks once a minute too, where nothing else is set.
const INTERVAL: Duration = Duration::from_secs(60);
/// How long what was written holds: it ends by itself after a daemon that was killed.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Keeps the file up to date, and removes it at the end.
pub(crate) struct NodeFeatures {
    path: PathBuf,
    due: Duration,
    /// What was written last, and when.
    written: Option<(u64, Duration)>,
    /// Why it could not be written, as was told.
    told: Option<String>,
}

impl NodeFeatures {
    /// For a file that nothing was written to yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        NodeFeatures {
            path,
            due: Duration::ZERO,
            written: None,
            told: None,
        }
    }

    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at free memory if it is time, and writes what has changed. What fails is told once, and tried again.
    pub(crate) fn update(&mut self, kernel: &dyn Kernel) {
        let now = kernel.now();
        if now < self.due {
            return;
        }
        self.due = now + INTERVAL;
        let Ok(memory) = memory::observe(kernel) else {
            return;
        };
        let blocks = rounded(memory.contiguity / HUGE_PAGE_SIZE);
        let is_fresh =
            |(before, at): &(u64, Duration)| *before == blocks && now < *at + LIFETIME / 2;
        if self.written.as_ref().is_some_and(is_fresh) {
            return;
        }
        match write(&self.path, &text(blocks, SystemTime::now() + LIFETIME)) {
            Ok(()) => {
                self.written = Some((blocks, now));
                self.told = None;
            }
            Err(error) => self.tell(&error),
        }
    }

    fn tell(&mut self, error: &io::Error) {
        let news = format!(
            "cannot write the features of this node to {}: {error}",
            self.path.display()
        );
        if self.told.as_ref() != Some(&news) {
            warn!("{news}");
            self.told = Some(news);
        }
    }
}

impl Drop for NodeFeatures {
    fn drop(&mut self) {
        if self.written.is_some() {
            // One that stays holds for an hour at most.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The largest power of two that is not larger; 0 of 0. A label that changes with every page would load the API server.
fn rounded(blocks: u64) -> u64 {
    blocks.checked_ilog2().map_or(0, |power| 1 << power)
}

/// The file: one feature, until `expiry`.
fn text(blocks: u64, expiry: SystemTime) -> String {
    let expiry = expiry.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!(
        "# +expiry-time={}\nmega-free-huge-blocks={blocks}\n",
        utc::in_rfc_3339(expiry.as_secs())
    )
}

/// Writes it so that a reader sees the old or the new one. Hidden files are not read as features.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.draft"));
    std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_says_until_when_it_holds() {
        let expiry = UNIX_EPOCH + Duration::from_secs(1_795_529_109);
        assert_eq!(
            text(512, expiry),
            "# +expiry-time=2026-11-24T14:05:09Z\nmega-free-huge-blocks=512\n"
        );
    }

    #[test]
    fn a_file_is_replaced_and_nothing_else_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mega");
        for content in ["one", "two"] {
            write(&path, content).expect("written");
            assert_eq!(std::fs::read_to_string(&path).expect("read"), content);
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    proptest! {
        #[test]
        fn what_is_said_is_there_and_not_less_than_half_of_it(blocks: u64) {
            let said = rounded(blocks);
            prop_assert!(said <= blocks && (blocks == 0 || said > blocks / 2));
            prop_assert!(said == 0 || said.is_power_of_two());
        }
    }
}
