//! The loop between the terminal and the state.

use std::io::{IsTerminal, stdin, stdout};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nix::sys::signal::Signal;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event as TerminalEvent,
};
use ratatui::crossterm::execute;
use rustix::event::{PollFd, PollFlags, poll};

use super::draw::{Theme, draw};
use super::playback::{self, Recording};
use super::snapshot_file::SnapshotFile;
use super::source::{self, Order, Source};
use super::state::{Origin, Playing, State};
use super::update::{Effect, Event};
use crate::exit::Failure;
use crate::signals::Signals;

/// Makes sure that there is somebody to show anything to.
fn require_terminal() -> Result<(), Failure> {
    if stdin().is_terminal() && stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage(
        "mega top needs a terminal; for programs there is `mega status --json`".to_owned(),
    ))
}

/// Shows what `source` sees until the user quits. `start` opens it once the signals are blocked.
///
/// # Errors
/// Where there is no terminal, `start` fails, or the terminal does.
pub(crate) fn show(
    interval: Duration,
    start: impl FnOnce() -> Result<(Source, Origin), Failure>,
) -> Result<(), Failure> {
    require_terminal()?;
    let signals = block_signals()?;
    let (source, origin) = start()?;
    let (events, inbox) = channel();
    let (orders, order_inbox) = channel();
    let samples = events.clone();
    spawn("samples", move || {
        source::run(&source, interval, &order_inbox, &samples);
    })?;
    on_terminal(
        signals,
        events,
        &inbox,
        |size| State::new(origin, size),
        &orders,
    )
}

/// Shows a snapshot until the user quits.
///
/// # Errors
/// Where there is no terminal, or it fails.
pub(crate) fn show_file(file: SnapshotFile, path: &Path) -> Result<(), Failure> {
    require_terminal()?;
    let signals = block_signals()?;
    let (events, inbox) = channel();
    // Nobody takes orders: the past does not change.
    let (orders, _) = channel();
    on_terminal(
        signals,
        events,
        &inbox,
        |size| file.into_state(path, size),
        &orders,
    )
}

/// Plays a recording until the user quits.
///
/// # Errors
/// Where there is no terminal, or it fails.
pub(crate) fn play(recording: Recording) -> Result<(), Failure> {
    require_terminal()?;
    let signals = block_signals()?;
    let (events, inbox) = channel();
    let (orders, order_inbox) = channel();
    let moments = events.clone();
    let origin = Origin::Recording(recording.path().to_owned());
    let length = recording.length();
    spawn("recording", move || {
        playback::run(&recording, &order_inbox, &moments);
    })?;
    let state = |size| State {
        playing: Some(Playing::new(length)),
        ..State::new(origin, size)
    };
    on_terminal(signals, events, &inbox, state, &orders)
}

fn block_signals() -> Result<Signals, Failure> {
    Signals::block(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|error| Failure::Failed(format!("cannot start a thread: {error}")))
}

/// Takes the terminal, runs the loop, and gives the terminal back as it was.
fn on_terminal(
    signals: Signals,
    events: Sender<Event>,
    inbox: &Receiver<Event>,
    state: impl FnOnce((u16, u16)) -> State,
    orders: &Sender<Order>,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("the terminal fails: {error}"));
    let ends = events.clone();
    spawn("signals", move || await_signal(&signals, &ends))?;
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let shown = (|| {
        execute!(stdout(), EnableMouseCapture)?;
        let size = terminal.size()?;
        spawn("keys", move || read_keys(&events)).map_err(std::io::Error::other)?;
        run(
            &mut terminal,
            state((size.width, size.height)),
            inbox,
            orders,
        )
    })();
    let restored = execute!(stdout(), DisableMouseCapture).and_then(|()| ratatui::try_restore());
    shown.and(restored).map_err(failed)
}

fn run(
    terminal: &mut DefaultTerminal,
    mut state: State,
    inbox: &Receiver<Event>,
    orders: &Sender<Order>,
) -> std::io::Result<()> {
    let theme = Theme::of_environment();
    loop {
        terminal.draw(|frame| draw(frame, &state, theme))?;
        let Ok(mut event) = inbox.recv() else {
            return Ok(());
        };
        // Draw once for all that has come meanwhile.
        loop {
            match state.update(event) {
                Some(Effect::Quit) => return Ok(()),
                Some(Effect::Save) => {
                    let written = SnapshotFile::of(&state)
                        .ok_or_else(|| "there is nothing to write yet".to_owned())
                        .and_then(|file| file.write());
                    state.update(Event::Saved(written));
                }
                Some(Effect::Look(key)) => order(orders, Order::Look(key)),
                Some(Effect::LookAtAll(keys)) => order(orders, Order::LookAtAll(keys)),
                Some(Effect::Pause(paused)) => order(orders, Order::Pause(paused)),
                Some(Effect::Jump(to)) => order(orders, Order::Jump(to)),
                Some(Effect::Speed(speed)) => order(orders, Order::Speed(speed)),
                None => {}
            }
            match inbox.try_recv() {
                Ok(next) => event = next,
                Err(_) => break,
            }
        }
    }
}

/// An ended sampler takes no orders; the last sample stays on the screen.
fn order(orders: &Sender<Order>, order: Order) {
    let _ = orders.send(order);
}

/// Passes on keys, the mouse and changes of size, for as long as somebody wants them.
fn read_keys(events: &Sender<Event>) {
    loop {
        let event = match event::read() {
            Ok(TerminalEvent::Key(key)) => Event::Key(key),
            Ok(TerminalEvent::Mouse(mouse)) => Event::Mouse(mouse),
            Ok(TerminalEvent::Resize(width, height)) => Event::Resize(width, height),
            Ok(_) => continue,
            // The terminal has gone.
            Err(_) => Event::End,
        };
        let ends = matches!(event, Event::End);
        if events.send(event).is_err() || ends {
            return;
        }
    }
}

fn await_signal(signals: &Signals, events: &Sender<Event>) {
    loop {
        // An interrupted wait is simply tried again.
        let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], None);
        if signals.next().is_some() {
            // Nobody waits for it where the loop has ended already.
            let _ = events.send(Event::End);
            return;
        }
    }
}
