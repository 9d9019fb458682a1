//! The calibration: measured on the running kernel, kept, and made anew where what was kept is of no use.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use common::skip;
use mega_core::worth::{Calibration, Estimate, Point, Touching, Validity};
use mega_linux::calibrate::{self, Place, Stored};
use mega_linux::kernel::LiveKernel;
use mega_linux::kernel::fake::FakeKernel;

#[test]
fn what_is_measured_is_whole_and_makes_sense() {
    let mut heard = Vec::new();
    let sizes = [2 << 20, 8 << 20];
    let measured = calibrate::measure(&LiveKernel, &sizes, &mut |share| heard.push(share));
    let calibration = match measured {
        Ok(calibration) => calibration,
        Err(error @ mega_linux::Error::Missing { .. }) => {
            return skip(
                "what_is_measured_is_whole_and_makes_sense",
                &error.to_string(),
            );
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(calibration.nonsense(), None);
    assert_eq!(calibration.working_sets(), sizes);
    for touching in Touching::ALL {
        for size in sizes {
            let is_it = |point: &&Point| point.touching == touching && point.working_set == size;
            assert_eq!(calibration.points.iter().filter(is_it).count(), 1);
        }
    }
    assert!(calibration.promotion.value > 0.0);
    assert_eq!(heard, [0.5, 1.0]);
    assert_eq!(
        calibration.valid_for,
        calibrate::validity(&LiveKernel).unwrap()
    );
}

fn validity() -> Validity {
    Validity {
        processor: "a processor".to_owned(),
        kernel: "6.18".to_owned(),
        hypervisor: Some("a hypervisor".to_owned()),
        memory: 8 << 30,
        method: 1,
    }
}

fn calibration() -> Calibration {
    Calibration {
        valid_for: validity(),
        made: 1,
        points: vec![Point {
            working_set: 2 << 20,
            touching: Touching::Serial,
            ns: 10.0,
            saved: Estimate::exact(1.0),
        }],
        apart: None,
        giant: None,
        promotion: Estimate::exact(0.001),
        copy: Estimate::exact(0.001),
    }
}

#[test]
fn a_calibration_is_kept_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::at(folder.path().join("state"));
    assert!(matches!(place.load(&validity()), Stored::Not(_)));
    place.store(&calibration()).unwrap();
    assert_eq!(
        place.load(&validity()),
        Stored::Valid(Box::new(calibration()))
    );
    // Nothing but the file is left.
    let left = std::fs::read_dir(folder.path().join("state")).unwrap();
    assert_eq!(left.count(), 1);
}

#[test]
fn one_of_another_machine_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::at(folder.path().to_owned());
    place.store(&calibration()).unwrap();
    let mut now = validity();
    now.kernel = "6.19".to_owned();
    let Stored::Not(why) = place.load(&now) else {
        panic!("it was used");
    };
    assert!(why.contains("another kernel"), "{why}");
}

#[test]
fn a_damaged_file_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::at(folder.path().to_owned());
    let whole = serde_json::to_string(&calibration()).unwrap();
    let half = &whole[..whole.len() / 2];
    let senseless = whole.replace("10.0", "-10.0");
    for text in ["", "{", "\0\0", "[]", half, &senseless] {
        std::fs::write(place.file(), text).unwrap();
        let Stored::Not(why) = place.load(&validity()) else {
            panic!("it was used: {text}");
        };
        assert!(why.contains("is damaged") && !why.contains('\n'), "{why}");
        let name = place.file().display().to_string();
        assert!(why.contains(&name), "{why}");
    }
}

#[test]
fn a_machine_without_memory_to_spare_is_told() {
    let kernel = FakeKernel::new();
    {
        let mut state = kernel.state();
        state
            .files
            .insert("/proc/cpuinfo".into(), b"model name : one\n".to_vec());
        state
            .files
            .insert("/proc/sys/kernel/osrelease".into(), b"6.18\n".to_vec());
    }
    let error = calibrate::measure(&kernel, &calibrate::WORKING_SETS, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("free memory"), "{error}");
    assert_eq!(error.exit_kind().code(), 3);
}

#[test]
fn the_limit_of_a_cgroup_is_kept() {
    let kernel = FakeKernel::new();
    let pid = std::process::id();
    let files = [
        ("/proc/cpuinfo".to_owned(), "model name : one\n"),
        ("/proc/sys/kernel/osrelease".to_owned(), "6.18\n"),
        (
            "/proc/meminfo".to_owned(),
            "MemTotal: 99999999 kB\nMemAvailable: 99999999 kB\nMemFree: 99999999 kB\n",
        ),
        (
            "/proc/self/mounts".to_owned(),
            "none /cgroup cgroup2 rw 0 0\n",
        ),
        (format!("/proc/{pid}/cgroup"), "0::/small\n"),
        ("/cgroup/small/memory.max".to_owned(), "4194304\n"),
        ("/cgroup/small/memory.current".to_owned(), "1048576\n"),
    ];
    for (path, text) in files {
        let text = text.as_bytes().to_vec();
        kernel.state().files.insert(path.into(), text);
    }
    // The smallest working set takes 4 MiB in both layouts.
    let error = calibrate::measure(&kernel, &calibrate::WORKING_SETS, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("2 MiB may be taken"), "{error}");
}

#[test]
fn a_machine_is_told_by_what_proc_says() {
    let kernel = FakeKernel::new();
    let cpuinfo =
        b"processor\t: 0\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: A CPU\nstepping\t: 2\n\
                    flags\t\t: fpu hypervisor avx\n\nprocessor\t: 1\n";
    let mut state = kernel.state();
    state.files.insert("/proc/cpuinfo".into(), cpuinfo.to_vec());
    state
        .files
        .insert("/proc/sys/kernel/osrelease".into(), b"6.18.1\n".to_vec());
    state
        .files
        .insert("/sys/class/dmi/id/sys_vendor".into(), b"QEMU\n".to_vec());
    drop(state);
    let validity = calibrate::validity(&kernel).unwrap();
    assert_eq!(validity.processor, "A CPU (6/207/2)");
    assert_eq!(validity.kernel, "6.18.1");
    assert_eq!(validity.hypervisor.as_deref(), Some("QEMU"));
    assert_eq!(validity.memory, 1000 << 10);
}
