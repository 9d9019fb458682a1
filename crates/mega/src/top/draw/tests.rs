//! What is drawn, character by character. `MEGA_BLESS=1 cargo test -p mega top::draw` writes the files anew; look at
//! the difference before you commit it.

use std::path::PathBuf;

use super::{Theme, scene};
use crate::report::HostPage;
use crate::top::state::State;
use crate::top::update::Event;

/// Compares with the file of that name.
fn check(name: &str, found: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/top/draw/golden");
    let path = folder.join(name);
    if std::env::var_os("MEGA_BLESS").is_some() {
        std::fs::write(&path, found).expect("written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{} differs", path.display());
}

#[test]
fn the_list_fits_80_by_24() {
    check("list-80x24.txt", &scene::text_of(&scene::busy((80, 24))));
}

#[test]
fn the_list_uses_a_large_screen() {
    check("list-200x50.txt", &scene::text_of(&scene::busy((200, 50))));
}

#[test]
fn one_process_fits_80_by_24() {
    check(
        "process-80x24.txt",
        &scene::text_of(&scene::opened((80, 24))),
    );
}

#[test]
fn one_process_uses_a_large_screen() {
    check(
        "process-200x50.txt",
        &scene::text_of(&scene::opened((200, 50))),
    );
}

#[test]
fn whose_page_sizes_these_are_is_said_in_a_guest_and_of_one() {
    let busy = || scene::busy((80, 24));
    assert!(!scene::text_of(&busy()).contains("unknown"));
    let in_a_guest = |state: &mut State| {
        let sample = state.sample.as_mut().expect("a sample");
        sample.managers[0].host_page = Some(HostPage::Unknown);
    };
    let mut state = busy();
    in_a_guest(&mut state);
    assert!(scene::text_of(&state).contains(", host unknown"));
    let mut state = scene::opened((80, 24));
    in_a_guest(&mut state);
    assert!(scene::text_of(&state).contains("host unknown"));
    let mut state = busy();
    let sample = state.sample.as_mut().expect("a sample");
    sample.managers[0].groups[0].processes[0].runs_guest = true;
    assert!(scene::text_of(&state).contains(", guest unknown"));
}

#[test]
fn the_help_fits_80_by_24() {
    let mut state = scene::busy((80, 24));
    state.help = true;
    check("help-80x24.txt", &scene::text_of(&state));
}

#[test]
fn a_terminal_without_unicode_gets_ascii() {
    let theme = Theme {
        colours: true,
        unicode: false,
    };
    for state in [scene::busy((80, 24)), scene::opened((80, 24))] {
        let text = scene::text(&scene::buffer_of(&state, theme));
        assert!(text.is_ascii(), "{text}");
    }
}

#[test]
fn without_colours_the_same_text_is_drawn() {
    let plain = Theme {
        colours: false,
        ..scene::THEME
    };
    for state in [scene::busy((80, 24)), scene::opened((80, 24))] {
        let buffer = scene::buffer_of(&state, plain);
        assert_eq!(scene::text(&buffer), scene::text_of(&state));
        let reset = ratatui::style::Color::Reset;
        let plain = |cell: &ratatui::buffer::Cell| (cell.fg, cell.bg) == (reset, reset);
        assert!(buffer.content.iter().all(plain));
    }
}

#[test]
fn a_screen_that_is_too_small_says_so() {
    let mut state = scene::busy((80, 24));
    state.update(Event::Resize(30, 5));
    assert!(scene::text_of(&state).starts_with("40x12 at least"));
}

#[test]
fn nothing_to_show_is_said() {
    let state = State::new(crate::top::Origin::Managers, (80, 24));
    assert!(scene::text_of(&state).contains("looking ..."));
}

#[test]
fn names_cannot_move_the_cursor() {
    let mut state = scene::busy((80, 24));
    state.rows[0].name = "a\x1b[2Jb\nc".to_owned();
    let text = scene::text_of(&state);
    assert!(text.contains("a?[2Jb?c"), "{text}");
}
