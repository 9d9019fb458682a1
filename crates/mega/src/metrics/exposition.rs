//! A sample as OpenMetrics text. `docs/metrics.md` describes each metric.

use std::fmt;

use mega_core::{ActionKind, Cause};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::cgroups::Cgroup;
use super::sample::{Sample, Selection};

/// What such a text is called in HTTP.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text of a sample.
pub(super) fn text(sample: Sample) -> String {
    let mut registry = Registry::with_prefix("mega");
    registry.register_collector(Box::new(sample));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut text, &registry);
    text
}

impl Collector for Sample {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        self.manager(&mut families)?;
        self.memory(&mut families)?;
        self.compaction(&mut families)?;
        self.exchange(&mut families)?;
        self.selections(&mut families)?;
        self.actions(&mut families)?;
        self.cgroups(&mut families)
    }
}

impl Sample {
    fn manager(&self, families: &mut Families<'_>) -> fmt::Result {
        families.info(
            "build",
            "The version of mega.",
            [[("version", env!("CARGO_PKG_VERSION"))]],
        )?;
        families.info(
            "manager",
            "How the daemon runs: its tracker, what page faults should take, whether it changes anything, and whether a host's pages lie below these.",
            [[
                ("tracker", self.tracker.as_str()),
                ("fault", self.fault),
                ("dry_run", if self.dry_run { "true" } else { "false" }),
                ("host_page", if self.is_guest { "unknown" } else { "none" }),
            ]],
        )?;
        families.one(
            "start_time",
            "When the daemon started, since 1970.",
            Some(Unit::Seconds),
            self.started,
        )?;
        families.one(
            "tick_age",
            "Time since the manager last looked for processes and took the steps that were due.",
            Some(Unit::Seconds),
            self.age.as_secs_f64(),
        )?;
        families.one_counter(
            "cpu",
            "CPU time that the daemon used.",
            Some(Unit::Seconds),
            self.cpu.as_secs_f64(),
        )?;
        if let Some(resident) = self.resident {
            families.one(
                "resident",
                "Resident memory of the daemon.",
                Some(Unit::Bytes),
                resident,
            )?;
        }
        families.one(
            "listing_failed",
            "1 if the daemon could not list processes at its last try.",
            None,
            u32::from(self.failed),
        )?;
        let events = self.events.iter();
        families.counter(
            "events",
            "What changed, as `mega events` shows it.",
            None,
            events.map(|&(name, count)| ([("event", name)], count)),
        )
    }

    fn memory(&self, families: &mut Families<'_>) -> fmt::Result {
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        for (name, help, bytes) in [
            (
                "memory_size",
                "Memory that the kernel manages.",
                memory.total,
            ),
            (
                "memory_available",
                "Memory that can be had without swapping.",
                memory.available,
            ),
            ("memory_free", "Free memory.", memory.free),
            (
                "memory_contiguity",
                "Free memory in blocks of at least 2 MiB.",
                memory.contiguity,
            ),
        ] {
            families.one(name, help, Some(Unit::Bytes), bytes)?;
        }
        families.one(
            "memory_fragmentation",
            "The part of free memory in blocks too small for a huge page (FMFI at order 9).",
            Some(ratio()),
            memory.fmfi(),
        )?;
        let nodes = || {
            let labelled =
                |node: &mega_core::NodeMemory| ([("node", node.node.to_string())], *node);
            memory.nodes.iter().map(labelled)
        };
        families.gauge(
            "node_free",
            "Free memory of a NUMA node.",
            Some(Unit::Bytes),
            nodes().map(|(labels, node)| (labels, node.free)),
        )?;
        families.gauge(
            "node_contiguity",
            "Free memory of a NUMA node in blocks of at least 2 MiB.",
            Some(Unit::Bytes),
            nodes().map(|(labels, node)| (labels, node.contiguity)),
        )
    }

    fn compaction(&self, families: &mut Families<'_>) -> fmt::Result {
        let done = self.compaction;
        families.counter(
            "compaction_blocks",
            "Blocks that the daemon tried to empty ahead of promotions, by what came of it.",
            None,
            [
                ([("outcome", "emptied")], done.emptied),
                (
                    [("outcome", "kept")],
                    done.tried.saturating_sub(done.emptied),
                ),
            ],
        )?;
        families.counter(
            "compaction_pages",
            "Base pages that the daemon tried to move for that, by what came of it.",
            None,
            [
                ([("outcome", "moved")], done.pages_migrated),
                ([("outcome", "kept")], done.pages_failed),
            ],
        )
    }

    /// Of the whole machine, since its kernel found the device.
    fn exchange(&self, families: &mut Families<'_>) -> fmt::Result {
        let Some(all) = &self.exchange else {
            return Ok(());
        };
        families.one_counter(
            "exchange_requests",
            "Requests to the host to exchange what is behind pairs of huge pages.",
            None,
            all.requests,
        )?;
        let reasons = all.not_exchanged.iter();
        let outcomes = [
            ("exchanged", all.exchanged),
            ("lied", all.lied),
            ("unsettled", all.unsettled),
        ];
        families.counter(
            "exchange_pairs",
            "Pairs of huge pages that the host was asked to exchange, by what came of them: exchanged, or why not.",
            None,
            outcomes
                .into_iter()
                .chain(reasons.map(|(reason, pairs)| (*reason, *pairs)))
                .map(|(outcome, pairs)| ([("outcome", outcome)], pairs)),
        )
    }

    fn selections(&self, families: &mut Families<'_>) -> fmt::Result {
        families.info(
            "selection",
            "A selection and its policy.",
            self.selections.iter().map(|selection| {
                [
                    ("selection", selection.name.as_str()),
                    ("policy", selection.settings.policy.as_str()),
                ]
            }),
        )?;
        families.gauge(
            "selection_interval",
            "Time between two observations.",
            Some(Unit::Seconds),
            self.each(|selection| selection.interval.as_secs_f64()),
        )?;
        families.gauge(
            "selection_cpu_budget",
            "CPU time that managing may take, of one core.",
            Some(ratio()),
            self.each(|selection| selection.settings.budgets.cpu_share),
        )?;
        families.gauge(
            "selection_copy_budget_bytes_per_second",
            "Bytes that promotions may copy in a second.",
            None,
            self.each(|selection| selection.settings.budgets.copy_bytes_per_second),
        )?;
        families.gauge(
            "selection_lock_bound",
            "How long the daemon may hold a process's mmap lock in one go.",
            Some(Unit::Seconds),
            self.each(|selection| selection.settings.lock_bound.as_secs_f64()),
        )?;
        families.gauge(
            "selection_longest_hold",
            "The longest time that the daemon held a process's mmap lock in one go, since the start.",
            Some(Unit::Seconds),
            self.each(|selection| selection.longest_hold.as_secs_f64()),
        )?;
        families.gauge(
            "selection_failed",
            "1 if the latest step failed.",
            None,
            self.each(|selection| u32::from(selection.failed)),
        )?;
        families.gauge(
            "selection_promised_coverage",
            "The part of each process's memory that is to be in huge pages. Missing where nothing is promised.",
            Some(ratio()),
            self.selections.iter().filter_map(|selection| {
                let labels = [("selection", selection.name.as_str())];
                Some((labels, selection.settings.coverage?))
            }),
        )?;
        families.gauge(
            "uncovered_processes",
            "Processes that have less in huge pages than is promised.",
            None,
            self.each(|selection| selection.short_of_coverage),
        )?;
        families.gauge(
            "refused_processes",
            "Processes that run and that the daemon cannot observe.",
            None,
            self.each(|selection| selection.refused),
        )?;
        families.gauge(
            "not_eligible",
            "Addresses that huge pages would be of use in and cannot map, by reason.",
            Some(Unit::Bytes),
            self.selections.iter().flat_map(|selection| {
                selection.not_eligible.iter().map(|(reason, bytes)| {
                    let labels = [("selection", selection.name.as_str()), ("reason", reason)];
                    (labels, *bytes)
                })
            }),
        )?;
        families.gauge(
            "unmet_blocks",
            "Free blocks of 2 MiB that the latest step wanted and did not get.",
            None,
            self.each(|selection| {
                selection
                    .unmet
                    .iter()
                    .map(|unmet| unmet.blocks)
                    .sum::<u64>()
            }),
        )?;
        families.gauge(
            "unmet_chunks",
            "Free chunks of 1 GiB that the latest step wanted and did not get.",
            None,
            self.each(|selection| {
                selection
                    .unmet
                    .iter()
                    .map(|unmet| unmet.chunks)
                    .sum::<u64>()
            }),
        )?;
        families.gauge(
            "other_cgroups",
            "Cgroups that are summed in the series whose cgroup is \"other\".",
            None,
            self.each(|selection| selection.summed_cgroups),
        )
    }

    fn actions(&self, families: &mut Families<'_>) -> fmt::Result {
        families.counter(
            "steps",
            "Observations of a selection's processes.",
            None,
            self.each(|selection| selection.totals.steps),
        )?;
        families.counter(
            "actions",
            "Regions and spans that the daemon changed, each verified by looking again.",
            None,
            self.by_action(|selection, kind| selection.totals.done[kind]),
        )?;
        families.counter(
            "action_failures",
            "Actions that failed, by cause.",
            None,
            self.by_action_and_cause(),
        )?;
        families.counter(
            "left_out_actions",
            "Actions that a dry run left out.",
            None,
            self.by_action(|selection, kind| selection.totals.left_out[kind]),
        )?;
        families.counter(
            "needless_actions",
            "Actions on regions and spans that were as wanted already.",
            None,
            self.each(|selection| selection.totals.already_so),
        )?;
        families.counter(
            "deferred_actions",
            "Actions that a budget put off, each time anew.",
            None,
            self.each(|selection| selection.totals.deferred_by_budget),
        )?;
        families.counter(
            "held_back_actions",
            "Actions held back, each time anew: after a failure, or because a part of the region is in swap.",
            None,
            self.selections.iter().flat_map(|selection| {
                let labels = |reason| [("selection", selection.name.as_str()), ("reason", reason)];
                [
                    (labels("failed_before"), selection.totals.backed_off),
                    (labels("swapped"), selection.totals.held_for_swap),
                ]
            }),
        )?;
        families.counter(
            "inspected_regions",
            "Regions whose zero-filled base pages the daemon counted.",
            None,
            self.each(|selection| selection.totals.inspected),
        )?;
        families.counter(
            "zero_filled",
            "Bytes of the zero-filled base pages that the daemon counted.",
            Some(Unit::Bytes),
            self.each(|selection| selection.totals.bytes_zero_filled),
        )?;
        families.counter(
            "copied",
            "Bytes that promotions copied.",
            Some(Unit::Bytes),
            self.each(|selection| selection.totals.bytes_copied),
        )?;
        families.counter(
            "exchanged",
            "Bytes that giant pages needed moved and that the host of this guest exchanged instead of a copy.",
            Some(Unit::Bytes),
            self.each(|selection| selection.totals.bytes_exchanged),
        )?;
        families.counter(
            "given_back",
            "Bytes that demotions and searches for zero-filled huge pages gave back.",
            Some(Unit::Bytes),
            self.each(|selection| selection.totals.bytes_given_back),
        )?;
        families.counter(
            "bloat_added",
            "Bytes that promotions added to the resident memory.",
            Some(Unit::Bytes),
            self.each(|selection| selection.totals.bloat_bytes_added),
        )?;
        self.saved(families)
    }

    /// A reckoning with its interval, as three counters: parts of one family would invite a sum over them.
    fn saved(&self, families: &mut Families<'_>) -> fmt::Result {
        families.counter(
            "saved_cpu",
            "CPU time that huge pages saved the processes whose gain was measured, as it is reckoned.",
            Some(Unit::Seconds),
            self.each(|selection| selection.saved.value),
        )?;
        families.counter(
            "saved_cpu_least",
            "The lower end of the interval of that.",
            Some(Unit::Seconds),
            self.each(|selection| selection.saved.low),
        )?;
        families.counter(
            "saved_cpu_most",
            "The upper end of the interval of that.",
            Some(Unit::Seconds),
            self.each(|selection| selection.saved.high),
        )
    }

    fn cgroups(&self, families: &mut Families<'_>) -> fmt::Result {
        families.gauge(
            "processes",
            "Managed processes.",
            None,
            self.each_cgroup(|cgroup| Some(cgroup.processes)),
        )?;
        families.gauge(
            "mapped",
            "Memory of managed processes that has a physical page, in regions that huge pages can map.",
            Some(Unit::Bytes),
            self.each_cgroup(|cgroup| Some(cgroup.observed.mapped)),
        )?;
        families.gauge(
            "huge",
            "The part of it that huge pages map, or giant ones.",
            Some(Unit::Bytes),
            self.each_cgroup(|cgroup| Some(cgroup.observed.huge)),
        )?;
        families.gauge(
            "giant",
            "The part of it that giant pages map.",
            Some(Unit::Bytes),
            self.each_cgroup(|cgroup| Some(cgroup.observed.giant)),
        )?;
        families.gauge(
            "accessed",
            "The part of it that was accessed in the last interval; a huge page counts whole. Missing where it is not known.",
            Some(Unit::Bytes),
            self.each_cgroup(|cgroup| cgroup.observed.accessed),
        )
    }

    /// A value of each selection.
    fn each<V>(
        &self,
        value: impl Fn(&Selection) -> V,
    ) -> impl Iterator<Item = ([(&'static str, &str); 1], V)> {
        self.selections.iter().map(move |selection| {
            let labels = [("selection", selection.name.as_str())];
            (labels, value(selection))
        })
    }

    /// A value of each selection for each kind of action.
    fn by_action(
        &self,
        value: impl Fn(&Selection, ActionKind) -> u64 + Copy,
    ) -> impl Iterator<Item = ([(&'static str, &str); 2], u64)> {
        self.selections.iter().flat_map(move |selection| {
            ActionKind::ALL.into_iter().map(move |kind| {
                let labels = [
                    ("selection", selection.name.as_str()),
                    ("action", kind.name()),
                ];
                (labels, value(selection, kind))
            })
        })
    }

    /// Failures of each selection. Every cause is there from the start, so that a rate sees the first failure.
    fn by_action_and_cause(&self) -> impl Iterator<Item = ([(&'static str, &str); 3], u64)> {
        self.selections.iter().flat_map(|selection| {
            let kinds = ActionKind::ALL.into_iter();
            kinds.flat_map(move |kind| {
                Cause::ALL.into_iter().map(move |cause| {
                    let count = selection.totals.failures[kind].get(&cause);
                    let labels = [
                        ("selection", selection.name.as_str()),
                        ("action", kind.name()),
                        ("cause", cause.name()),
                    ];
                    (labels, count.copied().unwrap_or(0))
                })
            })
        })
    }

    /// A value of each cgroup that has it.
    fn each_cgroup(
        &self,
        value: impl Fn(&Cgroup) -> Option<u64>,
    ) -> impl Iterator<Item = ([(&'static str, &str); 2], u64)> {
        self.cgroups.iter().filter_map(move |cgroup| {
            let selection = self.selections.get(cgroup.selection)?;
            let labels = [
                ("selection", selection.name.as_str()),
                ("cgroup", cgroup.name.as_str()),
            ];
            Some((labels, value(cgroup)?))
        })
    }
}

/// The unit of a part of one. The library's own has a plural.
fn ratio() -> Unit {
    Unit::Other("ratio".to_owned())
}

/// Writes families of series. One without a series is left out.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    /// A gauge that has one series.
    fn one(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        self.0
            .encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?
            .encode_gauge(&value)
    }

    /// A counter that has one series.
    fn one_counter(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        value: impl EncodeCounterValue,
    ) -> fmt::Result {
        self.0
            .encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    fn gauge<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut family = self
            .0
            .encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        series.try_for_each(|(labels, value)| family.encode_family(&labels)?.encode_gauge(&value))
    }

    fn counter<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut family =
            self.0
                .encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        series.try_for_each(|(labels, value)| {
            let mut one = family.encode_family(&labels)?;
            one.encode_counter::<NoLabelSet, _, f64>(&value, None)
        })
    }

    fn info<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = L>,
    ) -> fmt::Result {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Info)?;
        series.try_for_each(|labels| family.encode_info(&labels))
    }
}

#[cfg(test)]
mod tests;
