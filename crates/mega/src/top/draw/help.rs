//! The help page.

use ratatui::Frame;
use ratatui::text::{Line, Span};

use super::theme::Theme;

const KEYS: [(&str, &str); 12] = [
    (
        "up down, j k",
        "select a process, or scroll; page keys, Home and End too",
    ),
    (
        "Enter",
        "open the process: its memory, and why what is not huge",
    ),
    ("Esc", "back; in the list, clear the filter"),
    ("< >, left right", "sort by another column"),
    ("r", "turn the order round"),
    ("/", "filter: name, group, last failure, start of the pid"),
    (
        "s",
        "write a snapshot to the current folder, for `mega top FILE`",
    ),
    (
        "space",
        "pause: nobody is asked, or the recording stands still",
    ),
    (
        "[ ] { } : + -",
        "a recording: 10 s, a minute, go to a time, faster, slower",
    ),
    (
        "mouse",
        "click a heading to sort, a process to select and to open",
    ),
    ("?, h", "this page; any key leaves it"),
    ("q, Ctrl-C", "quit"),
];

const WORDS: [(&str, &str); 10] = [
    (
        "huge",
        "of the memory that huge pages can map, what they do map",
    ),
    (
        "res, gave",
        "all that is resident; what demotions gave back to the machine",
    ),
    ("wanted", "what the policy still wants huge pages for"),
    (
        "saved",
        "CPU time that huge pages saved it, where it was measured",
    ),
    (
        "bloat",
        "zero-filled memory in huge pages, as far as it was counted",
    ),
    (
        "FMFI",
        "the part of free memory in blocks below 2 MiB: 0 is best",
    ),
    (
        "pressure",
        "time in which some, or all, tasks waited for memory",
    ),
    ("+n -n", "regions of 2 MiB promoted, demoted"),
    (
        "! + marks",
        "! something does not work, + something is left to do",
    ),
    (
        "pages, heat",
        "memory by address; heat: used since the manager looked last",
    ),
];

pub(super) fn draw(frame: &mut Frame<'_>, theme: Theme) {
    let entry = |(name, meaning): (&'static str, &'static str)| {
        Line::from(vec![
            Span::styled(format!("  {name:<17}"), theme.key()),
            Span::raw(meaning),
        ])
    };
    let title = Line::styled("mega top: keys and words", theme.bold());
    let lines = std::iter::once(title)
        .chain(KEYS.map(entry))
        .chain([Line::raw("")])
        .chain(WORDS.map(entry));
    super::lines(frame, frame.area(), lines.collect());
}
