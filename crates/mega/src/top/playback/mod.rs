//! Plays a recording: each of its looks becomes a sample, at its time.

mod moment;
mod player;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use mega_record::format::MAGIC;

use super::source::Order;
use super::state::Key;
use super::update::Event;
use crate::exit::Failure;
use crate::recording;
pub(crate) use moment::Moment;
use player::Player;

/// A recording that can be played.
pub(crate) struct Recording {
    path: PathBuf,
    /// The time of its last look.
    length: Duration,
}

impl Recording {
    /// Whether a file begins as a recording does. One that cannot be read does not.
    pub(crate) fn is_one(path: &Path) -> bool {
        let mut begin = [0; MAGIC.len()];
        let read = File::open(path).and_then(|mut file| {
            use std::io::Read;
            file.read_exact(&mut begin)
        });
        read.is_ok() && begin == MAGIC
    }

    /// Reads it once, to find its end.
    ///
    /// # Errors
    /// Where it is no recording, or has no look.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let mut reader = recording::open(path)?;
        reader.by_ref().for_each(drop);
        let usable = reader.usable();
        recording::need_look(path, usable)?;
        Ok(Recording {
            path: path.to_owned(),
            length: usable.until,
        })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The time of its last look.
    pub(super) fn length(&self) -> Duration {
        self.length
    }
}

/// How fast time passes in the recording.
struct Pace {
    /// At this moment of ours ...
    since: Instant,
    /// ... it was this time in the recording.
    from: Duration,
    /// Seconds of the recording in one of ours.
    speed: u32,
    paused: bool,
}

impl Pace {
    /// Goes on from this time in the recording.
    fn go_on_from(&mut self, at: Duration) {
        (self.since, self.from) = (Instant::now(), at);
    }

    /// How long it takes until this time in the recording.
    fn until(&self, at: Duration) -> Duration {
        let due = at.saturating_sub(self.from) / self.speed.max(1);
        due.saturating_sub(self.since.elapsed())
    }
}

/// Plays it from its beginning, as orders say, until nobody takes samples any more.
pub(super) fn run(recording: &Recording, orders: &Receiver<Order>, events: &Sender<Event>) {
    let mut player = match Player::open(recording.path()) {
        Ok(player) => player,
        Err(failure) => {
            // Nobody waits for it where the loop has ended already.
            let _ = events.send(Event::Trouble(failure.to_string()));
            return;
        }
    };
    let mut pace = Pace {
        since: Instant::now(),
        from: Duration::ZERO,
        speed: 1,
        paused: false,
    };
    let mut look: Option<Key> = None;
    let show = |moments: Vec<Moment>| {
        let mut moments = moments.into_iter();
        moments.all(|moment| events.send(Event::Moment(Box::new(moment))).is_ok())
    };
    let jump = |player: &mut Player, to, look| match player.jump(to, look) {
        Ok(moments) => show(moments),
        Err(failure) => events.send(Event::Trouble(failure.to_string())).is_ok(),
    };
    if !jump(&mut player, Duration::ZERO, None) {
        return;
    }
    loop {
        let next = player.next_at().filter(|_| !pace.paused);
        let order = match next {
            Some(at) => orders.recv_timeout(pace.until(at)),
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let goes_on = match order {
            Err(RecvTimeoutError::Timeout) => show(player.step(look).into_iter().collect()),
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(Order::Jump(at)) => {
                let goes_on = jump(&mut player, at, look);
                pace.go_on_from(player.at());
                goes_on
            }
            Ok(Order::Speed(speed)) => {
                pace.go_on_from(player.at());
                pace.speed = speed;
                true
            }
            Ok(Order::Pause(paused)) => {
                pace.go_on_from(player.at());
                pace.paused = paused;
                true
            }
            Ok(Order::Look(key)) => {
                look = key;
                let seen = key.and_then(|key| Some((key, player.detail(key)?)));
                let seen = seen.into_iter().collect();
                events.send(Event::Details(seen)).is_ok()
            }
            Ok(Order::LookAtAll(keys)) => {
                let looks = keys.iter();
                let looks = looks.filter_map(|&key| Some((key, player.detail(key)?)));
                events.send(Event::Looked(looks.collect())).is_ok()
            }
        };
        if !goes_on {
            return;
        }
    }
}
