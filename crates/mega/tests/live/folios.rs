//! What folios faults take, for as long as a test wants it so.

use std::fs;
use std::path::PathBuf;

/// The mode of folios of one size; put back when it goes.
pub(crate) struct FolioMode {
    path: PathBuf,
    before: String,
}

impl FolioMode {
    /// Sets the mode of folios of `kib` KiB, as the kernel spells it.
    pub(crate) fn set(kib: u32, mode: &str) -> Self {
        let folder = format!("/sys/kernel/mm/transparent_hugepage/hugepages-{kib}kB");
        let path = PathBuf::from(folder).join("enabled");
        let choices = fs::read_to_string(&path).expect("the setting");
        let mut choices = choices.split_whitespace();
        let before = choices.find_map(|choice| choice.strip_prefix('[')?.strip_suffix(']'));
        let before = before.expect("a choice").to_owned();
        fs::write(&path, mode).expect("root may");
        FolioMode { path, before }
    }
}

impl Drop for FolioMode {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}
