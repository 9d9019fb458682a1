//! Draws a state. Nothing here changes one or does I/O, so tests draw into a buffer.

mod bar;
mod help;
mod machine;
#[cfg(test)]
mod picture;
mod process;
#[cfg(test)]
pub(in crate::top) mod scene;
mod table;
#[cfg(test)]
mod tests;
mod theme;
mod units;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::layout::SMALLEST;
use super::state::{State, View};
pub(super) use theme::Theme;

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, theme: Theme) {
    let (width, height) = state.size;
    if width < SMALLEST.0 || height < SMALLEST.1 {
        let (least_width, least_height) = SMALLEST;
        let text = format!("{least_width}x{least_height} at least");
        frame.render_widget(Line::raw(text), frame.area());
        return;
    }
    if state.help {
        help::draw(frame, theme);
        return;
    }
    let layout = state.layout();
    match state.view {
        View::Processes => {
            lines(frame, layout.above, machine::lines(state, theme));
            table::draw(frame, state, &layout, theme);
        }
        View::Process(key) => {
            lines(frame, layout.above, process::lines(state, key, theme));
            process::draw_mappings(frame, state, key, &layout, theme);
        }
    }
    frame.render_widget(bottom(state, theme), layout.keys);
}

/// Draws lines from the top of an area; those that do not fit are left out.
fn lines(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'_>>) {
    for (line, row) in lines.into_iter().zip(area.rows()) {
        frame.render_widget(line, row);
    }
}

/// The last line: a message, the filter, or the keys.
fn bottom(state: &State, theme: Theme) -> Line<'static> {
    if let Some(message) = &state.message {
        return Line::styled(message.clone(), theme.bold());
    }
    if state.filtering {
        let cursor = Span::styled(" ", theme.selected());
        let rest = "   Enter keeps it, Esc clears it";
        return Line::from(vec![
            Span::styled(format!("/{}", state.filter), theme.bold()),
            cursor,
            Span::styled(rest, theme.dim()),
        ]);
    }
    if let Some(text) = state
        .playing
        .as_ref()
        .and_then(|playing| playing.jump.as_ref())
    {
        return Line::from(vec![
            Span::styled(format!("go to :{text}"), theme.bold()),
            Span::styled(" ", theme.selected()),
            Span::styled("   as 90 or 1m30s; Enter goes, Esc stays", theme.dim()),
        ]);
    }
    let keys: &[(&str, &str)] = match state.view {
        View::Processes if state.playing.is_some() => &[
            ("?", "help"),
            ("Enter", "open"),
            ("space", "pause"),
            ("[ ]", "10 s"),
            ("{ }", "1 min"),
            (":", "go to"),
            ("+ -", "speed"),
            ("q", "quit"),
        ],
        View::Process(_) if state.playing.is_some() => &[
            ("?", "help"),
            ("Esc", "back"),
            ("space", "pause"),
            ("[ ]", "10 s"),
            (":", "go to"),
            ("+ -", "speed"),
            ("q", "quit"),
        ],
        View::Processes => &[
            ("?", "help"),
            ("Enter", "open"),
            ("/", "filter"),
            ("<>", "sort"),
            ("r", "reverse"),
            ("s", "save"),
            ("space", "pause"),
            ("q", "quit"),
        ],
        View::Process(_) => &[
            ("?", "help"),
            ("Esc", "back"),
            ("up down", "mappings"),
            ("s", "snapshot"),
            ("space", "pause"),
            ("q", "quit"),
        ],
    };
    let mut spans = Vec::new();
    for (key, what) in keys {
        spans.push(Span::styled(*key, theme.key()));
        spans.push(Span::raw(format!(" {what}  ")));
    }
    if !state.filter.is_empty() && state.view == View::Processes {
        spans.push(Span::styled(format!("/{}", state.filter), theme.bold()));
    }
    Line::from(spans)
}

/// "name  value" with the name faint, at the width of all names.
fn named<'l>(
    name: &'static str,
    theme: Theme,
    rest: impl IntoIterator<Item = Span<'l>>,
) -> Line<'l> {
    let name = Span::styled(format!("{name:<9}"), theme.dim());
    Line::from_iter(std::iter::once(name).chain(rest))
}
