//! What is shown: a value that samples, keys and the mouse change ([`super::update`]) and that is drawn ([`super::draw`]).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::history::History;
use super::layout::Layout;
use super::playback::Moment;
use super::sample::Sample;
use crate::processes::{self, Column, Row};
use crate::report::{GroupStatus, ProcessDetail};

/// Which process of which manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) manager: u32,
    pub(crate) pid: u32,
}

impl Key {
    pub(crate) fn of(row: &Row) -> Self {
        Key {
            manager: row.manager,
            pid: row.pid,
        }
    }
}

/// Where samples come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The running managers.
    Managers,
    /// This process looks by itself, and changes nothing. Why.
    Observer(&'static str),
    /// A file that was written at another time, perhaps on another machine.
    File(PathBuf),
    /// A recording, which is played.
    Recording(PathBuf),
}

/// How a recording is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Playing {
    /// The time in it that is shown.
    pub(super) at: Duration,
    /// The time of its last look.
    pub(super) length: Duration,
    /// Seconds of it in one.
    pub(super) speed: u32,
    /// The time to go to, as far as it is written; `None` where none is.
    pub(super) jump: Option<String>,
}

impl Playing {
    /// At its beginning.
    pub(super) fn new(length: Duration) -> Self {
        Playing {
            at: Duration::ZERO,
            length,
            speed: 1,
            jump: None,
        }
    }
}

/// Which view fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum View {
    /// The machine and all processes.
    #[default]
    Processes,
    /// One process.
    Process(Key),
}

/// What is shown.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(super) origin: Origin,
    /// The latest sample; `None` before the first.
    pub(super) sample: Option<Sample>,
    pub(super) history: History,
    /// The latest close look at each process that was opened.
    pub(super) details: BTreeMap<Key, ProcessDetail>,
    pub(super) view: View,
    pub(super) help: bool,
    pub(super) paused: bool,
    /// `None` where no recording is played.
    pub(super) playing: Option<Playing>,
    pub(super) sort: Column,
    pub(super) reversed: bool,
    pub(super) filter: String,
    /// Whether keys go to the filter.
    pub(super) filtering: bool,
    /// The processes shown: sorted, and those that the filter lets pass.
    pub(super) rows: Vec<Row>,
    /// How many there are in all.
    pub(super) all_rows: usize,
    pub(super) selected: Option<Key>,
    /// The first row shown of the processes.
    pub(super) offset: usize,
    /// The first mapping shown of one process.
    pub(super) mapping_offset: usize,
    /// What happened last, to be read once.
    pub(super) message: Option<String>,
    /// Columns and rows of the screen.
    pub(super) size: (u16, u16),
}

impl State {
    /// Shows nothing yet.
    pub(crate) fn new(origin: Origin, size: (u16, u16)) -> Self {
        State {
            origin,
            sample: None,
            history: History::default(),
            details: BTreeMap::new(),
            view: View::default(),
            help: false,
            paused: false,
            playing: None,
            sort: Column::Resident,
            reversed: false,
            filter: String::new(),
            filtering: false,
            rows: Vec::new(),
            all_rows: 0,
            selected: None,
            offset: 0,
            mapping_offset: 0,
            message: None,
            size,
        }
    }

    /// Takes over a sample.
    pub(super) fn take(&mut self, mut sample: Sample) {
        let rows = processes::rows(&sample.managers);
        self.history.add(&sample, &rows);
        if let Some((manager, detail)) = sample.detail.take() {
            let pid = detail.pid;
            self.details.insert(Key { manager, pid }, detail);
        }
        self.sample = Some(sample);
        self.show(rows);
    }

    /// Takes over a moment of the recording.
    pub(super) fn take_moment(&mut self, moment: Moment) {
        if moment.rewinds {
            self.history = History::default();
            self.details.clear();
        }
        if let Some(playing) = &mut self.playing {
            playing.at = moment.at;
        }
        self.take(moment.sample);
    }

    /// Chooses and sorts the rows anew.
    pub(super) fn refresh_rows(&mut self) {
        let managers = self.sample.as_ref().map(|sample| &sample.managers);
        let rows = managers.map(|managers| processes::rows(managers));
        self.show(rows.unwrap_or_default());
    }

    fn show(&mut self, mut rows: Vec<Row>) {
        self.all_rows = rows.len();
        rows.retain(|row| processes::matches(row, &self.filter));
        processes::sort(&mut rows, self.sort, self.reversed);
        self.rows = rows;
    }

    /// The row of the process that is selected, or the first.
    pub(super) fn selected_index(&self) -> usize {
        let found = self.rows.iter().position(|row| self.is_selected(row));
        found.unwrap_or(0)
    }

    pub(super) fn is_selected(&self, row: &Row) -> bool {
        self.selected == Some(Key::of(row))
    }

    /// The row of a process, shown or not.
    pub(super) fn row(&self, key: Key) -> Option<Row> {
        let managers = &self.sample.as_ref()?.managers;
        processes::rows(managers)
            .into_iter()
            .find(|row| Key::of(row) == key)
    }

    /// A selection of a manager.
    pub(super) fn group(&self, manager: u32, name: &str) -> Option<&GroupStatus> {
        let mut managers = self.sample.as_ref()?.managers.iter();
        let manager = managers.find(|known| known.pid == manager)?;
        manager.groups.iter().find(|group| group.name == name)
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::of(self)
    }

    /// Keeps what is selected in sight, and everything within its bounds.
    pub(super) fn settle(&mut self) {
        let shown = self.layout().table_rows();
        let index = self.selected_index();
        if self.rows.iter().all(|row| !self.is_selected(row)) {
            self.selected = self.rows.first().map(Key::of);
        }
        let last_offset = self.rows.len().saturating_sub(shown);
        self.offset = self.offset.clamp((index + 1).saturating_sub(shown), index);
        self.offset = self.offset.min(last_offset);
        if let View::Process(key) = self.view {
            let mappings = self.details.get(&key).map_or(0, |seen| seen.mappings.len());
            let shown = self.layout().mapping_rows();
            self.mapping_offset = self.mapping_offset.min(mappings.saturating_sub(shown));
        }
    }
}
