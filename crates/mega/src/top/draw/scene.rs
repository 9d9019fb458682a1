//! A machine and its processes, made up, for tests and for the picture in the guide.

use std::collections::BTreeMap;

use mega_core::ActionKind;
use mega_core::worth::Estimate;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::{Theme, draw};
use crate::report::{
    Actions, CellReport, Failures, GroupStatus, LastFailure, ManagerStatus, MappingReport, Memory,
    Mode, Observed, OwnCost, ProcessDetail, ProcessReport, RefusedReport, TallyReport,
};
use crate::top::sample::{PressureReport, Sample};
use crate::top::state::{Key, Origin, State, View};
use crate::top::update::Event;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
const HUGE: u64 = 2 << 20;

/// Colours and characters of the tests.
pub(in crate::top) const THEME: Theme = Theme {
    colours: true,
    unicode: true,
};

/// A daemon that manages some processes, seen several times.
pub(in crate::top) fn busy(size: (u16, u16)) -> State {
    let mut state = State::new(Origin::Managers, size);
    for step in 0..12 {
        state.update(Event::Sample(Box::new(sample(step))));
    }
    state
}

/// The same, with a process opened.
pub(in crate::top) fn opened(size: (u16, u16)) -> State {
    let mut state = busy(size);
    let redis = Key {
        manager: 812,
        pid: 4711,
    };
    state.view = View::Process(redis);
    let mut last = sample(12);
    last.detail = Some((812, detail()));
    state.update(Event::Sample(Box::new(last)));
    state
}

fn process(pid: u32, name: &str, mapped: u64, huge: u64) -> ProcessReport {
    ProcessReport {
        pid,
        name: name.to_owned(),
        resident: mapped + mapped / 50 + 9 * MIB,
        observed: Observed {
            regions: mapped / HUGE,
            mapped,
            accessed: Some(mapped / 2),
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

/// The processes after some steps: one grows into huge pages, one finds no block, one has all it can have.
fn processes(step: u64) -> Vec<ProcessReport> {
    let mut redis = process(4711, "redis-server", 12 * GIB, (1 + step) * GIB * 3 / 4);
    redis.tally = TallyReport {
        promoted: (1 + step) * 384,
        bytes_copied: (1 + step) * GIB * 3 / 4,
        wanted: 11 * GIB - step * GIB * 3 / 4,
        ..TallyReport::default()
    };
    redis.saved_cpu_seconds = Some(Estimate::within(31.2, 26.4, 36.9).scaled(seconds(step)));
    let mut postgres = process(2210, "postgres", 5 * GIB, GIB / 2);
    postgres.tally = TallyReport {
        promoted: 300,
        bytes_copied: 600 * MIB,
        wanted: 3 * GIB,
        last_failure: Some(LastFailure {
            action: "promote".to_owned(),
            cause: "no_memory".to_owned(),
            steps_ago: 0,
        }),
        ..TallyReport::default()
    };
    let mut java = process(3300, "java", 4 * GIB, 4 * GIB - 64 * MIB);
    java.observed.bloat = Some(96 * MIB);
    java.tally = TallyReport {
        promoted: 2040,
        demoted: 12,
        bytes_copied: 4 * GIB,
        bytes_given_back: 310 * MIB,
        last_failure: Some(LastFailure {
            action: "promote".to_owned(),
            cause: "busy".to_owned(),
            steps_ago: 41,
        }),
        ..TallyReport::default()
    };
    let small = [
        (5120, "memcached", 640),
        (5121, "nginx", 120),
        (5122, "nginx", 118),
        (6001, "python3", 300),
        (6002, "node", 410),
        (6003, "mysqld", 900),
        (6004, "prometheus", 700),
        (6005, "grafana", 160),
        (6006, "dockerd", 90),
        (6007, "containerd", 60),
        (6008, "journald", 40),
    ];
    let mut all = vec![redis, postgres, java];
    all.extend(small.map(|(pid, name, size)| process(pid, name, size * MIB, size / 2 * MIB)));
    all
}

fn seconds(step: u64) -> f64 {
    f64::from(u32::try_from(step).unwrap_or(0))
}

fn sample(step: u64) -> Sample {
    Sample {
        time: 1_795_529_087 + 2 * step,
        pressure: Some(PressureReport {
            some: 0.012,
            full: 0.001,
        }),
        managers: vec![daemon(step)],
        detail: None,
        troubles: Vec::new(),
    }
}

fn daemon(step: u64) -> ManagerStatus {
    let processes = processes(step);
    let mut failures = Failures::default();
    failures.0[ActionKind::Promote] =
        BTreeMap::from([("no_memory".to_owned(), 7), ("busy".to_owned(), 2)]);
    ManagerStatus {
        pid: 812,
        mode: Mode::Daemon {
            config: "/etc/mega/mega.toml".into(),
        },
        tracker: "bpf".to_owned(),
        dry_run: false,
        fault: None,
        uptime_seconds: 273_900.0,
        manager: OwnCost {
            cpu_seconds: 958.0 + 0.03 * seconds(step),
            cpu_share: 0.0035,
            resident: 11 * MIB,
        },
        memory: Some(Memory {
            total: 64 * GIB,
            available: 37 * GIB,
            free: 18 * GIB,
            contiguity: 7 * GIB,
            fmfi: 0.61,
        }),
        free_areas: vec![
            48_211, 40_119, 31_002, 20_551, 12_200, 6120, 3011, 1500, 720, 904, 1340,
        ],
        groups: vec![GroupStatus {
            name: "large".to_owned(),
            policy: "adaptive".to_owned(),
            parameters: BTreeMap::new(),
            interval_seconds: 5.0,
            interval_auto: false,
            cpu_budget: 0.25,
            copy_budget: GIB,
            standstill: 0.5,
            coverage: Some(0.9),
            coverage_of: Some(vec!["heap".to_owned(), "/memfd:*".to_owned()]),
            short_of_coverage: 0,
            saved_cpu_seconds: Estimate::within(31.2, 26.4, 36.9).scaled(seconds(step)),
            lock_bound_seconds: 0.01,
            longest_hold_seconds: 0.003,
            totals: processes.iter().map(|process| process.observed).sum(),
            processes,
            refused: vec![RefusedReport {
                pid: 777,
                name: "secretd".to_owned(),
                why: "not permitted to look at its memory".to_owned(),
            }],
            refused_count: 1,
            actions: Actions {
                steps: 54_780 + step,
                done: [
                    (ActionKind::Promote, 2340 + (1 + step) * 384),
                    (ActionKind::Demote, 12),
                ]
                .into(),
                failures,
                bytes_copied: 9 * GIB,
                bytes_given_back: 310 * MIB,
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

/// A close look: a heap that is huge in its first half and in use at its ends, and some small mappings.
fn detail() -> ProcessDetail {
    let start = 0x7f12_e940_0000;
    let cell = |index: u64| {
        let (huge, heat) = match index {
            0..152 => (64 * MIB, 16),
            152..160 => (32 * MIB, 8),
            _ => (0, 1 + index % 4),
        };
        CellReport {
            start: start + index * 64 * MIB,
            length: 64 * MIB,
            mapped: 64 * MIB,
            accessed: heat * 4 * MIB,
            huge,
            giant: if index < 16 { huge } else { 0 },
        }
    };
    let reasons = |entries: &[(&str, u64)]| {
        let entries = entries.iter();
        entries
            .map(|&(name, bytes)| (name.to_owned(), bytes))
            .collect()
    };
    let heap = MappingReport {
        start,
        length: 12 * GIB,
        name: String::new(),
        mapped: 12 * GIB,
        accessed: Some(6 * GIB),
        huge: 152 * 64 * MIB + 8 * 32 * MIB,
        giant: GIB,
        reasons: reasons(&[
            ("due", 2 * GIB),
            ("policy", 244 * MIB),
            ("swapped", 12 * MIB),
        ]),
        cells: (0..192).map(cell).collect(),
    };
    let without = |start, length, name: &str, reason| MappingReport {
        start,
        length,
        name: name.to_owned(),
        reasons: reasons(&[(reason, length)]),
        ..MappingReport::default()
    };
    ProcessDetail {
        pid: 4711,
        start_time: 123_456,
        group: "large".to_owned(),
        policy: "adaptive".to_owned(),
        step: Some(54_792),
        switched_off: Some(false),
        mappings: vec![
            without(0x55a0_4c00_0000, 3 * MIB, "/usr/bin/redis-server", "file"),
            heap,
            without(0x7f16_0000_0000, 8 * MIB, "", "stack"),
            without(
                0x7f17_0000_0000,
                64 * MIB,
                "/dev/shm/cache",
                "misaligned_shared_memory",
            ),
            without(0x7ffd_0000_0000, 132 * 1024 * 16, "[stack]", "stack"),
            without(0, 41 * MIB, "", "too_small"),
        ],
    }
}

/// What is drawn.
pub(in crate::top) fn buffer_of(state: &State, theme: Theme) -> Buffer {
    let (width, height) = state.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| draw(frame, state, theme))
        .expect("it is drawn");
    terminal.backend().buffer().clone()
}

/// What is drawn, as text.
pub(in crate::top) fn text_of(state: &State) -> String {
    text(&buffer_of(state, THEME))
}

/// The lines of a buffer.
pub(in crate::top) fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let row = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    };
    buffer.content.chunks(width).map(row).collect()
}
