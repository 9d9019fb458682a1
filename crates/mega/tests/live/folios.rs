//! Folios of 64 KiB at faults, for as long as a test wants them.

use std::fs;
use std::path::PathBuf;

/// The mode of folios of 64 KiB; put back when it goes.
pub(crate) struct SmallFolios {
    path: PathBuf,
    before: String,
}

impl SmallFolios {
    /// Where faults take them: a mode, as the kernel spells it.
    pub(crate) fn taken_where(mode: &str) -> Self {
        let path = PathBuf::from("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled");
        let choices = fs::read_to_string(&path).expect("the setting");
        let mut choices = choices.split_whitespace();
        let before = choices.find_map(|choice| choice.strip_prefix('[')?.strip_suffix(']'));
        let before = before.expect("a choice").to_owned();
        fs::write(&path, mode).expect("root may");
        SmallFolios { path, before }
    }
}

impl Drop for SmallFolios {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}
