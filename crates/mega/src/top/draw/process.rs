//! One process: its memory by page size and heat, how it went, and its mappings.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::theme::Theme;
use super::units::{cut, short};
use super::{bar, machine, named};
use crate::manager::closeup::reason_in_words;
use crate::processes::{Row, cpu_time_within};
use crate::report::{CellReport, GroupStatus, MappingReport, ProcessDetail};
use crate::share::{percent, share};
use crate::top::layout::Layout;
use crate::top::sample::Sample;
use crate::top::state::{Key, State};

pub(super) fn lines(state: &State, key: Key, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = vec![machine::title(state, theme)];
    let width = usize::from(state.size.0).saturating_sub(10);
    match state.row(key) {
        Some(row) => lines.extend(facts(&row, theme)),
        None => {
            let gone = format!("process {} has ended, or is not managed any more", key.pid);
            lines.extend([Line::styled(gone, theme.bad()), Line::raw("")]);
        }
    }
    let detail = state.details.get(&key);
    let host_page = state.sample.as_ref().and_then(Sample::host_page);
    let runs_guest = state.row(key).is_some_and(|row| row.runs_guest);
    let whose = machine::whose(host_page, runs_guest);
    lines.extend(strip(detail, &whose, width, theme));
    lines.extend(over_time(state, key, width, theme));
    lines.push(why(state, key, detail, theme));
    lines
}

fn facts(row: &Row, theme: Theme) -> [Line<'static>; 2] {
    let tally = &row.tally;
    let first = Line::from(vec![
        Span::styled(format!("{} ", row.name), theme.bold()),
        Span::raw(format!(
            "({}), group {}: resident {}, huge {} of {}, wanted {}",
            row.pid,
            row.group,
            short(row.resident),
            percent(row.coverage()),
            short(row.observed.mapped),
            short(tally.wanted)
        )),
    ]);
    let failure = row.failure_in_words();
    let mut done = format!(
        "+{} -{}, copied {}, gave back {}",
        tally.promoted,
        tally.demoted,
        short(tally.bytes_copied),
        short(tally.bytes_given_back)
    );
    if let Some(bloat) = row.observed.bloat {
        done += &format!(", bloat {}", short(bloat));
    }
    let mut second = vec![Span::raw(done)];
    if let Some(saved) = row.saved {
        second.push(Span::styled(
            format!(", saved {}", cpu_time_within(saved)),
            theme.huge(),
        ));
    }
    if !failure.is_empty() {
        second.push(Span::styled(format!("  ! {failure}"), theme.bad()));
    }
    [first, Line::from(second)]
}

/// The whole of its memory, in address order: page sizes above, heat below.
fn strip(
    detail: Option<&ProcessDetail>,
    whose: &str,
    width: usize,
    theme: Theme,
) -> [Line<'static>; 4] {
    let mappings = detail.map_or(&[][..], |detail| &detail.mappings);
    let cells: Vec<&CellReport> = mappings.iter().flat_map(|seen| &seen.cells).collect();
    let knows_heat = mappings.iter().any(|mapping| mapping.accessed.is_some());
    let cells = joined(&cells, width);
    let [base, mixed, huge, giant] = theme.page_sizes();
    let pages = cells.iter().map(|cell| {
        let glyph = page_glyph(cell, theme);
        let style = if glyph == base {
            theme.dim()
        } else {
            theme.huge()
        };
        Span::styled(glyph.to_string(), style)
    });
    let heat: String = match knows_heat {
        true => cells
            .iter()
            .map(|cell| theme.level(share(cell.accessed, cell.mapped).unwrap_or(0.0)))
            .collect(),
        false if cells.is_empty() => String::new(),
        false => "accesses are not known".to_owned(),
    };
    let ends = match (cells.first(), cells.last()) {
        (Some(first), Some(last)) => {
            let (first, last) = (format!("{:x}", first.start), format!("{:x}", last.start));
            let gap = cells.len().saturating_sub(first.len());
            format!("{first}{last:>gap$}")
        }
        _ => String::new(),
    };
    let legend = format!(
        "{base} base  {mixed} both  {huge} huge  {giant} giant{whose}; below, taller: more of it was used"
    );
    [
        named("pages", theme, pages),
        named("heat", theme, [Span::styled(heat, theme.hot())]),
        named("address", theme, [Span::styled(ends, theme.dim())]),
        named("", theme, [Span::styled(legend, theme.dim())]),
    ]
}

/// Joins neighbours so that at most `width` cells are left.
fn joined(cells: &[&CellReport], width: usize) -> Vec<CellReport> {
    let together = cells.len().div_ceil(width.max(1)).max(1);
    let sum = |some: &[&CellReport]| {
        let start = some.first().map_or(0, |cell| cell.start);
        some.iter().fold(
            CellReport {
                start,
                ..CellReport::default()
            },
            |sum, cell| CellReport {
                start: sum.start,
                length: sum.length.saturating_add(cell.length),
                mapped: sum.mapped.saturating_add(cell.mapped),
                accessed: sum.accessed.saturating_add(cell.accessed),
                huge: sum.huge.saturating_add(cell.huge),
                giant: sum.giant.saturating_add(cell.giant),
            },
        )
    };
    cells.chunks(together).map(sum).collect()
}

fn page_glyph(cell: &CellReport, theme: Theme) -> char {
    let [base, mixed, huge, giant] = theme.page_sizes();
    if cell.huge == 0 {
        base
    } else if cell.huge < cell.mapped {
        mixed
    } else if cell.giant > 0 {
        giant
    } else {
        huge
    }
}

fn over_time(state: &State, key: Key, width: usize, theme: Theme) -> [Line<'static>; 2] {
    let known = state.history.processes.get(&key);
    let width = width.saturating_sub(12);
    let Some(known) = known else {
        return [named("coverage", theme, []), named("copied", theme, [])];
    };
    let now = |value: Option<&f64>, text: fn(f64) -> String| {
        format!(
            "{:>10}  ",
            value.map_or_else(String::new, |value| text(*value))
        )
    };
    let most = known.copied.iter().copied().fold(1.0, f64::max);
    let rate = |value: f64| {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bytes; it saturates"
        )]
        let bytes = value as u64;
        format!("{}/s", short(bytes))
    };
    let coverage = bar::line(&known.coverage, 1.0, width, theme);
    let copied = bar::line(&known.copied, most, width, theme);
    [
        named(
            "coverage",
            theme,
            [
                Span::raw(now(known.coverage.back(), |share| percent(Some(share)))),
                Span::styled(coverage, theme.huge()),
            ],
        ),
        named(
            "copied",
            theme,
            [
                Span::raw(now(known.copied.back(), rate)),
                Span::styled(copied, theme.due()),
            ],
        ),
    ]
}

/// As "95.0 % of /memfd:*, largest promised". `None` where nothing is promised.
fn promise_in_words(group: &GroupStatus) -> Option<String> {
    let promised = percent(Some(group.coverage?));
    Some(match &group.coverage_of {
        Some(chosen) => format!("{promised} of {} promised", chosen.join(", ")),
        None => format!("{promised} promised"),
    })
}

/// What holds for the whole process.
fn why(state: &State, key: Key, detail: Option<&ProcessDetail>, theme: Theme) -> Line<'static> {
    let Some(detail) = detail else {
        return Line::styled("asking its manager ...", theme.dim());
    };
    let mut text = format!("policy {}", detail.policy);
    if let Some(promise) = state
        .group(key.manager, &detail.group)
        .and_then(promise_in_words)
    {
        text += &format!("; {promise}");
    }
    if detail.step.is_none() {
        text += "; the manager looks closely at its next step";
    }
    if detail.switched_off == Some(true) {
        text += "; the program switched huge pages off for itself (prctl)";
    }
    Line::raw(text)
}

/// Address, size, mapped and coverage of a mapping, before its name and reasons.
const NUMBERS: usize = 13 + 8 + 8 + 9;

pub(super) fn draw_mappings(
    frame: &mut Frame<'_>,
    state: &State,
    key: Key,
    layout: &Layout,
    theme: Theme,
) {
    let width = usize::from(state.size.0);
    let name = name_width(width);
    let heading = format!(
        "{:>12} {:>7} {:>7} {:>8} {:<name$}why the rest is not huge",
        "mapping", "size", "mapped", "huge", "what"
    );
    let heading = format!("{:<width$}", cut(&heading, width, theme));
    frame.render_widget(Line::styled(heading, theme.selected()), layout.heading);
    let mappings = state
        .details
        .get(&key)
        .map_or(&[][..], |seen| &seen.mappings);
    let shown = mappings.iter().skip(state.mapping_offset);
    for (mapping, area) in shown.zip(layout.table.rows()) {
        draw_mapping(frame, mapping, area, name, theme);
    }
}

fn name_width(screen: usize) -> usize {
    (screen.saturating_sub(NUMBERS) / 3).clamp(12, 48)
}

fn draw_mapping(
    frame: &mut Frame<'_>,
    mapping: &MappingReport,
    area: Rect,
    name_width: usize,
    theme: Theme,
) {
    let start = match mapping.start {
        0 => "small ones".to_owned(),
        start => format!("{start:x}"),
    };
    let coverage = match share(mapping.huge, mapping.mapped) {
        None => String::new(),
        known => percent(known),
    };
    let mapped = match mapping.mapped {
        0 => String::new(),
        bytes => short(bytes),
    };
    let name = what(mapping);
    let name = cut(&name, name_width - 1, theme);
    let text = format!("{start:>12} {:>7} {mapped:>7} ", short(mapping.length));
    let line = Line::from(vec![
        Span::raw(text),
        Span::styled(format!("{coverage:>8} "), theme.huge()),
        Span::raw(format!("{name:<name_width$}")),
        Span::styled(reasons(mapping), theme.due()),
    ]);
    frame.render_widget(line, area);
}

/// The end of a path says most; memory without a name is the program's own.
fn what(mapping: &MappingReport) -> String {
    match (mapping.start, mapping.name.as_str()) {
        (0, _) => "all below 2 MiB".to_owned(),
        (_, "") => "anonymous".to_owned(),
        (_, name) => name
            .strip_prefix('/')
            .and_then(|path| path.rsplit('/').next())
            .unwrap_or(name)
            .to_owned(),
    }
}

/// Every reason, that for the most bytes first.
fn reasons(mapping: &MappingReport) -> String {
    let mut reasons: Vec<(&String, &u64)> = mapping.reasons.iter().collect();
    reasons.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    let one = |(reason, bytes): (&String, &u64)| {
        let words = reason_in_words(reason);
        // One reason for all of a mapping needs no number.
        match mapping.reasons.len() == 1 && *bytes >= mapping.length {
            true => words.to_owned(),
            false => format!("{} {words}", short(*bytes)),
        }
    };
    let words: Vec<String> = reasons.into_iter().map(one).collect();
    words.join(", ")
}
