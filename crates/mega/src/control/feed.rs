//! Events for one client. A thread of its own waits for news and for the client, so that neither the manager nor other clients
//! wait for it.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Response;
use super::server::send;
use crate::events::EventLog;
use crate::report::VERSION;

/// Clients at a time, each with a thread.
const MOST: usize = 16;
/// How long a client may take to read when its socket is full. What it misses meanwhile it is told.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a client that went away is noticed while nothing happens.
const LOOK: Duration = Duration::from_secs(1);

/// The clients that get events. Each has a copy of what is inside.
#[derive(Default)]
pub(super) struct Feeds(Arc<()>);

impl Feeds {
    /// Sends a client the events after the one with this sequence number; with `follow`, also those to come.
    ///
    /// # Errors
    /// In words, where there are too many clients or no thread can be started.
    pub(super) fn start(
        &self,
        stream: UnixStream,
        events: EventLog,
        after: u64,
        follow: bool,
    ) -> Result<(), String> {
        if Arc::strong_count(&self.0) > MOST {
            return Err(format!("{MOST} clients get events already"));
        }
        let place = Arc::clone(&self.0);
        let feed = Feed {
            stream,
            events,
            at: after,
        };
        let thread = std::thread::Builder::new().name("events".to_owned());
        let started = thread.spawn(move || {
            // A client that went away, or reads nothing for a minute, gets no more.
            let _ = feed.run(follow);
            drop(place);
        });
        started
            .map(drop)
            .map_err(|error| format!("cannot start a thread: {error}"))
    }
}

struct Feed {
    stream: UnixStream,
    events: EventLog,
    /// The sequence number of the last event that was sent.
    at: u64,
}

impl Feed {
    fn run(mut self, follow: bool) -> std::io::Result<()> {
        self.stream.set_write_timeout(Some(PATIENCE))?;
        // A number from before a restart stands for all there is.
        if self.at > self.events.latest() {
            self.at = 0;
        }
        self.send(Duration::ZERO)?;
        while follow && !self.has_gone() {
            self.send(LOOK)?;
        }
        Ok(())
    }

    /// Sends what is new, or becomes so within `patience`.
    fn send(&mut self, patience: Duration) -> std::io::Result<()> {
        let read = self.events.after(self.at, patience);
        if read.missed > 0 {
            self.at += read.missed;
            send(
                &self.stream,
                &Response {
                    version: VERSION,
                    missed: Some(read.missed),
                    ..Response::default()
                },
            )?;
        }
        for event in read.events {
            self.at = event.sequence;
            send(
                &self.stream,
                &Response {
                    version: VERSION,
                    event: Some((*event).clone()),
                    ..Response::default()
                },
            )?;
        }
        Ok(())
    }

    /// Whether the client has closed its end.
    fn has_gone(&self) -> bool {
        let mut ends = [PollFd::new(&self.stream, PollFlags::IN | PollFlags::RDHUP)];
        let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
        poll(&mut ends, Some(&Timespec::default())).is_ok() && ends[0].revents().intersects(gone)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;
    use crate::events::Change;

    /// More than the log keeps and the sockets hold together.
    const MANY: u64 = 40_000;

    #[test]
    fn a_client_that_does_not_read_holds_up_nobody_and_is_told_what_it_missed() {
        let events = EventLog::default();
        let (own, client) = UnixStream::pair().expect("a pair of sockets");
        let feeds = Feeds::default();
        feeds
            .start(own, events.clone(), 0, true)
            .expect("it is started");
        // Until the client reads, the feed is stuck in a write; adding is not.
        for selections in 0..MANY {
            events.add(Change::Reloaded { selections });
        }
        let (mut seen, mut missed) = (0, 0);
        for line in BufReader::new(client).lines() {
            let line = line.expect("a line");
            let response: Response = serde_json::from_str(&line).expect("a response");
            match (response.event, response.missed) {
                (Some(event), None) => {
                    seen += 1;
                    assert_eq!(event.sequence, seen + missed);
                }
                (None, Some(more)) => missed += more,
                _ => panic!("{line}"),
            }
            if seen + missed == MANY {
                break;
            }
        }
        assert!(missed > 0, "all {seen} were read");
    }

    #[test]
    fn there_is_a_bound_on_clients() {
        let events = EventLog::default();
        let feeds = Feeds::default();
        let mut clients = Vec::new();
        let mut start = || {
            let (own, client) = UnixStream::pair().expect("a pair of sockets");
            clients.push(client);
            feeds.start(own, events.clone(), 0, true)
        };
        for _ in 0..MOST {
            assert_eq!(start(), Ok(()));
        }
        assert!(start().is_err());
    }
}
