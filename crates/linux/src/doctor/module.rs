//! Judges mega.ko: whether it is there, what it lacks on this kernel, and whether it was ever tested on such a one.

use super::decide::what_is_missing;
use super::probe::Probes;
use super::tested::untested;
use super::{Feature, State};
use crate::Error;
use crate::module::interface::{
    FEATURE_AVOID, FEATURE_COMPACT, FEATURE_COMPACT_COUNTS, FEATURE_KEEPS_YOUNG, Info,
};

/// The kernels on which the module's own tests were seen to pass (`kernel/vm/suites/run module`, and `giant`).
const TESTED: [&str; 5] = ["6.1", "6.12", "7.2", "7.3", "6.12-anon-pud"];

/// What a kernel may lack for the module, as its features say.
const MAY_LACK: [(u64, &str); 4] = [
    (
        FEATURE_COMPACT,
        "emptying chosen blocks (it takes CONFIG_CONTIG_ALLOC)",
    ),
    (
        FEATURE_COMPACT_COUNTS,
        "counts of what an emptying moved (it has other tracepoints)",
    ),
    (
        FEATURE_AVOID,
        "a say in where an emptying moves pages (patches of kernel/linux-6.12): some are moved twice",
    ),
    (
        FEATURE_KEEPS_YOUNG,
        "a flag for accesses that were cleared (CONFIG_PAGE_IDLE_FLAG): its reclaim takes what is tracked for older than it is",
    ),
];

/// Why a module that is installed may not be loaded.
pub(super) const SECURE_BOOT: &str = "; Secure Boot is on: the kernel loads no module that is signed by a key which it does not know";

pub(super) fn feature(probes: &Probes) -> Feature {
    let (state, mut seen) = match &probes.module {
        Ok(info) => (State::Available, of_loaded(info)),
        Err(error) => (State::Missing, what_is_missing(error)),
    };
    let refused = probes.module.is_err() && probes.secure_boot;
    if refused {
        seen.push_str(SECURE_BOOT);
    }
    if let Some(untested) = untested(&probes.release, &TESTED) {
        seen.push_str("; ");
        seen.push_str(&untested);
    }
    Feature {
        name: "kernel module (mega.ko)",
        state,
        seen,
        needed_for: "the tracker `module`, emptying chosen blocks, giant pages",
        cost_if_missing: "the next best tracker is used, and free blocks are left to the kernel's own compaction",
        remedy: match probes.module {
            Err(Error::OtherModule { .. }) => {
                "build the module that belongs to this program (`make -C kernel/module`), unload the other (`rmmod mega`) and load it (`insmod kernel/module/mega.ko`)"
            }
            _ if refused => {
                "install the package mega-dkms, and have the firmware enrol the key that DKMS signs it with: `mokutil --import /var/lib/dkms/mok.pub`, reboot, choose Enroll MOK"
            }
            _ => {
                "install the package mega-dkms, or build the module and load it: `make -C kernel/module`, `insmod kernel/module/mega.ko`"
            }
        },
        required: false,
    }
}

fn of_loaded(info: &Info) -> String {
    let mut seen = "it is loaded, and speaks this program's version of its interface".to_owned();
    for (feature, lack) in MAY_LACK {
        if info.features & feature == 0 {
            seen.push_str("; this kernel lacks ");
            seen.push_str(lack);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_on_which_the_tests_were_seen_to_pass_are_tested() {
        for release in [
            "6.1.0-56-cloud-amd64",
            "6.12.117+deb12-cloud-amd64",
            "6.12.117+deb13-cloud-amd64",
            "6.12.117-anon-pud",
            "7.2.12+deb13-cloud-amd64",
            "7.3.4+deb13-cloud-amd64",
        ] {
            assert_eq!(untested(release, &TESTED), None, "{release}");
        }
        // RHEL's 6.12, and one that somebody built.
        for release in ["6.12.0-55.el10.x86_64", "6.12.5"] {
            assert!(untested(release, &TESTED).is_some(), "{release}");
        }
    }

    #[test]
    fn what_a_kernel_lacks_is_named() {
        let every = MAY_LACK
            .iter()
            .fold(0, |features, (feature, _)| features | feature);
        let seen = |features| {
            of_loaded(&Info {
                features,
                ..Info::default()
            })
        };
        assert!(!seen(every).contains("lacks"));
        for (feature, lack) in MAY_LACK {
            assert!(seen(every & !feature).contains(lack), "{lack}");
        }
    }
}
