//! Where what is on the screen. Drawing and the mouse both ask here.

use ratatui::layout::Rect;

use super::state::{State, View};
use crate::processes::{Column, Row};

/// Lines about the machine above the table of processes, its heading not among them.
pub(super) const MACHINE_LINES: u16 = 8;
/// Lines about a process above the table of its mappings, its heading not among them.
pub(super) const PROCESS_LINES: u16 = 10;

/// The smallest screen that shows anything.
pub(super) const SMALLEST: (u16, u16) = (40, 12);

/// A column and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) column: Column,
    pub(super) x: u16,
    pub(super) width: u16,
}

/// Where what is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// About the machine, or about one process.
    pub(super) above: Rect,
    /// The heading of the table.
    pub(super) heading: Rect,
    /// The rows of the table.
    pub(super) table: Rect,
    /// The keys, or the filter.
    pub(super) keys: Rect,
    /// The columns of the table of processes.
    pub(super) columns: Vec<Place>,
}

impl Layout {
    pub(super) fn of(state: &State) -> Self {
        let (width, height) = state.size;
        let lines = match state.view {
            View::Processes => MACHINE_LINES,
            View::Process(_) => PROCESS_LINES,
        };
        let line = |y: u16, lines: u16| {
            let y = y.min(height);
            Rect::new(0, y, width, lines.min(height - y))
        };
        let rest = height.saturating_sub(lines + 2);
        Layout {
            above: line(0, lines),
            heading: line(lines, 1),
            table: line(lines + 1, rest),
            keys: line(height.saturating_sub(1), 1),
            columns: columns(width, Needs::of(&state.rows)),
        }
    }

    /// Rows of processes that fit.
    pub(super) fn table_rows(&self) -> usize {
        usize::from(self.table.height).max(1)
    }

    /// Rows of mappings that fit.
    pub(super) fn mapping_rows(&self) -> usize {
        self.table_rows()
    }
}

/// The least width of a column, its gap included. The last one takes what is left.
const fn width(column: Column) -> u16 {
    match column {
        Column::Name => 16,
        Column::Pid => 8,
        Column::Group => 8,
        Column::Saved => 8,
        Column::Resident | Column::Giant | Column::Wanted | Column::Bloat | Column::GivenBack => 7,
        Column::Huge => 8,
        Column::Failure => 10,
    }
}

/// Columns that give way on a narrow screen, the first one first.
const GIVE_WAY: [Column; 6] = [
    Column::Failure,
    Column::GivenBack,
    Column::Group,
    Column::Bloat,
    Column::Saved,
    Column::Giant,
];

/// The mark before each row.
const MARK: u16 = 2;

/// Which columns say anything.
#[derive(Clone, Copy, Debug)]
struct Needs {
    giant: bool,
    saved: bool,
    groups: bool,
}

impl Needs {
    fn of(rows: &[Row]) -> Self {
        let first = rows.first().map(|row| &row.group);
        Needs {
            giant: rows.iter().any(|row| row.observed.giant > 0),
            saved: rows.iter().any(|row| row.saved.is_some()),
            groups: rows.iter().any(|row| Some(&row.group) != first),
        }
    }
}

/// What a failure takes that is told whole.
const WHOLE_FAILURE: u16 = 26;

/// The columns that fit. Names and groups are wider where there is room.
fn columns(screen: u16, needs: Needs) -> Vec<Place> {
    let mut shown: Vec<Column> = Column::ALL.to_vec();
    let needed = |shown: &[Column]| MARK + shown.iter().map(|&column| width(column)).sum::<u16>();
    if !needs.giant {
        shown.retain(|&column| column != Column::Giant);
    }
    if !needs.saved {
        shown.retain(|&column| column != Column::Saved);
    }
    let roomy = needed(&shown) - width(Column::Failure) + WHOLE_FAILURE;
    if !needs.groups && screen < roomy {
        shown.retain(|&column| column != Column::Group);
    }
    for column in GIVE_WAY {
        if needed(&shown) > screen {
            shown.retain(|&other| other != column);
        }
    }
    let spare = screen.saturating_sub(needed(&shown));
    let mut x = MARK;
    let place = |column| {
        let wider = match column {
            Column::Name => (spare / 4).min(16),
            Column::Group => (spare / 5).min(14),
            Column::Resident | Column::Huge | Column::Wanted => (spare / 16).min(3),
            _ => 0,
        };
        let place = Place {
            column,
            x,
            width: (width(column) + wider).min(screen.saturating_sub(x)),
        };
        x += place.width;
        place
    };
    let mut places: Vec<Place> = shown.into_iter().map(place).collect();
    if let Some(last) = places.last_mut().filter(|last| last.column.is_text()) {
        last.width = screen.saturating_sub(last.x);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Needs = Needs {
        giant: true,
        saved: true,
        groups: true,
    };
    const FEW: Needs = Needs {
        giant: false,
        saved: false,
        groups: false,
    };

    fn names(screen: u16, needs: Needs) -> Vec<Column> {
        let places = columns(screen, needs);
        places.iter().map(|place| place.column).collect()
    }

    #[test]
    fn columns_give_way_in_their_order() {
        assert_eq!(names(100, ALL), Column::ALL);
        assert_eq!(names(80, FEW).len(), 8, "all that say anything fit");
        assert!(names(120, FEW).contains(&Column::Group));
        assert!(!names(50, ALL).contains(&Column::Failure));
        assert!(names(40, ALL).contains(&Column::Huge));
    }

    #[test]
    fn columns_do_not_overlap_and_fit() {
        for screen in 0..300 {
            for needs in [ALL, FEW] {
                let places = columns(screen, needs);
                let ends = places
                    .windows(2)
                    .all(|two| two[0].x + two[0].width == two[1].x);
                assert!(ends, "{screen}");
                if screen >= SMALLEST.0 {
                    let last = places.last().expect("a column");
                    assert!(last.x + last.width <= screen, "{screen} {places:?}");
                }
            }
        }
    }
}
