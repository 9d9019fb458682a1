use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mega_core::engine::{Totals, Unmet};
use mega_core::worth::Estimate;
use mega_core::{MemoryObservation, NodeMemory};
use mega_linux::exchanges::Exchanges;
use proptest::prelude::*;

use super::super::cgroups::OTHER;
use super::*;
use crate::config::Settings;
use crate::events::Change;
use crate::report::{CompactionReport, Observed};

fn selection(name: &str) -> Selection {
    let mut totals = Totals {
        steps: 7,
        bytes_copied: 4096,
        bytes_exchanged: 8192,
        ..Totals::default()
    };
    totals.done[ActionKind::Promote] = 3;
    totals.failures[ActionKind::Promote].insert(Cause::NoMemory, 2);
    Selection {
        name: name.to_owned(),
        settings: Arc::new(Settings {
            coverage: Some(0.95),
            ..Settings::default()
        }),
        totals,
        saved: Estimate::within(31.25, 26.5, 36.75),
        interval: Duration::from_secs(5),
        longest_hold: Duration::from_millis(2),
        refused: 1,
        short_of_coverage: 4,
        failed: false,
        not_eligible: BTreeMap::from([("misaligned_shared_memory".to_owned(), 1 << 21)]),
        unmet: vec![Unmet {
            blocks: 212,
            ..Unmet::default()
        }],
        summed_cgroups: 0,
    }
}

fn cgroup(selection: usize, name: &str) -> Cgroup {
    Cgroup {
        selection,
        name: name.to_owned(),
        processes: 2,
        observed: Observed {
            mapped: 8 << 20,
            huge: 6 << 20,
            accessed: None,
            ..Observed::default()
        },
    }
}

fn sample(selections: Vec<Selection>, cgroups: Vec<Cgroup>) -> Sample {
    Sample {
        started: 1_700_000_000.5,
        age: Duration::from_millis(250),
        cpu: Duration::from_millis(1500),
        resident: Some(9 << 20),
        tracker: "bpf".to_owned(),
        fault: "inherit",
        dry_run: false,
        failed: false,
        memory: Some(MemoryObservation {
            total: 8 << 30,
            available: 6 << 30,
            free: 4 << 30,
            contiguity: 3 << 30,
            nodes: vec![NodeMemory {
                node: 0,
                free: 4 << 30,
                contiguity: 3 << 30,
            }],
        }),
        exchange: Some(Exchanges {
            requests: 2,
            exchanged: 600,
            not_exchanged: BTreeMap::from([("busy", 9)]),
            lied: 0,
            unsettled: 1,
            refusal: None,
        }),
        is_guest: true,
        compaction: CompactionReport {
            tried: 5,
            emptied: 3,
            pages_migrated: 70,
            pages_failed: 1,
        },
        events: Change::NAMES.map(|name| (name, 2)),
        selections,
        cgroups,
    }
}

#[test]
fn each_value_is_where_it_belongs() {
    let text = text(sample(
        vec![selection("redis")],
        vec![cgroup(0, "/redis"), cgroup(0, OTHER)],
    ));
    for line in [
        concat!(
            "mega_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"} 1"
        ),
        "mega_manager_info{tracker=\"bpf\",fault=\"inherit\",dry_run=\"false\",host_page=\"unknown\"} 1",
        "mega_start_time_seconds 1700000000.5",
        "mega_tick_age_seconds 0.25",
        "# TYPE mega_cpu_seconds counter",
        "mega_cpu_seconds_total 1.5",
        "mega_resident_bytes 9437184",
        "mega_events_total{event=\"coverage_broken\"} 2",
        "mega_memory_fragmentation_ratio 0.25",
        "mega_node_contiguity_bytes{node=\"0\"} 3221225472",
        "mega_compaction_blocks_total{outcome=\"kept\"} 2",
        "mega_selection_info{selection=\"redis\",policy=\"adaptive\"} 1",
        "mega_selection_cpu_budget_ratio{selection=\"redis\"} 0.25",
        "mega_selection_longest_hold_seconds{selection=\"redis\"} 0.002",
        "mega_refused_processes{selection=\"redis\"} 1",
        "mega_selection_promised_coverage_ratio{selection=\"redis\"} 0.95",
        "mega_uncovered_processes{selection=\"redis\"} 4",
        "mega_unmet_blocks{selection=\"redis\"} 212",
        "mega_not_eligible_bytes{selection=\"redis\",reason=\"misaligned_shared_memory\"} 2097152",
        "mega_steps_total{selection=\"redis\"} 7",
        "mega_actions_total{selection=\"redis\",action=\"promote\"} 3",
        "mega_action_failures_total{selection=\"redis\",action=\"promote\",cause=\"no_memory\"} 2",
        "mega_action_failures_total{selection=\"redis\",action=\"demote\",cause=\"busy\"} 0",
        "mega_copied_bytes_total{selection=\"redis\"} 4096",
        "mega_exchanged_bytes_total{selection=\"redis\"} 8192",
        "mega_exchange_pairs_total{outcome=\"exchanged\"} 600",
        "mega_exchange_pairs_total{outcome=\"busy\"} 9",
        "mega_exchange_pairs_total{outcome=\"unsettled\"} 1",
        "# TYPE mega_saved_cpu_seconds counter",
        "mega_saved_cpu_seconds_total{selection=\"redis\"} 31.25",
        "mega_saved_cpu_least_seconds_total{selection=\"redis\"} 26.5",
        "mega_saved_cpu_most_seconds_total{selection=\"redis\"} 36.75",
        "mega_huge_bytes{selection=\"redis\",cgroup=\"/redis\"} 6291456",
        "mega_processes{selection=\"redis\",cgroup=\"other\"} 2",
        "# UNIT mega_huge_bytes bytes",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in\n{text}"
        );
    }
    // What is not known is missing, and its family too.
    assert!(!text.contains("mega_accessed"), "{text}");
    assert!(text.ends_with("\n# EOF\n"));
}

#[test]
fn nothing_managed_is_a_text_all_the_same() {
    let mut nothing = sample(Vec::new(), Vec::new());
    nothing.memory = None;
    nothing.exchange = None;
    nothing.resident = None;
    let text = text(nothing);
    assert!(text.contains("mega_build_info"), "{text}");
    assert!(!text.contains("selection"), "{text}");
}

/// The names of all metrics in a text, each with its suffix.
fn names(text: &str) -> BTreeSet<&str> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect()
}

#[test]
fn the_documentation_describes_each_metric_and_no_other() {
    let mut cgroup = cgroup(0, "/redis");
    cgroup.observed.accessed = Some(1);
    let text = text(sample(vec![selection("redis")], vec![cgroup]));
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(page).expect("docs/metrics.md");
    let documented = page
        .lines()
        .filter(|line| line.starts_with("| `mega_"))
        .flat_map(|line| {
            line.split('|')
                .nth(1)
                .into_iter()
                .flat_map(|cell| cell.split('`'))
        })
        .filter(|word| word.starts_with("mega_"));
    assert_eq!(names(&text), documented.collect());
}

/// The value of a label as a reader of the text has it.
fn unescape(text: &str) -> String {
    let mut value = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        value.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                other => other.expect("a whole escape"),
            },
            c => c,
        });
    }
    value
}

proptest! {
    /// A selection and a cgroup can have any name. Neither breaks the text, nor another's value.
    #[test]
    fn any_name_is_read_again(selected in "\\PC*|[a\"\\\\\n{},= ]*", path in "/(\\PC*|[a\"\\\\\n{},= ]*)") {
        let text = text(sample(vec![selection(&selected)], vec![cgroup(0, &path)]));
        let lines: Vec<&str> = text.split('\n').filter(|line| line.starts_with("mega_mapped_bytes{")).collect();
        prop_assert_eq!(lines.len(), 1);
        let labels = lines[0].strip_prefix("mega_mapped_bytes{selection=\"").expect("the label");
        let labels = labels.strip_suffix("\"} 8388608").expect("the value");
        let both: Vec<&str> = labels.split("\",cgroup=\"").collect();
        // A quote in a name is escaped, so that this is found once, unless a name ends in what looks like it.
        prop_assert_eq!(unescape(both[0]), selected);
        prop_assert_eq!(unescape(&both[1..].join("\",cgroup=\"")), path);
    }
}
