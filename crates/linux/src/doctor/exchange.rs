//! Judges whether the host of this machine, a guest, exchanges memory for it.

use super::{Feature, State};
use crate::exchanges::{Exchanges, refusal_in_words};

/// Of a guest whose host has given it the device for that.
pub(super) fn feature(exchanges: &Exchanges) -> Feature {
    let (state, seen) = match &exchanges.refusal {
        None => (
            State::Available,
            format!("it serves; {} pairs exchanged so far", exchanges.exchanged),
        ),
        Some(refusal) => (
            State::Missing,
            format!("it exchanges nothing: {}", refusal_in_words(refusal)),
        ),
    };
    Feature {
        name: "exchanges of memory by this guest's host",
        state,
        seen,
        needed_for: "giant pages in a guest without copying",
        cost_if_missing: "a promotion to 1 GiB copies each huge page that does not lie in its place",
        remedy: remedy(exchanges.refusal.as_deref()),
        required: false,
    }
}

/// What is to be changed on the host, by its reason (`docs/exchange.md`).
fn remedy(refusal: Option<&str>) -> &'static str {
    match refusal {
        Some("devices") => {
            "start the guest without assigned devices (VFIO): they know its memory by its place"
        }
        Some("encrypted") => "start the guest without encryption of its memory",
        Some("memory") => {
            "have the VMM take private anonymous memory for the guest: no share=on, no file, no hugetlb, nothing locked"
        }
        Some("host") => {
            "on the host, boot Linux 6.8 or newer; where its `mega daemon` was to exchange, the daemon's log says why it does not"
        }
        _ => "on the host, read what the VMM says: QEMU's plugin says it on standard error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(refusal: Option<&str>) -> Feature {
        feature(&Exchanges {
            refusal: refusal.map(str::to_owned),
            ..Exchanges::default()
        })
    }

    #[test]
    fn each_reason_has_its_words_and_its_remedy() {
        assert_eq!(of(None).state, State::Available);
        let reasons = ["devices", "encrypted", "memory", "host", "unknown"];
        let features = reasons.map(|reason| of(Some(reason)));
        for (number, feature) in features.iter().enumerate() {
            assert_eq!(feature.state, State::Missing);
            assert!(!feature.required);
            for other in &features[..number] {
                assert_ne!(feature.seen, other.seen);
                assert_ne!(feature.remedy, other.remedy);
            }
        }
        assert!(
            of(Some("encrypted"))
                .seen
                .contains("this guest is encrypted")
        );
        // Of a newer host, and of a newer module.
        assert!(of(Some("other")).seen.contains("does not know"));
        assert!(of(Some("weather")).seen.ends_with(": weather"));
    }
}
