//! The module as files in a fake kernel.

use std::collections::BTreeMap;

use super::*;
use crate::error::ExitKind;
use crate::kernel::ReadOnly;
use crate::kernel::fake::FakeKernel;

const MOUNT: [(&str, &str); 27] = [
    ("size", "256"),
    ("watermark", "80"),
    ("period_ms", "10000"),
    ("compress", "lz4"),
    ("node", "-1"),
    ("readahead", "4"),
    ("compressed_limit_bytes", "0"),
    ("resident", "100"),
    ("zero", "10"),
    ("compressed", "50"),
    ("active", "60"),
    ("inactive", "40"),
    ("incompressible", "7"),
    ("pinned", "1"),
    ("corrupt", "0"),
    ("compressed_bytes", "26214400"),
    ("faults_zero", "160"),
    ("faults_resident", "30"),
    ("faults_decompress", "20"),
    ("faults_cow", "5"),
    ("compressions", "70"),
    ("compressions_zero", "10"),
    ("compressions_refused", "9"),
    ("direct_reclaims", "2"),
    ("readaheads", "3"),
    ("sigbus", "0"),
    ("scans", "12"),
];

const RANGE: [&str; 5] = ["start", "bytes", "node", "origin", "free"];

/// A kernel with the module loaded and one mount.
fn kernel() -> FakeKernel {
    let kernel = FakeKernel::new();
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut put = |name: &str, text: &str| files.insert(root(name), format!("{text}\n"));
    put("add", "");
    put("remove", "");
    put("compressors", "lz4 lzo zstd");
    for (range, values) in [
        ("0", ["0x100000000", "536870912", "0", "boot", "156"]),
        ("1", ["0x8000000", "134217728", "0", "added", "64"]),
    ] {
        for (file, value) in RANGE.into_iter().zip(values) {
            put(&format!("ranges/{range}/{file}"), value);
        }
    }
    for (name, value) in [
        ("total", "320"),
        ("free", "220"),
        ("pinned", "2"),
        ("sections", "1"),
        ("daemon_cpu_ns", "1500000000"),
    ] {
        put(&format!("nodes/node0/{name}"), value);
    }
    for (name, value) in MOUNT.into_iter().chain([("pages_scanned", "999")]) {
        put(&format!("mounts/0:45/{name}"), value);
    }
    files.insert(
        "/proc/self/mountinfo".into(),
        "36 22 0:45 / /mnt/huge rw - hzmem none rw\n".to_owned(),
    );
    let mut state = kernel.state();
    state.files.extend(
        files
            .into_iter()
            .map(|(path, text)| (path, text.into_bytes())),
    );
    drop(state);
    kernel
}

fn open(kernel: &FakeKernel) -> Hzmem {
    Hzmem::open(Arc::new(kernel.clone())).expect("it is loaded")
}

#[test]
fn all_that_the_module_shows_is_read() {
    let state = open(&kernel()).state().expect("all is there");
    assert_eq!(state.compressors, ["lz4", "lzo", "zstd"]);
    let added = Range {
        start: Some(0x800_0000),
        size: 128 << 20,
        node: 0,
        origin: Origin::Added,
        free: 128 << 20,
    };
    let boot = Range {
        start: Some(4 << 30),
        size: 512 << 20,
        node: 0,
        origin: Origin::Boot,
        free: 312 << 20,
    };
    assert_eq!(state.ranges, [added, boot], "by address");
    let node = state.nodes[0];
    assert_eq!((node.total, node.used()), (640 << 20, 200 << 20));
    assert_eq!(node.daemon_cpu, std::time::Duration::from_millis(1500));
    let mount = &state.mounts[0];
    assert_eq!(mount.mount_points, [PathBuf::from("/mnt/huge")]);
    assert_eq!(mount.settings.size, Some(512 << 20));
    assert_eq!(
        (mount.settings.node, mount.settings.compressed_limit),
        (None, None)
    );
    assert_eq!(mount.held.used(), 320 << 20);
    assert_eq!(mount.held.physical(), (200 << 20) + (25 << 20));
    assert_eq!(mount.held.ratio(), Some(0.25));
    assert_eq!(mount.counts.faults(), 215);
}

#[test]
fn without_the_module_that_is_said_and_how_to_get_it() {
    let error = Hzmem::open(Arc::new(FakeKernel::new()))
        .err()
        .expect("it is not loaded");
    assert_eq!(error.exit_kind(), ExitKind::Missing);
    assert!(error.to_string().contains("insmod"), "{error}");
}

#[test]
fn a_file_of_a_mount_that_is_there_and_missing_is_an_error() {
    let kernel = kernel();
    kernel.state().files.remove(&root("mounts/0:45/scans"));
    assert!(matches!(open(&kernel).state(), Err(Error::Io { .. })));
    kernel
        .state()
        .files
        .insert(root("mounts/0:45/scans"), b"many\n".to_vec());
    let error = open(&kernel).state().expect_err("not a number");
    assert!(error.to_string().contains("many"), "{error}");
}

#[test]
fn a_file_of_a_range_that_is_of_another_form_is_named() {
    for (file, text) in [
        ("start", "here"),
        ("node", "-1"),
        ("origin", "found"),
        ("free", ""),
    ] {
        let kernel = kernel();
        let path = root(&format!("ranges/1/{file}"));
        kernel.state().files.insert(path.clone(), text.into());
        let error = open(&kernel).ranges().expect_err(file);
        assert!(
            error.to_string().contains(&path.display().to_string()),
            "{error}"
        );
    }
}

#[test]
fn memory_is_named_to_the_module_in_bytes() {
    let kernel = kernel();
    let hzmem = open(&kernel);
    hzmem.add(0x1000_0000, 128 << 20).expect("written");
    hzmem.remove(0x1000_0000).expect("written");
    let state = kernel.state();
    assert_eq!(state.files[&root("add")], b"0x10000000 0x8000000");
    assert_eq!(state.files[&root("remove")], b"0x10000000");
}

#[test]
fn a_dry_run_gives_nothing_away() {
    let kernel = kernel();
    let hzmem = Hzmem::open(Arc::new(ReadOnly(kernel.clone()))).expect("it is loaded");
    assert!(hzmem.add(0, 128 << 20).is_err());
    assert!(kernel.state().written.is_empty());
}

#[test]
fn a_module_that_was_unloaded_since_is_missing() {
    let kernel = kernel();
    let hzmem = open(&kernel);
    kernel.state().files.clear();
    for error in [hzmem.add(0, 1).err(), hzmem.ranges().err()] {
        let error = error.expect("nothing is there");
        assert_eq!(error.exit_kind(), ExitKind::Missing, "{error}");
    }
}
