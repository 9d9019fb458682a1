//! What a guest knows of its host: what came of the exchanges that it asked for, and by which pages its memory is mapped
//! there.

use std::collections::BTreeMap;

use mega_linux::exchanges::{Exchanges, refusal_in_words};
use mega_record::Header;
use serde::{Deserialize, Serialize};

use super::causes_in_words;

/// Pairs of huge pages that the host was asked to exchange, so that nothing had to be copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExchangeReport {
    /// Requests made, each of up to 512 pairs.
    pub(crate) requests: u64,
    /// Pairs that were exchanged.
    pub(crate) exchanged: u64,
    /// Pairs that were not, by reason; they were copied.
    pub(crate) not_exchanged: BTreeMap<String, u64>,
    /// Pairs of which the host said something else than what had happened.
    pub(crate) lied: u64,
    /// Pairs that the host left in the middle.
    pub(crate) unsettled: u64,
    /// Why the host exchanges nothing at all. Missing while it does.
    pub(crate) refusal: Option<String>,
}

impl From<&Exchanges> for ExchangeReport {
    fn from(seen: &Exchanges) -> Self {
        let named = |(reason, pairs): (&&str, &u64)| ((*reason).to_owned(), *pairs);
        ExchangeReport {
            requests: seen.requests,
            exchanged: seen.exchanged,
            not_exchanged: seen.not_exchanged.iter().map(named).collect(),
            lied: seen.lied,
            unsettled: seen.unsettled,
            refusal: seen.refusal.clone(),
        }
    }
}

impl ExchangeReport {
    /// Whether it is worth a word: something was asked for, or nothing can be.
    pub(crate) fn is_news(&self) -> bool {
        self.requests > 0 || self.refusal.is_some()
    }

    /// "512 pairs exchanged by the host in 1 request, 3 not (3 busy)".
    pub(crate) fn in_words(&self) -> String {
        let mut text = format!(
            "{} pairs exchanged by the host in {} requests",
            self.exchanged, self.requests
        );
        if !self.not_exchanged.is_empty() {
            let pairs: u64 = self.not_exchanged.values().sum();
            text += &format!(", {pairs} not ({})", causes_in_words(&self.not_exchanged));
        }
        if self.lied > 0 {
            text += &format!(", of {} it did not say the truth", self.lied);
        }
        if self.unsettled > 0 {
            text += &format!(", {} it left in the middle", self.unsettled);
        }
        if let Some(refusal) = &self.refusal {
            text += &format!("; it exchanges nothing: {}", refusal_in_words(refusal));
        }
        text
    }
}

/// By which pages a guest's host maps what the guest maps: the TLB holds the smaller of both. Missing where the machine is
/// no guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HostPage {
    /// No host tells its guests.
    #[serde(rename = "unknown")]
    Unknown,
    /// What has just been exchanged is in huge or base pages there: giant ones were broken up for it. Of the rest nothing is
    /// known.
    #[serde(rename = "at_most_2M")]
    AtMostHuge,
}

impl HostPage {
    /// Of a machine that is a guest or not, and of memory of which the host exchanged some or did not.
    pub(crate) fn of(is_guest: bool, exchanged: bool) -> Option<Self> {
        let of_guest = match exchanged {
            true => HostPage::AtMostHuge,
            false => HostPage::Unknown,
        };
        is_guest.then_some(of_guest)
    }

    /// Of the machine that a recording was made on; `None` also where it does not say.
    pub(crate) fn of_recording(header: &Header) -> Option<Self> {
        HostPage::of(header.is_guest == Some(true), false)
    }

    /// The host's side of a pair of page sizes.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            HostPage::Unknown => "host unknown",
            HostPage::AtMostHuge => {
                "host 2 MiB at most where it has just exchanged, unknown elsewhere"
            }
        }
    }
}

/// Whose the page sizes of a report are, where another machine's tables lie below or above them: of a guest the TLB holds
/// the smaller of its own and its host's. `None` where neither is so.
pub(crate) fn sizes_in_words(host_page: Option<HostPage>, runs_guest: bool) -> Option<String> {
    let as_guest =
        host_page.map(|host| format!("page sizes are this guest's, {}", host.in_words()));
    let as_host = runs_guest
        .then(|| "page sizes are the host's behind a guest's memory, guest unknown".to_owned());
    match (as_guest, as_host) {
        (Some(below), Some(above)) => Some(format!("{below}; {above}")),
        (below, above) => below.or(above),
    }
}

/// The same where there is room for few words. Empty where neither is so.
pub(crate) fn sizes_in_few_words(host_page: Option<HostPage>, runs_guest: bool) -> &'static str {
    match (host_page, runs_guest) {
        (None, false) => "",
        (Some(HostPage::Unknown), false) => "host unknown",
        (Some(HostPage::AtMostHuge), false) => "host 2 MiB at most",
        (None, true) => "guest unknown",
        (Some(HostPage::Unknown), true) => "host and guest unknown",
        (Some(HostPage::AtMostHuge), true) => "host 2 MiB at most, guest unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_exchanged_is_told_with_its_reason() {
        let mut report = ExchangeReport {
            requests: 2,
            exchanged: 1000,
            ..ExchangeReport::default()
        };
        let all = "1000 pairs exchanged by the host in 2 requests";
        assert_eq!(report.in_words(), all);
        report.not_exchanged.insert("busy".to_owned(), 20);
        report.not_exchanged.insert("too_late".to_owned(), 4);
        report.unsettled = 1;
        assert_eq!(
            report.in_words(),
            format!("{all}, 24 not (20 busy, 4 too late), 1 it left in the middle")
        );
        let refuses = ExchangeReport {
            refusal: Some("encrypted".to_owned()),
            ..ExchangeReport::default()
        };
        let words = refuses.in_words();
        assert!(
            words.ends_with("; it exchanges nothing: this guest is encrypted"),
            "{words}"
        );
    }

    #[test]
    fn only_a_guest_has_a_host() {
        assert_eq!(HostPage::of(false, false), None);
        assert_eq!(HostPage::of(true, false), Some(HostPage::Unknown));
        assert_eq!(HostPage::of(true, true), Some(HostPage::AtMostHuge));
    }

    #[test]
    fn both_sides_of_a_pair_are_named() {
        assert_eq!(sizes_in_words(None, false), None);
        let guest = "page sizes are this guest's, host unknown";
        let unknown = Some(HostPage::Unknown);
        assert_eq!(sizes_in_words(unknown, false).as_deref(), Some(guest));
        let host = "page sizes are the host's behind a guest's memory, guest unknown";
        assert_eq!(sizes_in_words(None, true).as_deref(), Some(host));
        let nested = format!("{guest}; {host}");
        assert_eq!(sizes_in_words(unknown, true), Some(nested));
        let few = |page, runs| sizes_in_few_words(page, runs);
        assert_eq!(few(None, false), "");
        assert_eq!(few(unknown, false), "host unknown");
        assert_eq!(few(None, true), "guest unknown");
        assert_eq!(few(unknown, true), "host and guest unknown");
    }
}
