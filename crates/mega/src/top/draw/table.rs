//! The table of processes.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::theme::Theme;
use super::units::{cut, short};
use crate::processes::{Column, Row};
use crate::share::{percent, share};
use crate::top::layout::{Layout, Place};
use crate::top::state::State;

pub(super) fn draw(frame: &mut Frame<'_>, state: &State, layout: &Layout, theme: Theme) {
    frame.render_widget(heading(state, layout, theme), layout.heading);
    if state.rows.is_empty() {
        frame.render_widget(Line::raw(nothing(state)), layout.table);
        return;
    }
    let shown = state.rows.iter().skip(state.offset);
    for (row, area) in shown.zip(layout.table.rows()) {
        draw_row(frame, state, row, area, layout, theme);
    }
}

fn nothing(state: &State) -> &'static str {
    match (&state.sample, state.all_rows) {
        (None, _) => "",
        (Some(_), 0) => "  no process is managed",
        (Some(_), _) => "  no process fits the filter; Esc clears it",
    }
}

fn heading(state: &State, layout: &Layout, theme: Theme) -> Line<'static> {
    let mut spans = vec![Span::raw("  ")];
    for place in &layout.columns {
        let mut text = heading_of(place.column).to_owned();
        let is_sorted = place.column == state.sort;
        if is_sorted {
            text.push(theme.arrow(state.reversed));
        }
        let style = if is_sorted {
            theme.bold()
        } else {
            Style::new()
        };
        spans.push(Span::styled(in_place(&text, *place, theme), style));
    }
    Line::from(spans).style(theme.selected())
}

/// Short, so that the column is narrow.
fn heading_of(column: Column) -> &'static str {
    match column {
        Column::GivenBack => "gave",
        Column::Resident => "res",
        column => column.heading(),
    }
}

fn draw_row(
    frame: &mut Frame<'_>,
    state: &State,
    row: &Row,
    area: Rect,
    layout: &Layout,
    theme: Theme,
) {
    // What is selected is reversed whole: reversed colours would cut it to pieces.
    let is_selected = state.is_selected(row);
    let theme = Theme {
        colours: theme.colours && !is_selected,
        ..theme
    };
    let (mark, mark_style) = mark(row, theme);
    let mut spans = vec![Span::styled(format!("{mark} "), mark_style)];
    for place in &layout.columns {
        let text = in_place(&cell(place.column, row), *place, theme);
        let style = match place.column {
            Column::Huge | Column::Giant => theme.huge(),
            Column::Wanted => theme.due(),
            Column::Failure => mark_style,
            _ => Style::new(),
        };
        spans.push(Span::styled(text, style));
    }
    let mut line = Line::from(spans);
    if is_selected {
        line = line.style(theme.selected());
    }
    frame.render_widget(line, area);
}

/// What to make of a process at a glance: `!` something does not work, `+` something is left to do.
fn mark(row: &Row, theme: Theme) -> (char, Style) {
    let fails_now = row
        .tally
        .last_failure
        .as_ref()
        .is_some_and(|failure| failure.steps_ago < 2);
    if row.refused.is_some() || fails_now {
        ('!', theme.bad())
    } else if row.tally.wanted > 0 {
        ('+', theme.due())
    } else {
        (' ', Style::new())
    }
}

/// As the column shows it, with short sizes.
fn cell(column: Column, row: &Row) -> String {
    let size = |bytes: u64| match bytes {
        0 => String::new(),
        bytes => short(bytes),
    };
    match column {
        Column::Resident => short(row.resident),
        Column::Huge => percent(row.coverage()),
        Column::Giant if row.observed.giant > 0 => {
            let giant = share(row.observed.giant, row.observed.mapped);
            format!("{:.0} %", giant.unwrap_or(0.0) * 100.0)
        }
        Column::Wanted => size(row.tally.wanted),
        Column::Bloat => row.observed.bloat.map_or_else(String::new, short),
        Column::GivenBack => size(row.tally.bytes_given_back),
        column => column.cell(row),
    }
}

/// Text in its column: words from the left, numbers to the right, a gap behind.
fn in_place(text: &str, place: Place, theme: Theme) -> String {
    let width = usize::from(place.width);
    let room = width.saturating_sub(1);
    let text = cut(text, room, theme);
    match place.column.is_text() {
        true => format!("{text:<width$}"),
        false => format!("{text:>room$} "),
    }
}
