//! The ledger on a scripted kernel: several owners, and a kill at each point.

use super::*;
use crate::kernel::fake::{FakeKernel, FakeProcess};

const PATH: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan";
/// What [`PATH`] is named after.
const RECORD: &str = "setting-sys-kernel-mm-transparent_hugepage-khugepaged-pages_to_scan.json";
/// A pid that nothing runs under.
const DEAD: u32 = 4_000_000;

struct Place {
    kernel: Arc<FakeKernel>,
    run_dir: RunDir,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            kernel: Arc::new(FakeKernel::new()),
            run_dir: RunDir::at(folder.path()).unwrap(),
            _folder: folder,
        };
        place.kernel.add(std::process::id(), FakeProcess::default());
        place.set_by_hand("4096\n");
        place
    }

    fn set_by_hand(&self, value: &str) {
        let files = &mut self.kernel.state().files;
        files.insert(PATH.into(), value.as_bytes().to_vec());
    }

    fn guard(&self, wants: &str) -> Result<Guard, Error> {
        let kernel: Arc<dyn Kernel> = self.kernel.clone();
        Guard::set(kernel, &self.run_dir, PATH.as_ref(), wants)
    }

    fn value(&self) -> String {
        read(self.kernel.as_ref(), PATH.as_ref()).unwrap()
    }

    /// What killed owners left: their wishes in the record, and some value in force.
    fn left_behind(&self, value: &str, wishes: &[&str]) {
        self.set_by_hand(value);
        let owners = wishes.iter().zip(0..).map(|(wants, serial)| Owner {
            process: ProcessId {
                pid: DEAD,
                start_time: 1,
            },
            serial,
            wants: (*wants).to_owned(),
        });
        let record = Record {
            path: PATH.into(),
            original: "4096".to_owned(),
            owners: owners.collect(),
        };
        let text = serde_json::to_vec(&record).unwrap();
        self.run_dir.write_atomically(RECORD, &text).unwrap();
    }

    fn stale(&self) -> Vec<Stale> {
        stale(self.kernel.as_ref(), &self.run_dir).unwrap()
    }

    fn restore_stale(&self) -> Vec<Stale> {
        restore_stale(self.kernel.as_ref(), &self.run_dir).unwrap()
    }

    fn has_record(&self) -> bool {
        self.run_dir.path().join(RECORD).exists()
    }
}

#[test]
fn what_was_changed_is_put_back() {
    let place = Place::new();
    let guard = place.guard("7").unwrap();
    assert_eq!(place.value(), "7");
    assert!(place.has_record());
    assert!(
        place.stale().is_empty() && place.restore_stale().is_empty(),
        "we live"
    );
    assert_eq!(place.value(), "7");
    guard.restore().unwrap();
    assert_eq!(place.value(), "4096");
    assert!(!place.has_record());
}

#[test]
fn the_newest_wish_holds_and_the_last_owner_restores() {
    let place = Place::new();
    let first = place.guard("7").unwrap();
    let second = place.guard("8").unwrap();
    let third = place.guard("9").unwrap();
    assert_eq!(place.value(), "9");
    drop(second);
    assert_eq!(place.value(), "9", "the third still wants it");
    drop(third);
    assert_eq!(place.value(), "7", "the first still wants it");
    drop(first);
    assert_eq!(place.value(), "4096");
}

#[test]
fn what_somebody_else_set_meanwhile_stays() {
    let place = Place::new();
    let guard = place.guard("7").unwrap();
    place.set_by_hand("9");
    drop(guard);
    assert_eq!(place.value(), "9");
    assert!(!place.has_record());
}

#[test]
fn whatever_killed_owners_left_is_put_back() {
    // The record is written before the first value, and the last value is put back before the record is removed; a
    // newer owner is recorded before its value is written, and struck out after the older one's is.
    for (value, wishes) in [
        ("4096", vec!["7"]),
        ("7", vec!["7"]),
        ("7", vec!["7", "8"]),
        ("8", vec!["7", "8"]),
        ("7", vec!["6", "7", "8"]),
        ("4096", vec!["7", "8"]),
        ("7", vec![]),
    ] {
        let place = Place::new();
        place.left_behind(value, &wishes);
        let stale = place.stale();
        assert_eq!(stale.len(), 1, "{value} {wishes:?}");
        assert_eq!(place.value(), value, "looking changes nothing");
        assert_eq!(place.restore_stale(), stale);
        // A record without owners says nothing of the value: it is another's.
        let expected = if wishes.is_empty() { value } else { "4096" };
        assert_eq!(place.value(), expected, "{value} {wishes:?}");
        assert!(!place.has_record() && place.restore_stale().is_empty());
    }
}

#[test]
fn a_new_owner_after_killed_ones_gets_its_wish_and_restores() {
    let place = Place::new();
    place.left_behind("7", &["7"]);
    let guard = place.guard("8").unwrap();
    assert_eq!(place.value(), "8");
    drop(guard);
    assert_eq!(place.value(), "4096");

    // Somebody else has set it since: that is what is put back.
    place.left_behind("100", &["7"]);
    let guard = place.guard("8").unwrap();
    assert_eq!(place.value(), "8");
    drop(guard);
    assert_eq!(place.value(), "100");
}

#[test]
fn where_the_kernel_refuses_nothing_is_recorded() {
    let place = Place::new();
    let kernel: Arc<dyn Kernel> =
        Arc::new(crate::kernel::ReadOnly(FakeKernel::clone(&place.kernel)));
    assert!(Guard::set(kernel, &place.run_dir, PATH.as_ref(), "7").is_err());
    assert_eq!(place.value(), "4096");
    assert!(!place.has_record());
}

#[test]
fn the_value_in_brackets_is_in_force() {
    let place = Place::new();
    place.set_by_hand("always [madvise] never\n");
    assert_eq!(place.value(), "madvise");
}

#[test]
fn the_record_of_the_thp_mode_as_older_megas_wrote_it_is_read() {
    let place = Place::new();
    let mut state = place.kernel.state();
    state
        .files
        .insert(thp_mode::PATH.into(), b"always [madvise] never\n".to_vec());
    drop(state);
    let record = r#"{"original":"always","owners":[{"process":{"pid":4000000,"start_time":1},"serial":0,"wants":"madvise"}]}"#;
    std::fs::write(place.run_dir.path().join("thp_mode.json"), record).unwrap();
    let left = Stale {
        path: thp_mode::PATH.into(),
        set: "madvise".to_owned(),
        original: "always".to_owned(),
    };
    assert_eq!(place.restore_stale(), [left]);
    assert_eq!(
        read(place.kernel.as_ref(), thp_mode::PATH.as_ref()).unwrap(),
        "always"
    );
}

#[test]
fn one_record_that_is_unreadable_is_told_and_the_others_are_dealt_with() {
    let place = Place::new();
    place.left_behind("7", &["7"]);
    std::fs::write(place.run_dir.path().join("setting-a.json"), "{").unwrap();
    let error = restore_stale(place.kernel.as_ref(), &place.run_dir).unwrap_err();
    assert!(error.to_string().contains("remove this file"), "{error}");
    assert_eq!(place.value(), "4096");
}
