//! `mega status`: whether all is well, in ten lines.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::ActionKind;
use mega_core::bytes;
use mega_core::worth::Estimate;

use crate::report::{
    Actions, GroupStatus, ManagerStatus, Memory, Mode, Observed, causes_in_words, sizes_in_words,
};
use crate::share::{percent, share};
use crate::value::format_duration;

/// What all managers together see and do.
pub(super) struct Summary<'a> {
    managers: &'a [ManagerStatus],
    memory: Option<Memory>,
    observed: Observed,
    processes: u64,
    refused: u64,
    resident: u64,
    wanted: u64,
}

impl<'a> Summary<'a> {
    pub(super) fn of(managers: &'a [ManagerStatus]) -> Self {
        let groups = || managers.iter().flat_map(|manager| &manager.groups);
        let processes = || groups().flat_map(|group| &group.processes);
        Summary {
            managers,
            memory: managers.iter().rev().find_map(|manager| manager.memory),
            observed: groups().map(|group| group.totals).sum(),
            processes: processes().count() as u64,
            refused: groups().map(|group| group.refused_count).sum(),
            resident: processes().map(|process| process.resident).sum(),
            wanted: processes().map(|process| process.tally.wanted).sum(),
        }
    }

    /// Ten lines.
    pub(super) fn in_words(&self) -> String {
        let lines = [
            ("state", self.state()),
            ("managers", self.who()),
            ("memory", self.memory_in_words()),
            ("processes", self.processes_in_words()),
            ("coverage", self.coverage()),
            ("wanted", self.wanted_in_words()),
            ("done", self.done()),
            ("failed", self.failed()),
            ("cost", self.cost()),
            ("faults", self.faults()),
        ];
        let line = |(name, text): (&str, String)| format!("{name:<10} {text}\n");
        lines.into_iter().map(line).collect()
    }

    fn groups(&self) -> impl Iterator<Item = &'a GroupStatus> {
        self.managers.iter().flat_map(|manager| &manager.groups)
    }

    fn actions(&self) -> impl Iterator<Item = &'a Actions> {
        self.managers.iter().flat_map(ManagerStatus::actions)
    }

    fn sum(&self, of: fn(&Actions) -> u64) -> u64 {
        self.actions().map(of).sum()
    }

    /// "fine", or what is not.
    fn state(&self) -> String {
        let troubles = self.troubles();
        match troubles.as_slice() {
            [] => "fine".to_owned(),
            troubles => format!("look at this: {}", troubles.join("; ")),
        }
    }

    /// What somebody should look into.
    fn troubles(&self) -> Vec<String> {
        let mut troubles: Vec<String> = self
            .managers
            .iter()
            .filter_map(|manager| manager.last_error.clone())
            .collect();
        for group in self.groups() {
            let name = &group.name;
            if let Some(error) = &group.last_error {
                troubles.push(format!("the latest step of {name} failed: {error}"));
            }
            if group.longest_hold_seconds > 2.0 * group.lock_bound_seconds {
                let held = seconds(group.longest_hold_seconds);
                let bound = seconds(group.lock_bound_seconds);
                troubles.push(format!("{name} held a lock for {held} (bound {bound})"));
            }
        }
        if self.refused > 0 {
            let verb = if self.refused == 1 { "is" } else { "are" };
            troubles.push(format!(
                "{} {verb} not managed (`mega status --processes --sort failure`)",
                processes(self.refused)
            ));
        }
        let short = self.short_of_memory();
        if short > 0 {
            troubles.push(format!(
                "{} found no free block lately (`mega frag`)",
                processes(short)
            ));
        }
        troubles
    }

    /// Processes whose last failure, of one of the last two steps, was a lack of memory.
    fn short_of_memory(&self) -> u64 {
        let is_short = |failure: &crate::report::LastFailure| {
            failure.cause == "no_memory" && failure.steps_ago < 2
        };
        self.groups()
            .flat_map(|group| &group.processes)
            .filter_map(|process| process.tally.last_failure.as_ref())
            .filter(|failure| is_short(failure))
            .count() as u64
    }

    fn who(&self) -> String {
        const NAMED: usize = 3;
        let name = |manager: &ManagerStatus| {
            let kind = match &manager.mode {
                Mode::Run { command } => {
                    format!("mega run {}", command.first().map_or("", String::as_str))
                }
                Mode::Daemon { config } => format!("mega daemon {}", config.display()),
                Mode::Observe => "mega top".to_owned(),
            };
            let dry_run = if manager.dry_run { ", dry run" } else { "" };
            format!(
                "{kind} (pid {}, up {}, tracker {}{dry_run})",
                manager.pid,
                seconds(manager.uptime_seconds),
                manager.tracker
            )
        };
        let mut names: Vec<String> = self.managers.iter().take(NAMED).map(name).collect();
        if self.managers.len() > NAMED {
            names.push(format!("and {} more", self.managers.len() - NAMED));
        }
        names.join(", ")
    }

    fn memory_in_words(&self) -> String {
        match &self.memory {
            None => "not looked at yet".to_owned(),
            Some(memory) => format!(
                "{} of {} available; free {}, {} of it in 2 MiB blocks (FMFI {:.2})",
                bytes::format(memory.available),
                bytes::format(memory.total),
                bytes::format(memory.free),
                bytes::format(memory.contiguity),
                memory.fmfi
            ),
        }
    }

    fn processes_in_words(&self) -> String {
        let mut text = format!(
            "{} managed in {}, {} resident",
            self.processes,
            counted(self.groups().count(), "group"),
            bytes::format(self.resident)
        );
        if self.refused > 0 {
            text += &format!("; {} cannot be observed", self.refused);
        }
        text
    }

    fn coverage(&self) -> String {
        let observed = &self.observed;
        let mut text = format!(
            "{} of {} in huge pages ({})",
            bytes::format(observed.huge),
            bytes::format(observed.mapped),
            percent(share(observed.huge, observed.mapped))
        );
        if observed.giant > 0 {
            text += &format!(", {} of it in giant ones", bytes::format(observed.giant));
        }
        if let Some(bloat) = observed.bloat {
            text += &format!("; {} of it zero-filled", bytes::format(bloat));
        }
        text += &self.sizes();
        text + &self.gain()
    }

    /// Whose page sizes these are, where that is a question.
    fn sizes(&self) -> String {
        let host_page = self.managers.iter().find_map(|manager| manager.host_page);
        let mut processes = self.groups().flat_map(|group| &group.processes);
        let runs_guest = processes.any(|process| process.runs_guest);
        sizes_in_words(host_page, runs_guest).map_or_else(String::new, |sizes| format!("; {sizes}"))
    }

    /// What huge pages would gain the measured processes; empty where none was measured.
    fn gain(&self) -> String {
        let processes = self.groups().flat_map(|group| &group.processes);
        let gains: Vec<_> = processes.filter_map(|process| process.gain).collect();
        if gains.is_empty() {
            return String::new();
        }
        let saved = |of: fn(Estimate) -> f64| -> f64 {
            gains.iter().map(|gain| of(gain.saved_cpus())).sum()
        };
        format!(
            "; huge pages save {} {:.2} CPUs ({:.2} to {:.2}) of {:.2}",
            processes_measured(gains.len()),
            saved(|saved| saved.value),
            saved(|saved| saved.low),
            saved(|saved| saved.high),
            gains.iter().map(|gain| gain.cpu_share).sum::<f64>()
        )
    }

    fn wanted_in_words(&self) -> String {
        match self.wanted {
            0 => "nothing more".to_owned(),
            wanted => format!("{} more in huge pages", bytes::format(wanted)),
        }
    }

    fn done(&self) -> String {
        let mut text = format!(
            "{} promoted, {} demoted, {} copied, {} given back",
            self.sum(|actions| actions.done[ActionKind::Promote]),
            self.sum(|actions| actions.done[ActionKind::Demote]),
            bytes::format(self.sum(|actions| actions.bytes_copied)),
            bytes::format(self.sum(|actions| actions.bytes_given_back))
        );
        let exchanged = self.sum(|actions| actions.bytes_exchanged);
        if exchanged > 0 {
            text += &format!(", {} exchanged instead", bytes::format(exchanged));
        }
        let giant = self.sum(|actions| actions.done[ActionKind::PromoteGiant]);
        if giant > 0 {
            text += &format!(", {giant} made giant");
        }
        // Each manager has counted all of the machine's.
        let exchange = self
            .managers
            .iter()
            .rev()
            .find_map(|manager| manager.exchange.as_ref());
        if let Some(exchange) = exchange.filter(|exchange| exchange.is_news()) {
            text += &format!(" ({})", exchange.in_words());
        }
        if self.managers.iter().any(|manager| manager.dry_run) {
            let left_out = self.sum(|actions| actions.left_out.values().sum());
            text += &format!(", {left_out} left out (dry run)");
        }
        text
    }

    fn failed(&self) -> String {
        let mut causes: BTreeMap<String, u64> = BTreeMap::new();
        for failures in self.actions().map(|actions| &actions.failures) {
            for (cause, count) in failures.by_cause() {
                *causes.entry(cause.clone()).or_default() += count;
            }
        }
        if causes.is_empty() {
            "nothing".to_owned()
        } else {
            causes_in_words(&causes)
        }
    }

    fn cost(&self) -> String {
        let of = |value: fn(&ManagerStatus) -> f64| self.managers.iter().map(value).sum::<f64>();
        let resident = self.managers.iter().map(|manager| manager.manager.resident);
        let hold = self
            .groups()
            .map(|group| group.longest_hold_seconds)
            .fold(0.0, f64::max);
        format!(
            "CPU {:.2} s ({:.2} % of one core), memory {}; held an mmap lock for {} at most",
            of(|manager| manager.manager.cpu_seconds),
            of(|manager| manager.manager.cpu_share) * 100.0,
            bytes::format(resident.sum()),
            seconds(hold)
        )
    }

    fn faults(&self) -> String {
        let mut faults: Vec<&str> = self
            .managers
            .iter()
            .filter_map(|manager| Some(manager.fault.as_ref()?.by.as_str()))
            .collect();
        faults.dedup();
        match faults.as_slice() {
            [] => "not known".to_owned(),
            faults => format!("take {}", faults.join("; ")),
        }
    }
}

/// "1 process", "3 processes".
fn processes(count: u64) -> String {
    match count {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    }
}

/// "1 measured process", "3 measured processes".
fn processes_measured(count: usize) -> String {
    match count {
        1 => "1 measured process".to_owned(),
        count => format!("{count} measured processes"),
    }
}

/// "1 group", "3 groups".
fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// A time from a manager's answer, in words.
fn seconds(seconds: f64) -> String {
    // Another version of mega may answer anything.
    format_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

#[cfg(test)]
pub(in crate::command) mod tests {
    use super::*;
    use crate::report::{
        ExchangeReport, GainReport, HostPage, LastFailure, OwnCost, ProcessReport, RefusedReport,
        TallyReport,
    };

    fn process(pid: u32, name: &str, mapped: u64, huge: u64) -> ProcessReport {
        ProcessReport {
            pid,
            name: name.to_owned(),
            resident: mapped + (8 << 20),
            observed: Observed {
                regions: mapped >> 21,
                mapped,
                accessed: Some(mapped),
                huge,
                giant: 0,
                bloat: None,
            },
            tally: TallyReport::default(),
            not_eligible: BTreeMap::new(),
            larger_folios: None,
            gain: None,
            saved_cpu_seconds: None,
            runs_guest: false,
        }
    }

    /// A daemon that manages two processes and one that it cannot look at.
    pub(in crate::command) fn daemon() -> ManagerStatus {
        let mut redis = process(4711, "redis-server", 4 << 30, 3 << 30);
        redis.tally.wanted = 1 << 30;
        let misaligned = "misaligned_shared_memory".to_owned();
        redis.not_eligible = BTreeMap::from([(misaligned, 4 << 20)]);
        let processes = vec![redis, process(4712, "java", 1 << 30, 1 << 30)];
        ManagerStatus {
            pid: 812,
            mode: Mode::Daemon {
                config: "/etc/mega/mega.toml".into(),
            },
            tracker: "bpf".to_owned(),
            dry_run: false,
            fault: None,
            uptime_seconds: 3600.0,
            manager: OwnCost {
                cpu_seconds: 12.5,
                cpu_share: 0.0035,
                resident: 8 << 20,
            },
            memory: Some(Memory {
                total: 16 << 30,
                available: 9 << 30,
                free: 4 << 30,
                contiguity: 3 << 30,
                fmfi: 0.25,
            }),
            free_areas: vec![9000, 4000, 2000, 1000, 500, 250, 120, 60, 30, 256, 640],
            groups: vec![GroupStatus {
                name: "large".to_owned(),
                policy: "adaptive".to_owned(),
                parameters: BTreeMap::new(),
                interval_seconds: 5.0,
                interval_auto: false,
                cpu_budget: 0.25,
                copy_budget: 1 << 30,
                standstill: 0.5,
                coverage: None,
                coverage_of: None,
                short_of_coverage: 0,
                saved_cpu_seconds: Estimate::default(),
                lock_bound_seconds: 0.01,
                longest_hold_seconds: 0.003,
                totals: processes.iter().map(|process| process.observed).sum(),
                processes,
                refused: vec![RefusedReport {
                    pid: 99,
                    name: "secret".to_owned(),
                    why: "not permitted".to_owned(),
                }],
                refused_count: 1,
                actions: Actions {
                    done: [(ActionKind::Promote, 2048)].into(),
                    bytes_copied: 4 << 30,
                    ..Actions::default()
                },
                recording: None,
                last_error: None,
            }],
            compaction: None,
            exchange: None,
            host_page: None,
            process_lists: 0,
            last_error: None,
        }
    }

    #[test]
    fn a_guest_tells_what_its_host_exchanged_and_that_it_does_not_know_its_pages() {
        let mut daemon = daemon();
        daemon.host_page = Some(HostPage::Unknown);
        daemon.groups[0].actions.bytes_exchanged = 1 << 30;
        daemon.exchange = Some(ExchangeReport {
            requests: 1,
            exchanged: 512,
            not_exchanged: BTreeMap::from([("busy".to_owned(), 3)]),
            ..ExchangeReport::default()
        });
        daemon.groups[0].processes[0].runs_guest = true;
        let text = Summary::of(&[daemon.clone(), daemon]).in_words();
        let exchanged = ", 2 GiB exchanged instead (512 pairs exchanged by the host in 1 requests, 3 not (3 busy))";
        assert!(line(&text, "done").ends_with(exchanged), "{text}");
        let sizes = "; page sizes are this guest's, host unknown; page sizes are the host's behind a guest's memory, guest unknown";
        assert!(line(&text, "coverage").ends_with(sizes), "{text}");
    }

    #[test]
    fn a_guest_tells_why_its_host_exchanges_nothing() {
        let mut daemon = daemon();
        daemon.exchange = Some(ExchangeReport {
            refusal: Some("devices".to_owned()),
            ..ExchangeReport::default()
        });
        let text = Summary::of(&[daemon]).in_words();
        let reason = "; it exchanges nothing: devices are assigned to this guest)";
        assert!(line(&text, "done").ends_with(reason), "{text}");
    }

    fn line<'t>(text: &'t str, name: &str) -> &'t str {
        let found = text.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("no line {name} in {text}"))
    }

    #[test]
    fn ten_lines_say_whether_all_is_well() {
        let mut daemon = daemon();
        daemon.groups[0].refused_count = 0;
        let managers = [daemon];
        let text = Summary::of(&managers).in_words();
        assert_eq!(text.lines().count(), 10, "{text}");
        assert_eq!(line(&text, "state"), "state      fine");
        let coverage = "coverage   4 GiB of 5 GiB in huge pages (80.0 %)";
        assert_eq!(line(&text, "coverage"), coverage);
        assert_eq!(line(&text, "wanted"), "wanted     1 GiB more in huge pages");
        assert_eq!(line(&text, "failed"), "failed     nothing");
        assert!(
            line(&text, "cost").contains("(0.35 % of one core)"),
            "{text}"
        );
    }

    #[test]
    fn what_was_measured_is_added_up() {
        let mut daemon = daemon();
        let gain = |value, low, high, cpu_share| GainReport {
            saved_share: Estimate { value, low, high },
            cpu_share,
            cost_cpu_seconds: 4.1,
            payback_seconds: Some(13.0),
            seconds_ago: 12.0,
        };
        let processes = &mut daemon.groups[0].processes;
        processes[0].gain = Some(gain(0.3, 0.25, 0.35, 1.0));
        let text = Summary::of(&[daemon.clone()]).in_words();
        let one = "; huge pages save 1 measured process 0.30 CPUs (0.25 to 0.35) of 1.00";
        assert!(line(&text, "coverage").ends_with(one), "{text}");
        daemon.groups[0].processes[1].gain = Some(gain(0.1, 0.0, 0.2, 2.0));
        let text = Summary::of(&[daemon]).in_words();
        let both = "; huge pages save 2 measured processes 0.50 CPUs (0.25 to 0.75) of 3.00";
        assert!(line(&text, "coverage").ends_with(both), "{text}");
    }

    #[test]
    fn any_number_of_managers_and_processes_takes_ten_lines() {
        let mut large = daemon();
        let one = large.groups[0].processes[0].clone();
        large.groups[0].processes = vec![one; 1300];
        let managers = vec![large; 12];
        let text = Summary::of(&managers).in_words();
        assert_eq!(text.lines().count(), 10, "{text}");
        assert!(line(&text, "managers").ends_with("and 9 more"), "{text}");
        assert!(line(&text, "processes").contains("15600 managed in 12 groups"));
    }

    #[test]
    fn the_first_line_names_what_is_not_well() {
        let mut daemon = daemon();
        daemon.last_error = Some("cannot list processes".to_owned());
        daemon.groups[0].longest_hold_seconds = 0.05;
        daemon.groups[0].last_error = Some("no such file".to_owned());
        daemon.groups[0].processes[0].tally.last_failure = Some(LastFailure {
            action: "promote".to_owned(),
            cause: "no_memory".to_owned(),
            steps_ago: 0,
        });
        let managers = [daemon];
        let text = Summary::of(&managers).in_words();
        let state = line(&text, "state");
        for trouble in [
            "cannot list processes",
            "the latest step of large failed: no such file",
            "large held a lock for 50ms (bound 10ms)",
            "1 process is not managed",
            "1 process found no free block lately",
        ] {
            assert!(state.contains(trouble), "{state}");
        }
    }
}
