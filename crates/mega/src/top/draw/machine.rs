//! The lines about the machine, above the processes.

use mega_core::ActionKind;
use ratatui::text::{Line, Span};

use super::theme::Theme;
use super::units::{count, duration, short};
use super::{bar, named};
use crate::processes;
use crate::report::{
    Actions, HostPage, ManagerStatus, Memory, Mode, Observed, causes_in_words, sizes_in_few_words,
};
use crate::share::{percent, share};
use crate::top::sample::Sample;
use crate::top::state::{Origin, State};
use crate::utc;

pub(super) fn lines(state: &State, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = vec![title(state, theme)];
    let Some(sample) = &state.sample else {
        lines.push(Line::raw("looking ..."));
        return lines;
    };
    let wide = usize::from(state.size.0);
    lines.push(memory(sample, wide, theme));
    lines.push(free(sample, theme));
    lines.push(orders(theme));
    lines.push(blocks(sample, theme));
    lines.push(pressure(state, sample, wide, theme));
    lines.push(coverage(state, sample, wide, theme));
    lines.push(did(sample, theme));
    lines
}

/// Who says so, and when.
pub(super) fn title(state: &State, theme: Theme) -> Line<'static> {
    let mut spans = vec![Span::styled("mega top ", theme.bold())];
    let dot = theme.dot();
    spans.push(Span::raw(match (&state.origin, &state.sample) {
        (Origin::File(_), _) => format!("{dot} snapshot "),
        (Origin::Recording(_), _) => format!("{dot} recording {}", place(state)),
        (Origin::Observer(why), _) => format!("{dot} {why}: looks by itself, changes nothing "),
        (Origin::Managers, None) => String::new(),
        (Origin::Managers, Some(sample)) => format!("{dot} {} ", who(&sample.managers)),
    }));
    if let Some(sample) = &state.sample {
        let time = match state.origin {
            Origin::File(_) | Origin::Recording(_) => utc::in_words(sample.time),
            _ => utc::time_of_day(sample.time),
        };
        spans.push(Span::styled(format!("{dot} {time} "), theme.dim()));
        if let Some(trouble) = sample.troubles.first() {
            spans.push(Span::styled(format!("! {trouble}"), theme.bad()));
        }
    }
    if let Origin::File(path) | Origin::Recording(path) = &state.origin {
        spans.push(Span::raw(format!("{dot} {}", path.display())));
    }
    if state.paused {
        spans.push(Span::styled(" PAUSED ", theme.selected()));
    }
    Line::from(spans)
}

/// Where in the recording, and how fast: "at 12.5 s of 60.0 s, 4x ".
fn place(state: &State) -> String {
    let Some(playing) = &state.playing else {
        return String::new();
    };
    let (at, length) = (playing.at.as_secs_f64(), playing.length.as_secs_f64());
    let speed = match playing.speed {
        1 => String::new(),
        speed => format!(", {speed}x"),
    };
    format!("at {at:.1} s of {length:.1} s{speed} ")
}

fn who(managers: &[ManagerStatus]) -> String {
    let name = |manager: &ManagerStatus| {
        let kind = match &manager.mode {
            Mode::Run { .. } => "run",
            Mode::Daemon { .. } => "daemon",
            Mode::Observe => "observer",
        };
        let dry_run = if manager.dry_run { ", dry run" } else { "" };
        format!(
            "{kind} {}, {}, up {}{dry_run}",
            manager.pid,
            manager.tracker,
            duration(manager.uptime_seconds)
        )
    };
    match managers {
        [] => "no manager answers".to_owned(),
        [one] => name(one),
        [first, rest @ ..] => format!("{} and {} more", name(first), rest.len()),
    }
}

fn memory(sample: &Sample, wide: usize, theme: Theme) -> Line<'static> {
    let Some(memory) = sample.memory() else {
        return named("memory", theme, [Span::raw("not looked at yet")]);
    };
    let used = memory.total.saturating_sub(memory.available);
    let mut rest = bar::bar(
        share(used, memory.total).unwrap_or(0.0),
        (wide / 4).min(60),
        theme,
    );
    rest.push(Span::raw(format!(
        " {} of {} in use, {} available",
        short(used),
        short(memory.total),
        short(memory.available)
    )));
    named("memory", theme, rest)
}

fn free(sample: &Sample, theme: Theme) -> Line<'static> {
    let Some(memory) = sample.memory() else {
        return named("free", theme, []);
    };
    let style = match memory.fmfi {
        fmfi if fmfi < 0.5 => theme.good(),
        fmfi if fmfi < 0.9 => theme.due(),
        _ => theme.bad(),
    };
    named(
        "free",
        theme,
        [
            Span::raw(format!(
                "{}, of it {} in 2 MiB blocks; FMFI ",
                short(memory.free),
                short(memory.contiguity)
            )),
            Span::styled(format!("{:.2}", memory.fmfi), style),
            Span::styled(format!(" {}", fragmentation(&memory)), theme.dim()),
        ],
    )
}

fn fragmentation(memory: &Memory) -> &'static str {
    match memory.fmfi {
        fmfi if fmfi < 0.5 => "(good)",
        fmfi if fmfi < 0.9 => "(fragmented)",
        _ => "(hardly a free block)",
    }
}

/// The sizes of the free blocks.
fn orders(theme: Theme) -> Line<'static> {
    const SIZES: [&str; 11] = [
        "4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M", "2M", "4M",
    ];
    let heading: String = SIZES.iter().map(|size| format!("{size:>6}")).collect();
    named("", theme, [Span::styled(heading, theme.dim())])
}

/// How many free blocks there are of each size.
fn blocks(sample: &Sample, theme: Theme) -> Line<'static> {
    let areas = sample.free_areas();
    if areas.is_empty() {
        return named("blocks", theme, [Span::raw("not known")]);
    }
    let cell = |(order, &number): (usize, &u64)| {
        let style = if order >= 9 {
            theme.huge()
        } else {
            theme.dim()
        };
        Span::styled(format!("{:>6}", count(number)), style)
    };
    named("blocks", theme, areas.iter().enumerate().map(cell))
}

fn pressure(state: &State, sample: &Sample, wide: usize, theme: Theme) -> Line<'static> {
    let Some(pressure) = sample.pressure else {
        let text = match state.playing {
            Some(_) => "not recorded",
            None => "the kernel does not tell (CONFIG_PSI, psi=1)",
        };
        return named("pressure", theme, [Span::raw(text)]);
    };
    let style = match pressure.some {
        some if some < 0.01 => theme.good(),
        some if some < 0.1 => theme.due(),
        _ => theme.bad(),
    };
    let text = format!(
        "some {:5.1} %  full {:5.1} % ",
        pressure.some * 100.0,
        pressure.full * 100.0
    );
    let width = wide.saturating_sub(60);
    let history = bar::line(&state.history.pressure, 1.0, width, theme);
    named(
        "pressure",
        theme,
        [
            Span::styled(text, style),
            Span::styled(
                format!("of the last 10 s waiting for memory  {history}"),
                theme.dim(),
            ),
        ],
    )
}

fn coverage(state: &State, sample: &Sample, wide: usize, theme: Theme) -> Line<'static> {
    let groups = sample.managers.iter().flat_map(|manager| &manager.groups);
    let all: Observed = groups.map(|group| group.totals).sum();
    let giant = match all.giant {
        0 => String::new(),
        giant => format!(", giant {}", short(giant)),
    };
    let text = format!(
        "huge {} of {} ({}){giant}{}{} ",
        short(all.huge),
        short(all.mapped),
        percent(share(all.huge, all.mapped)),
        whose(sample.host_page(), sample.runs_guest()),
        saved(sample)
    );
    let text = format!("{text:<46}");
    let width = wide.saturating_sub(text.len() + 14);
    let history = bar::line(&state.history.coverage, 1.0, width, theme);
    named(
        "coverage",
        theme,
        [Span::raw(text), Span::styled(history, theme.huge())],
    )
}

/// Whose the page sizes are that are not shown, where another machine's tables lie below or above: ", host unknown".
pub(super) fn whose(host_page: Option<HostPage>, runs_guest: bool) -> String {
    match sizes_in_few_words(host_page, runs_guest) {
        "" => String::new(),
        words => format!(", {words}"),
    }
}

/// The CPU time that huge pages saved, as far as gains were measured; nothing where none was.
fn saved(sample: &Sample) -> String {
    let groups = sample.managers.iter().flat_map(|manager| &manager.groups);
    match groups
        .map(|group| group.saved_cpu_seconds.value)
        .sum::<f64>()
    {
        seconds if seconds > 0.0 => format!(", saved {}", processes::cpu_time(seconds)),
        _ => String::new(),
    }
}

fn cpu_time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 60.0 => format!("{seconds:.1}s"),
        seconds => duration(seconds),
    }
}

/// What compaction did for promotions; nothing where it tried nothing.
fn emptied(managers: &[ManagerStatus]) -> String {
    let compacted = managers.iter().filter_map(|one| one.compaction);
    let (tried, emptied) = compacted.fold((0, 0), |(tried, emptied), one| {
        (tried + one.tried, emptied + one.emptied)
    });
    match tried {
        0 => String::new(),
        _ => format!("  emptied {} of {}", count(emptied), count(tried)),
    }
}

/// What mega spent and did.
fn did(sample: &Sample, theme: Theme) -> Line<'static> {
    let managers = &sample.managers;
    let actions = || managers.iter().flat_map(ManagerStatus::actions);
    let sum = |of: fn(&Actions) -> u64| actions().map(of).sum::<u64>();
    let cpu: f64 = managers.iter().map(|one| one.manager.cpu_seconds).sum();
    let cpu_share: f64 = managers.iter().map(|one| one.manager.cpu_share).sum();
    let done = format!(
        "CPU {:.2} %, {}  +{} -{}  copied {}  gave {}",
        cpu_share * 100.0,
        cpu_time(cpu),
        count(sum(|actions| actions.done[ActionKind::Promote])),
        count(sum(|actions| actions.done[ActionKind::Demote])),
        short(sum(|actions| actions.bytes_copied)),
        short(sum(|actions| actions.bytes_given_back))
    );
    let mut rest = vec![Span::raw(done + &emptied(managers))];
    let mut causes = std::collections::BTreeMap::new();
    for (cause, number) in actions().flat_map(|actions| actions.failures.by_cause()) {
        *causes.entry(cause.clone()).or_default() += number;
    }
    if !causes.is_empty() {
        let text = format!("  ! {}", causes_in_words(&causes));
        rest.push(Span::styled(text, theme.bad()));
    }
    named("mega", theme, rest)
}
