//! How samples, keys and the mouse change the state.

use std::path::PathBuf;
use std::time::Duration;

use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;

use super::playback::Moment;
use super::sample::Sample;
use super::state::{Key, Origin, State, View};
use crate::processes::Column;
use crate::report::ProcessDetail;

/// Processes that a snapshot shows closely, at most: as many as a manager looks at at once.
const CLOSE_LOOKS: usize = 16;

/// How far `[` and `]` go, and `{` and `}`.
const SHORT_JUMP: Duration = Duration::from_secs(10);
const LONG_JUMP: Duration = Duration::from_secs(60);
/// The most seconds of a recording that are played in one.
const FASTEST: u32 = 256;

/// Whether a key meant something here, and what.
enum Taken {
    Yes(Option<Effect>),
    No,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Key(KeyEvent),
    Mouse(MouseEvent),
    /// The screen has this many columns and rows now.
    Resize(u16, u16),
    Sample(Box<Sample>),
    /// The next look of a recording.
    Moment(Box<Moment>),
    /// Close looks at processes.
    Details(Vec<(Key, ProcessDetail)>),
    /// What is shown does not go on, and why.
    Trouble(String),
    /// What came of [`Effect::LookAtAll`].
    Looked(Vec<(Key, ProcessDetail)>),
    /// A snapshot was written to this file, or not: why.
    Saved(Result<PathBuf, String>),
    /// The user's terminal has gone, or a signal asks to end.
    End,
}

/// What is to be done, beyond showing the new state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Quit,
    /// Look closely at these processes, for a snapshot.
    LookAtAll(Vec<Key>),
    /// Write a snapshot.
    Save,
    /// Look closely at this process, and at no other; at none.
    Look(Option<Key>),
    /// Take samples, or take none.
    Pause(bool),
    /// Go to this time in the recording.
    Jump(Duration),
    /// Play this many seconds of the recording in one.
    Speed(u32),
}

impl State {
    /// Changes as `event` says.
    pub(crate) fn update(&mut self, event: Event) -> Option<Effect> {
        let effect = match event {
            Event::End => Some(Effect::Quit),
            Event::Resize(width, height) => {
                self.size = (width, height);
                None
            }
            Event::Sample(sample) => {
                self.take(*sample);
                None
            }
            Event::Moment(moment) => {
                self.take_moment(*moment);
                None
            }
            Event::Details(looks) => {
                self.details.extend(looks);
                None
            }
            Event::Trouble(why) => {
                self.message = Some(why);
                None
            }
            Event::Looked(looks) => {
                self.details.extend(looks);
                Some(Effect::Save)
            }
            Event::Saved(result) => {
                self.message = Some(match result {
                    Ok(path) => format!("wrote {}: open it with `mega top FILE`", path.display()),
                    Err(reason) => reason,
                });
                None
            }
            Event::Mouse(mouse) => self.mouse(mouse),
            Event::Key(key) if key.kind == KeyEventKind::Release => None,
            Event::Key(key) => {
                self.message = None;
                self.key(key)
            }
        };
        self.settle();
        effect
    }

    fn key(&mut self, key: KeyEvent) -> Option<Effect> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return matches!(key.code, KeyCode::Char('c')).then_some(Effect::Quit);
        }
        if self.help {
            self.help = false;
            return matches!(key.code, KeyCode::Char('q')).then_some(Effect::Quit);
        }
        if self.filtering {
            self.filter_key(key.code);
            return None;
        }
        if self.playing.is_some()
            && let Taken::Yes(effect) = self.playing_key(key.code)
        {
            return effect;
        }
        match key.code {
            KeyCode::Char('q') => return Some(Effect::Quit),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('s') => return Some(self.save()),
            KeyCode::Char(' ') if !matches!(self.origin, Origin::File(_)) => {
                self.paused = !self.paused;
                return Some(Effect::Pause(self.paused));
            }
            code => {
                return match self.view {
                    View::Processes => self.processes_key(code),
                    View::Process(_) => self.process_key(code),
                };
            }
        }
        None
    }

    /// Keys that only a recording takes.
    fn playing_key(&mut self, code: KeyCode) -> Taken {
        let Some(playing) = &mut self.playing else {
            return Taken::No;
        };
        if let Some(text) = &mut playing.jump {
            match code {
                KeyCode::Enter => {
                    let text = std::mem::take(text);
                    playing.jump = None;
                    return Taken::Yes(self.jump_to(&text));
                }
                KeyCode::Esc => playing.jump = None,
                KeyCode::Backspace => drop(text.pop()),
                KeyCode::Char(letter) => text.push(letter),
                _ => {}
            }
            return Taken::Yes(None);
        }
        let effect = match code {
            KeyCode::Char(':') => {
                playing.jump = Some(String::new());
                None
            }
            KeyCode::Char('[') => Some(Effect::Jump(playing.at.saturating_sub(SHORT_JUMP))),
            KeyCode::Char(']') => Some(Effect::Jump(playing.at + SHORT_JUMP)),
            KeyCode::Char('{') => Some(Effect::Jump(playing.at.saturating_sub(LONG_JUMP))),
            KeyCode::Char('}') => Some(Effect::Jump(playing.at + LONG_JUMP)),
            KeyCode::Char('+' | '=') => {
                playing.speed = (playing.speed * 2).min(FASTEST);
                Some(Effect::Speed(playing.speed))
            }
            KeyCode::Char('-') => {
                playing.speed = (playing.speed / 2).max(1);
                Some(Effect::Speed(playing.speed))
            }
            _ => return Taken::No,
        };
        Taken::Yes(effect)
    }

    /// Goes to a time that somebody wrote: `90` for seconds, `1m30s`.
    fn jump_to(&mut self, text: &str) -> Option<Effect> {
        let text = text.trim();
        let seconds = text.parse().map(Duration::from_secs).ok();
        let time = seconds.or_else(|| humantime::parse_duration(text).ok());
        if time.is_none() {
            self.message = Some(format!("'{text}' is no time: write seconds, or as 1m30s"));
        }
        time.map(Effect::Jump)
    }

    /// A snapshot shows the largest of the processes on the screen closely, and those that were opened.
    fn save(&mut self) -> Effect {
        if matches!(self.origin, Origin::File(_)) {
            return Effect::Save;
        }
        let shown = self.rows.iter().filter(|row| row.refused.is_none());
        let keys: Vec<Key> = shown.map(Key::of).take(CLOSE_LOOKS).collect();
        let count = keys.len();
        self.message = Some(format!(
            "looking closely at {count} processes for the snapshot ..."
        ));
        Effect::LookAtAll(keys)
    }

    fn filter_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.filtering = false,
            KeyCode::Esc => {
                self.filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.refresh_rows();
    }

    fn processes_key(&mut self, code: KeyCode) -> Option<Effect> {
        let page = isize::try_from(self.layout().table_rows()).unwrap_or(1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.move_selection(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_selection(1),
            KeyCode::PageUp => self.move_selection(-page),
            KeyCode::PageDown => self.move_selection(page),
            KeyCode::Home | KeyCode::Char('g') => self.move_selection(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_selection(isize::MAX),
            KeyCode::Left | KeyCode::Char('<') => self.sort_by_next(-1),
            KeyCode::Right | KeyCode::Char('>') => self.sort_by_next(1),
            KeyCode::Char('r') => self.reverse(),
            KeyCode::Char('/') => self.filtering = true,
            KeyCode::Esc => {
                self.filter.clear();
                self.refresh_rows();
            }
            KeyCode::Enter => return self.open(),
            _ => {}
        }
        None
    }

    fn process_key(&mut self, code: KeyCode) -> Option<Effect> {
        let page = self.layout().mapping_rows();
        let offset = &mut self.mapping_offset;
        match code {
            KeyCode::Up | KeyCode::Char('k') => *offset = offset.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => *offset += 1,
            KeyCode::PageUp => *offset = offset.saturating_sub(page),
            KeyCode::PageDown => *offset += page,
            KeyCode::Home | KeyCode::Char('g') => *offset = 0,
            KeyCode::End | KeyCode::Char('G') => *offset = usize::MAX,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left | KeyCode::Enter => {
                return Some(self.close());
            }
            _ => {}
        }
        None
    }

    fn open(&mut self) -> Option<Effect> {
        let row = self.rows.get(self.selected_index())?;
        let key = Key::of(row);
        if let Some(why) = &row.refused {
            self.message = Some(format!("cannot look at it: {why}"));
            return None;
        }
        self.view = View::Process(key);
        self.mapping_offset = 0;
        Some(Effect::Look(Some(key)))
    }

    fn close(&mut self) -> Effect {
        self.view = View::Processes;
        Effect::Look(None)
    }

    fn move_selection(&mut self, by: isize) {
        let index = self.selected_index().saturating_add_signed(by);
        let index = index.min(self.rows.len().saturating_sub(1));
        self.selected = self.rows.get(index).map(Key::of);
    }

    fn sort_by_next(&mut self, by: isize) {
        let shown = self.layout().columns;
        let place = shown.iter().position(|place| place.column == self.sort);
        let next = place.unwrap_or(0).checked_add_signed(by);
        if let Some(place) = next.and_then(|next| shown.get(next)) {
            self.sort_by(place.column);
        }
    }

    fn sort_by(&mut self, column: Column) {
        if self.sort == column {
            self.reverse();
            return;
        }
        self.sort = column;
        self.reversed = false;
        self.refresh_rows();
    }

    fn reverse(&mut self) {
        self.reversed = !self.reversed;
        self.refresh_rows();
    }

    fn mouse(&mut self, mouse: MouseEvent) -> Option<Effect> {
        if self.help {
            self.help = !matches!(mouse.kind, MouseEventKind::Down(_));
            return None;
        }
        match mouse.kind {
            MouseEventKind::ScrollUp => self.scroll(-3),
            MouseEventKind::ScrollDown => self.scroll(3),
            MouseEventKind::Down(MouseButton::Left) => {
                return self.click(Position::new(mouse.column, mouse.row));
            }
            _ => {}
        }
        None
    }

    fn scroll(&mut self, by: isize) {
        match self.view {
            View::Processes => self.move_selection(by),
            View::Process(_) => {
                self.mapping_offset = self.mapping_offset.saturating_add_signed(by);
            }
        }
    }

    /// A click on a heading sorts, one on a process selects it, a second one opens it.
    fn click(&mut self, at: Position) -> Option<Effect> {
        if self.view != View::Processes {
            return None;
        }
        let layout = self.layout();
        if layout.heading.contains(at) {
            let hit =
                |place: &&super::layout::Place| (place.x..place.x + place.width).contains(&at.x);
            if let Some(place) = layout.columns.iter().find(hit) {
                self.sort_by(place.column);
            }
        } else if layout.table.contains(at) {
            let index = self.offset + usize::from(at.y - layout.table.y);
            let clicked = self.rows.get(index).map(Key::of)?;
            if self.selected == Some(clicked) {
                return self.open();
            }
            self.selected = Some(clicked);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::draw::scene;
    use crate::top::state::Playing;

    fn press(state: &mut State, code: KeyCode) -> Option<Effect> {
        state.update(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    fn write(state: &mut State, text: &str) {
        for letter in text.chars() {
            press(state, KeyCode::Char(letter));
        }
    }

    fn click(state: &mut State, column: u16, row: u16) -> Option<Effect> {
        state.update(Event::Mouse(MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column,
            row,
            modifiers: KeyModifiers::NONE,
        }))
    }

    fn names(state: &State) -> Vec<&str> {
        state.rows.iter().map(|row| row.name.as_str()).collect()
    }

    fn selected_name(state: &State) -> &str {
        &state.rows[state.selected_index()].name
    }

    #[test]
    fn the_selection_stays_on_its_process_when_the_order_changes() {
        let mut state = scene::busy((80, 24));
        press(&mut state, KeyCode::Down);
        let name = selected_name(&state).to_owned();
        press(&mut state, KeyCode::Char('r'));
        assert_eq!(selected_name(&state), name);
        press(&mut state, KeyCode::Home);
        assert_eq!(state.selected_index(), 0);
        press(&mut state, KeyCode::End);
        assert_eq!(state.selected_index(), state.rows.len() - 1);
        press(&mut state, KeyCode::Down);
        assert_eq!(state.selected_index(), state.rows.len() - 1);
    }

    #[test]
    fn every_column_can_be_sorted_by_from_the_keys_alone() {
        let mut state = scene::busy((200, 50));
        let mut seen = vec![state.sort];
        for _ in 0..Column::ALL.len() {
            press(&mut state, KeyCode::Left);
            seen.push(state.sort);
        }
        assert!(!state.reversed, "the first column has none before it");
        for _ in 0..Column::ALL.len() {
            press(&mut state, KeyCode::Char('>'));
            seen.push(state.sort);
        }
        let shown = state.layout().columns;
        assert!(shown.iter().all(|place| seen.contains(&place.column)));
    }

    #[test]
    fn a_filter_is_written_kept_and_cleared() {
        let mut state = scene::busy((80, 24));
        let all = state.rows.len();
        write(&mut state, "/q");
        assert!(state.filtering, "q is a letter here");
        press(&mut state, KeyCode::Backspace);
        write(&mut state, "redis");
        assert_eq!(names(&state), ["redis-server"]);
        press(&mut state, KeyCode::Enter);
        assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Effect::Quit));
        assert_eq!(names(&state), ["redis-server"]);
        press(&mut state, KeyCode::Esc);
        assert_eq!(state.rows.len(), all);
        write(&mut state, "/nothing like it");
        assert!(state.rows.is_empty());
        assert_eq!(press(&mut state, KeyCode::Enter), None);
        assert_eq!(press(&mut state, KeyCode::Enter), None, "nothing to open");
    }

    #[test]
    fn a_process_is_opened_looked_at_and_left() {
        let mut state = scene::busy((80, 24));
        let key = Key::of(&state.rows[0]);
        let look = Some(Effect::Look(Some(key)));
        assert_eq!(press(&mut state, KeyCode::Enter), look);
        assert_eq!(state.view, View::Process(key));
        press(&mut state, KeyCode::End);
        press(&mut state, KeyCode::Down);
        press(&mut state, KeyCode::Char('?'));
        assert!(state.help);
        assert_eq!(
            press(&mut state, KeyCode::Esc),
            None,
            "it leaves the help only"
        );
        assert_eq!(press(&mut state, KeyCode::Esc), Some(Effect::Look(None)));
        assert_eq!(state.view, View::Processes);
    }

    #[test]
    fn a_process_that_cannot_be_observed_is_not_opened() {
        let mut state = scene::busy((80, 24));
        write(&mut state, "/not permitted");
        press(&mut state, KeyCode::Enter);
        assert_eq!(press(&mut state, KeyCode::Enter), None);
        assert_eq!(state.view, View::Processes);
        assert!(
            state
                .message
                .is_some_and(|text| text.contains("not permitted"))
        );
    }

    #[test]
    fn the_mouse_sorts_selects_and_opens() {
        let mut state = scene::busy((80, 24));
        let layout = state.layout();
        let huge = layout
            .columns
            .iter()
            .find(|place| place.column == Column::Huge);
        let x = huge.expect("it is shown").x + 1;
        click(&mut state, x, layout.heading.y);
        assert_eq!(state.sort, Column::Huge);
        click(&mut state, x, layout.heading.y);
        assert!(state.reversed);
        assert_eq!(click(&mut state, 5, layout.table.y + 1), None);
        assert_eq!(state.selected_index(), 1);
        let key = Key::of(&state.rows[1]);
        let opened = click(&mut state, 5, layout.table.y + 1);
        assert_eq!(opened, Some(Effect::Look(Some(key))));
        let mut state = scene::busy((80, 24));
        assert_eq!(click(&mut state, 79, 23), None);
        assert_eq!(click(&mut state, 0, layout.table.y + 12), None);
    }

    #[test]
    fn a_snapshot_is_written_after_a_close_look_at_what_is_shown() {
        let mut state = scene::busy((80, 24));
        write(&mut state, "/nginx");
        press(&mut state, KeyCode::Enter);
        let keys: Vec<Key> = state.rows.iter().map(Key::of).collect();
        assert_eq!(keys.len(), 2);
        let effect = press(&mut state, KeyCode::Char('s'));
        assert_eq!(effect, Some(Effect::LookAtAll(keys)));
        assert!(state.message.is_some());
        let mut opened = scene::opened((80, 24));
        let looks = opened.details.iter();
        let looks: Vec<_> = looks.map(|(key, look)| (*key, look.clone())).collect();
        assert_eq!(state.update(Event::Looked(looks)), Some(Effect::Save));
        assert_eq!(state.details, opened.details);
        opened.origin = Origin::File("x.json".into());
        assert_eq!(press(&mut opened, KeyCode::Char('s')), Some(Effect::Save));
    }

    #[test]
    fn time_stands_still_while_it_is_paused_and_always_in_a_file() {
        let mut state = scene::busy((80, 24));
        let space = KeyCode::Char(' ');
        assert_eq!(press(&mut state, space), Some(Effect::Pause(true)));
        assert_eq!(press(&mut state, space), Some(Effect::Pause(false)));
        state.origin = Origin::File("x.json".into());
        assert_eq!(press(&mut state, space), None);
        assert!(!state.paused);
    }

    #[test]
    fn a_recording_is_played_faster_and_jumped_in() {
        let mut state = scene::busy((80, 24));
        state.origin = Origin::Recording("x.rec".into());
        state.playing = Some(Playing::new(Duration::from_secs(600)));
        let jump = |seconds| Some(Effect::Jump(Duration::from_secs(seconds)));
        write(&mut state, ":1m3x");
        press(&mut state, KeyCode::Backspace);
        write(&mut state, "0s");
        assert!(scene::text_of(&state).contains("go to :1m30s"));
        assert_eq!(press(&mut state, KeyCode::Enter), jump(90));
        write(&mut state, ":250");
        assert_eq!(press(&mut state, KeyCode::Enter), jump(250));
        write(&mut state, ":soon");
        assert_eq!(press(&mut state, KeyCode::Enter), None);
        assert!(
            state
                .message
                .as_ref()
                .is_some_and(|text| text.contains("no time"))
        );
        write(&mut state, ":7q");
        assert_eq!(press(&mut state, KeyCode::Esc), None);
        assert_eq!(press(&mut state, KeyCode::Char('[')), jump(0));
        assert_eq!(press(&mut state, KeyCode::Char('}')), jump(60));
        for speed in [2, 4, 8] {
            let faster = press(&mut state, KeyCode::Char('+'));
            assert_eq!(faster, Some(Effect::Speed(speed)));
        }
        assert_eq!(
            press(&mut state, KeyCode::Char('-')),
            Some(Effect::Speed(4))
        );
        let text = scene::text_of(&state);
        assert!(text.contains("recording at 0.0 s of 600.0 s, 4x"), "{text}");
        let pause = press(&mut state, KeyCode::Char(' '));
        assert_eq!(pause, Some(Effect::Pause(true)));
    }

    #[test]
    fn what_was_shown_is_forgotten_where_time_goes_back() {
        let mut state = scene::busy((80, 24));
        state.playing = Some(Playing::new(Duration::from_secs(600)));
        let sample = state.sample.clone().expect("a sample");
        let moment = |seconds, rewinds| {
            let moment = Moment {
                at: Duration::from_secs(seconds),
                sample: sample.clone(),
                rewinds,
            };
            Event::Moment(Box::new(moment))
        };
        let before = state.history.coverage.len();
        state.update(moment(20, false));
        assert_eq!(state.history.coverage.len(), before + 1);
        state.update(moment(3, true));
        assert_eq!(state.history.coverage.len(), 1);
        let at = state.playing.as_ref().map(|playing| playing.at);
        assert_eq!(at, Some(Duration::from_secs(3)));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]
        #[test]
        fn no_keys_and_no_screen_make_it_panic(
            codes in proptest::collection::vec(0_u8..12, 0..60),
            width in 0_u16..200,
            height in 0_u16..80,
        ) {
            let mut state = scene::busy((80, 24));
            for (index, code) in codes.into_iter().enumerate() {
                let code = match code {
                    0 => KeyCode::Up,
                    1 => KeyCode::Down,
                    2 => KeyCode::PageDown,
                    3 => KeyCode::End,
                    4 => KeyCode::Enter,
                    5 => KeyCode::Esc,
                    6 => KeyCode::Char('/'),
                    7 => KeyCode::Char('r'),
                    8 => KeyCode::Char('?'),
                    9 => KeyCode::Right,
                    10 => KeyCode::PageUp,
                    _ => KeyCode::Backspace,
                };
                press(&mut state, code);
                if index == 10 {
                    state.update(Event::Resize(width, height));
                }
                click(&mut state, width / 2, height / 2);
                scene::text_of(&state);
            }
        }
    }
}
