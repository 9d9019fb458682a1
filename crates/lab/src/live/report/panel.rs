//! Columns of the terminal's table that belong together. They stand side by side as far as they fit.

use super::cell::{ABSENT, Cell};
use crate::columns::{Side, align};
use crate::live::mode::Mode;
use crate::live::results::MetricResult;
use crate::wrap::wrap;

/// Between two panels.
const GAP: &str = "    ";
/// Characters that a heading may take where the cells below it need fewer.
const HEADING: usize = 24;

/// A heading of some lines, and one line for each mode.
pub(super) struct Panel {
    heading: Vec<String>,
    lines: Vec<String>,
}

impl Panel {
    /// The names of the modes.
    pub(super) fn modes(modes: &[Mode]) -> Self {
        Panel {
            heading: Vec::new(),
            lines: modes.iter().map(Mode::to_string).collect(),
        }
    }

    /// One metric in all modes.
    pub(super) fn metric(metric: &MetricResult, modes: &[Mode]) -> Self {
        let rows: Vec<Vec<String>> = modes.iter().map(|mode| row(metric, mode)).collect();
        let lines = align(&rows, &[Side::Right, Side::Left]);
        let width = widest(&lines).max(HEADING);
        let mut heading = wrap(&metric.title, width);
        heading.extend(wrap(metric.better.words(), width));
        Panel { heading, lines }
    }

    fn width(&self) -> usize {
        widest(&self.heading).max(widest(&self.lines))
    }

    /// Its lines, the heading at the foot of as many as the highest heading beside it has.
    fn padded(&self, heading: usize) -> impl Iterator<Item = &str> {
        let empty = heading.saturating_sub(self.heading.len());
        let lines = self.heading.iter().chain(&self.lines);
        std::iter::repeat_n("", empty).chain(lines.map(String::as_str))
    }
}

/// A value and its ratio.
fn row(metric: &MetricResult, mode: &Mode) -> Vec<String> {
    let Some(cell) = Cell::of(metric, mode) else {
        return vec![ABSENT.to_owned()];
    };
    let ratio = cell.ratio.map(|ratio| format!("({ratio})"));
    std::iter::once(cell.value).chain(ratio).collect()
}

/// Sets panels side by side, as many as fit into `width` characters, below each other where they do not; the first
/// stands at the left of every block. A block is its lines.
pub(super) fn blocks(panels: Vec<Panel>, width: usize) -> Vec<Vec<String>> {
    let mut panels = panels.into_iter();
    let Some(first) = panels.next() else {
        return Vec::new();
    };
    let mut blocks: Vec<Vec<Panel>> = Vec::new();
    let mut free = 0;
    for panel in panels {
        let needed = panel.width() + GAP.len();
        match blocks.last_mut() {
            Some(block) if needed <= free => {
                free -= needed;
                block.push(panel);
            }
            _ => {
                free = width.saturating_sub(first.width() + needed);
                blocks.push(vec![panel]);
            }
        }
    }
    let side_by_side = |block: &Vec<Panel>| beside(std::iter::once(&first).chain(block));
    blocks.iter().map(side_by_side).collect()
}

/// The lines of panels side by side.
fn beside<'a>(panels: impl Iterator<Item = &'a Panel> + Clone) -> Vec<String> {
    let heading = panels.clone().map(|panel| panel.heading.len()).max();
    let mut lines: Vec<String> = Vec::new();
    let mut left: usize = 0;
    for panel in panels {
        for (row, text) in panel.padded(heading.unwrap_or(0)).enumerate() {
            if row == lines.len() {
                lines.push(String::new());
            }
            let line = &mut lines[row];
            let missing = left.saturating_sub(line.chars().count());
            line.extend(std::iter::repeat_n(' ', missing));
            line.push_str(text);
        }
        left += panel.width() + GAP.len();
    }
    let trimmed = lines.iter().map(|line| line.trim_end().to_owned());
    trimmed.collect()
}

fn widest(lines: &[String]) -> usize {
    let widths = lines.iter().map(|line| line.chars().count());
    widths.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(heading: &[&str], lines: &[&str]) -> Panel {
        let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Panel {
            heading: own(heading),
            lines: own(lines),
        }
    }

    fn three() -> Vec<Panel> {
        vec![
            panel(&[], &["base", "thp"]),
            panel(&["speed"], &["1", "2"]),
            panel(&["long", "name"], &["10", "20"]),
        ]
    }

    #[test]
    fn panels_stand_side_by_side_where_they_fit() {
        let block = &blocks(three(), 21)[0];
        assert_eq!(
            *block,
            [
                "                 long",
                "        speed    name",
                "base    1        10",
                "thp     2        20"
            ]
        );
    }

    #[test]
    fn panels_that_do_not_fit_stand_below() {
        let blocks = blocks(three(), 20);
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[1][3], "thp     20");
    }
}
