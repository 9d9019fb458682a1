//! The doctor on the running kernel.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::sync::Arc;

use common::skip;
use mega_linux::doctor::{self, Feature, State};
use mega_linux::kernel::fake::{FakeKernel, FakeModule};
use mega_linux::kernel::{Kernel, LiveKernel, ReadOnly};

#[test]
fn a_counter_of_tlb_misses_is_told() {
    let kernel = FakeKernel::new();
    let state = |kernel: &FakeKernel| {
        let boundary: Arc<dyn Kernel> = Arc::new(kernel.clone());
        let examination = doctor::examine(&boundary);
        let is_it = |feature: &&Feature| feature.name == "hardware counter of TLB misses";
        examination.features.iter().find(is_it).unwrap().state
    };
    assert_eq!(state(&kernel), State::Missing);
    kernel.state().has_tlb_miss_counter = true;
    assert_eq!(state(&kernel), State::Available);
}

#[test]
fn a_guest_is_told_why_its_host_exchanges_nothing() {
    let kernel = FakeKernel::new();
    let feature = |kernel: &FakeKernel| {
        let boundary: Arc<dyn Kernel> = Arc::new(kernel.clone());
        let mut features = doctor::examine(&boundary).features.into_iter();
        features.find(|feature| feature.name.starts_with("exchanges of memory"))
    };
    assert_eq!(feature(&kernel), None, "without the device");
    let device = "/sys/bus/pci/drivers/mega_exchange/0000:00:05.0/mega_exchange";
    for name in ["requests", "exchanged", "refused", "lied", "unsettled"] {
        let path = format!("{device}/{name}").into();
        kernel.state().files.insert(path, b"0\n".to_vec());
    }
    let refusal = format!("{device}/refusal");
    for (says, state) in [("none\n", State::Available), ("memory\n", State::Missing)] {
        let path = (&refusal).into();
        kernel.state().files.insert(path, says.into());
        assert_eq!(feature(&kernel).unwrap().state, state, "{says}");
    }
}

#[test]
fn every_feature_says_what_was_seen_and_what_to_do() {
    let kernel: Arc<dyn Kernel> = Arc::new(LiveKernel);
    let examination = doctor::examine(&kernel);
    assert!(!examination.kernel_release.is_empty());
    for feature in &examination.features {
        for text in [
            &*feature.seen,
            feature.needed_for,
            feature.cost_if_missing,
            feature.remedy,
        ] {
            assert!(!text.is_empty() && !text.contains('\n'), "{feature:?}");
        }
    }
    assert!(!examination.tracker.why.is_empty());
    if let Err(error) = examination.require() {
        return skip(
            "every_feature_says_what_was_seen_and_what_to_do",
            &error.to_string(),
        );
    }
    let split = examination
        .features
        .iter()
        .find(|feature| feature.name.starts_with("demotion"))
        .unwrap();
    assert_eq!(split.state, State::Available, "{split:?}");
}

#[test]
fn a_dry_run_calls_nothing_missing_that_it_did_not_try() {
    let live: Arc<dyn Kernel> = Arc::new(LiveKernel);
    let read_only: Arc<dyn Kernel> = Arc::new(ReadOnly(LiveKernel));
    let tried = doctor::examine(&live);
    let untried = doctor::examine(&read_only);
    for (tried, untried) in tried.features.iter().zip(&untried.features) {
        let both = tried.name == untried.name && !tried.name.starts_with("tracker");
        if both && tried.state == State::Available {
            assert_ne!(untried.state, State::Missing, "{untried:?}");
        }
    }
}

#[test]
fn secure_boot_is_named_where_a_module_is_not_loaded() {
    let told = |variable: &str| -> Vec<bool> {
        let efivars = "/sys/firmware/efi/efivars";
        let file = format!("{efivars}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c");
        let kernel: Arc<dyn Kernel> = Arc::new(FakeKernel::with_files(&[(&*file, variable)]));
        let examination = doctor::examine(&kernel);
        ["kernel module (mega.ko)", "hzmem"]
            .map(|name| {
                let is_it = |feature: &&Feature| feature.name == name;
                let feature = examination.features.iter().find(is_it).unwrap();
                let named = feature.seen.contains("Secure Boot is on");
                assert_eq!(feature.remedy.contains("mokutil --import"), named);
                named
            })
            .to_vec()
    };
    assert_eq!(told("\u{6}\0\0\0\u{1}"), [true, true]);
    assert_eq!(told("\u{6}\0\0\0\0"), [false, false]);
    assert_eq!(told(""), [false, false]);
}

/// What the doctor says of the kernel module.
fn module_feature(module: Option<FakeModule>) -> Feature {
    let kernel = FakeKernel::new();
    kernel.state().module = module;
    let kernel: Arc<dyn Kernel> = Arc::new(kernel);
    let mut features = doctor::examine(&kernel).features.into_iter();
    features
        .find(|feature| feature.name.starts_with("kernel module"))
        .unwrap()
}

#[test]
fn a_module_of_another_version_is_told_from_one_that_is_not_loaded() {
    let none = module_feature(None);
    assert_eq!(none.state, State::Missing);
    assert!(!none.seen.contains("loaded"), "{none:?}");

    let ours = module_feature(Some(FakeModule::with_giant_pages()));
    assert_eq!(ours.state, State::Available, "{ours:?}");

    let mut other = FakeModule::with_giant_pages();
    other.info.version += 1;
    let other = module_feature(Some(other));
    assert_eq!(other.state, State::Missing);
    assert!(
        other.seen.contains("is loaded, but it speaks version 2"),
        "{other:?}"
    );
    assert!(other.remedy.contains("rmmod mega"), "{other:?}");
}
