//! The thread that answers clients. It waits for all of them at once and for none in particular: a client that is slow or
//! says nothing holds up nobody, and is cut off after a while.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::{Connection, Waits};
use super::listener::{Listener, Stream};
use super::page::Pages;
use crate::published::Published;

/// Clients at a time. One more takes the place of the one that came first.
const MOST: usize = 16;
/// The pause after a client could not be accepted: perhaps too many files are open.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers clients for as long as it lives.
pub(super) struct Server {
    /// The thread ends when this is closed.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to answer.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(super) fn start(
        listeners: Vec<Arc<Listener>>,
        published: Published,
        pages: Pages,
    ) -> std::io::Result<Self> {
        let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let clients = Clients {
            listeners,
            published,
            pages,
            connections: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || clients.serve(&stopped))?;
        Ok(Server {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was printed, and nothing is lost with it.
            let _ = thread.join();
        }
    }
}

struct Clients {
    listeners: Vec<Arc<Listener>>,
    published: Published,
    pages: Pages,
    /// In the order in which they came.
    connections: Vec<Connection<Box<dyn Stream>>>,
}

impl Clients {
    fn serve(mut self, stopped: &OwnedFd) {
        while let Some(ready) = self.wait(stopped) {
            let (clients, listeners) = ready.split_at(self.connections.len());
            self.answer(clients);
            self.accept(listeners);
        }
    }

    /// Waits until something happens. Returns which connections and then which listeners are ready; `None` once this is to
    /// stop.
    fn wait(&mut self, stopped: &OwnedFd) -> Option<Vec<bool>> {
        let now = Instant::now();
        let deadlines = self.connections.iter().map(|one| one.deadline);
        let next = deadlines.chain(self.pages.forget(now)).min();
        let timeout = next
            .map(|at| Timespec::try_from(at.saturating_duration_since(now)).unwrap_or_default());
        let clients = self.connections.iter().map(|one| {
            let flags = match one.waits() {
                Waits::ToRead => PollFlags::IN,
                Waits::ToWrite => PollFlags::OUT,
            };
            PollFd::new(&one.stream, flags)
        });
        let listeners = self.listeners.iter();
        let listeners = listeners.map(|one| PollFd::new(one.as_ref(), PollFlags::IN));
        let mut all: Vec<PollFd<'_>> = clients.chain(listeners).collect();
        all.push(PollFd::new(stopped, PollFlags::IN));
        if poll(&mut all, timeout.as_ref()).is_err() {
            // Interrupted, or out of memory: nothing is ready, and the next round tries again.
            std::thread::sleep(PAUSE);
            return Some(vec![false; all.len() - 1]);
        }
        let mut ready: Vec<bool> = all.iter().map(|one| !one.revents().is_empty()).collect();
        // Nobody writes to the pipe: it is ready once its other end is closed.
        (ready.pop() == Some(false)).then_some(ready)
    }

    /// Goes on with the connections that are ready, and cuts off those whose time is up.
    fn answer(&mut self, ready: &[bool]) {
        let Clients {
            published,
            pages,
            connections,
            ..
        } = self;
        let now = Instant::now();
        let mut ready = ready.iter();
        connections.retain_mut(|connection| {
            let is_ready = ready.next().copied().unwrap_or(false);
            let goes_on = !is_ready || connection.advance(|| pages.get(published));
            goes_on && now < connection.deadline
        });
    }

    /// Takes in the clients that wait, not more in one go than there is room for.
    fn accept(&mut self, ready: &[bool]) {
        for (listener, _) in self
            .listeners
            .iter()
            .zip(ready)
            .filter(|(_, ready)| **ready)
        {
            for _ in 0..MOST {
                match listener.accept() {
                    Ok(stream) => {
                        if self.connections.len() >= MOST {
                            self.connections.remove(0);
                        }
                        let connection = Connection::new(stream, Instant::now());
                        self.connections.push(connection);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // It went away before it was accepted.
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                    Err(_) => {
                        std::thread::sleep(PAUSE);
                        break;
                    }
                }
            }
        }
    }
}
