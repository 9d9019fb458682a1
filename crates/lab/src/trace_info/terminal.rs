//! A recording in a terminal.

use std::fmt::Write;

use mega_core::bytes;
use mega_record::overview::ProcessOverview;
use mega_record::overview::heat::{COLUMNS, Cell, CompactedCell, HeatMap, Shown};

use super::Info;
use crate::columns::{Side, align};

/// What is used little, and what is used whole.
const SHADES: [char; 4] = ['░', '▒', '▓', '█'];

pub(super) fn in_words(info: &Info) -> String {
    let header = &info.header;
    let mut text = format!(
        "{}, on Linux {}, by mega {}, tracker {}, {}\n",
        header.subject,
        header.kernel,
        header.recorder,
        header.tracker,
        header.rhythm_in_words()
    );
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}; {} looks were missed", info.usable, info.missed);
    for other in &info.others {
        let _ = writeln!(text, "also: {other}");
    }
    if let Some(policy) = &header.policy {
        let done = info.actions.in_words();
        let done = done.as_deref().unwrap_or("nothing was to be done");
        let _ = writeln!(text, "managed with the policy {policy}: {done}");
    }
    if let Some(emptied) = info.compaction.in_words() {
        let _ = writeln!(text, "compaction for it: {emptied}");
    }
    let calls = match (header.calls, &header.no_calls) {
        (true, _) => info.calls.in_words(),
        (false, Some(why)) => format!("not seen: {why}"),
        (false, None) => "not seen".to_owned(),
    };
    let _ = writeln!(text, "changes of mappings: {calls}");
    if !info.processes.is_empty() {
        let _ = writeln!(text, "\n{}", processes(&info.processes));
    }
    if let Some(heat) = &info.heat {
        text += &map(heat, info.seconds);
    }
    text
}

fn processes(processes: &[ProcessOverview]) -> String {
    let headings = [
        "pid", "name", "from", "to", "peak", "mapped", "accessed", "huge", "touches",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    rows.extend(processes.iter().map(|process| {
        let touches = process.touches_per_second;
        vec![
            process.pid.to_string(),
            process.name.clone(),
            format!("{:.0} s", process.first),
            format!("{:.0} s", process.last),
            bytes::format(process.peak),
            bytes::format(process.mapped),
            process
                .accessed
                .map_or_else(|| "-".to_owned(), bytes::format),
            bytes::format(process.huge),
            touches.map_or_else(
                || "-".to_owned(),
                |touches| format!("{:.1} M/s", touches / 1e6),
            ),
        ]
    }));
    let lines = align(&rows, &[Side::Right, Side::Left, Side::Right]);
    lines.join("\n") + "\n"
}

/// Addresses from top to bottom, time from left to right.
fn map(heat: &HeatMap, seconds: f64) -> String {
    let mut text = format!(
        "memory of process {}: ` ` not mapped, `.` not accessed, `{}` accessed, `h` huge and not accessed, `H` huge and accessed \
         (which base pages is hidden), `?` not known\n",
        heat.pid,
        String::from_iter(SHADES)
    );
    for row in &heat.rows {
        let cells: String = heat.shown(row).map(character).collect();
        let _ = writeln!(text, "{:>12x} |{cells}|", row.start);
    }
    text += &actions(heat);
    text += &compacted(heat);
    text += &calls(heat);
    let end = format!("{seconds:.0} s");
    let _ = writeln!(text, "{:>12}  0 s{end:>width$}", "", width = COLUMNS - 3);
    text
}

/// What the manager did at each time; nothing where it did nothing.
fn actions(heat: &HeatMap) -> String {
    let sum = |column: usize, of: fn(&Cell) -> u64| {
        let cells = heat.rows.iter().filter_map(|row| row.cells.get(column));
        cells.map(of).sum::<u64>()
    };
    let character = |column: usize| {
        let (promoted, demoted) = (
            sum(column, |cell| cell.promoted),
            sum(column, |cell| cell.demoted),
        );
        match sum(column, |cell| cell.failed) {
            failed if failed > promoted + demoted => '!',
            _ if promoted + demoted == 0 => ' ',
            _ if promoted >= demoted => '+',
            _ => '-',
        }
    };
    let line: String = (0..COLUMNS).map(character).collect();
    if line.trim().is_empty() {
        return String::new();
    }
    format!(
        "{:>12} |{line}| `+` promotions, `-` demotions, `!` failures\n",
        "done"
    )
}

/// What compaction did at each time; nothing where it did nothing.
fn compacted(heat: &HeatMap) -> String {
    let character = |cell: &CompactedCell| match (cell.emptied, cell.failed) {
        (0, 0) => ' ',
        (emptied, failed) if failed > emptied => '!',
        _ => 'e',
    };
    let line: String = heat.compacted.iter().map(character).collect();
    if line.trim().is_empty() {
        return String::new();
    }
    format!(
        "{:>12} |{line}| `e` blocks or chunks emptied, `!` tried in vain\n",
        "compaction"
    )
}

/// What the program did to its mappings at each time; nothing where it did nothing.
fn calls(heat: &HeatMap) -> String {
    let character = |column: usize| {
        let cells = || heat.rows.iter().filter_map(|row| row.cells.get(column));
        let mapped = cells().any(|cell| cell.mapped_anew > 0);
        match (mapped, cells().any(|cell| cell.given_up > 0)) {
            (true, true) => '*',
            (true, false) => 'm',
            (false, true) => 'u',
            (false, false) => ' ',
        }
    };
    let line: String = (0..COLUMNS).map(character).collect();
    if line.trim().is_empty() {
        return String::new();
    }
    format!(
        "{:>12} |{line}| `m` mmap, `u` munmap or MADV_DONTNEED, `*` both\n",
        "mappings"
    )
}

fn character(shown: Shown) -> char {
    match shown {
        Shown::Nothing => ' ',
        Shown::Unknown => '?',
        Shown::Blind(true) => 'H',
        Shown::Blind(false) => 'h',
        Shown::Used(share) if share <= 0.0 => '.',
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 4"
        )]
        Shown::Used(share) => SHADES[((share * 4.0) as usize).min(SHADES.len() - 1)],
    }
}
