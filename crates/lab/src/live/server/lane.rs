//! One connection of a load, with the request that is under way on it.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::{Connection, PATIENCE};
use super::protocol::{Answer, Protocol};
use super::requests::Request;
use super::value::{is_value, key, value};
use crate::error::Error;

/// A connection and its request.
pub(super) struct Lane {
    connection: Connection,
    under_way: Option<(Request, Instant)>,
}

impl Lane {
    /// A connection without a request.
    pub(super) fn open(port: u16) -> Result<Self, Error> {
        Ok(Lane {
            connection: Connection::open(port, true)?,
            under_way: None,
        })
    }

    /// Whether a request is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// Begins to send a request.
    pub(super) fn request<P: Protocol>(
        &mut self,
        request: Request,
        value_bytes: usize,
    ) -> Result<(), Error> {
        let out = self.connection.out();
        match request {
            Request::Set(number) => P::set(out, &key(number), &value(number, value_bytes)),
            Request::Get(number) => P::get(out, &key(number)),
        }
        self.under_way = Some((request, Instant::now()));
        self.connection.send()
    }

    /// Sends and receives what can be, and says how long the request took once it is answered, and rightly.
    pub(super) fn go_on<P: Protocol>(
        &mut self,
        value_bytes: usize,
    ) -> Result<Option<Duration>, Error> {
        let Some((request, started)) = self.under_way else {
            return Ok(None);
        };
        self.connection.send()?;
        self.connection.receive()?;
        let answer = P::answer(self.connection.received()).map_err(|reason| {
            Error::Failed(format!("a server answered {request:?} badly: {reason}"))
        })?;
        let Some((answer, length)) = answer else {
            return Ok(None);
        };
        let took = started.elapsed();
        check(request, answer, value_bytes)?;
        self.connection.use_up(length);
        self.under_way = None;
        Ok(Some(took))
    }
}

fn check(request: Request, answer: Answer<'_>, value_bytes: usize) -> Result<(), Error> {
    let what = match (request, answer) {
        (Request::Set(_), Answer::Stored) => return Ok(()),
        (Request::Get(number), Answer::Value(found)) => {
            if is_value(found, number, value_bytes) {
                return Ok(());
            }
            "another value than was stored"
        }
        (Request::Get(_), Answer::Missing) => "nothing, though it was stored",
        _ => "what answers another request",
    };
    Err(Error::Failed(format!(
        "data was lost: {request:?} was answered with {what}"
    )))
}

/// Waits until something can be done on some of the lanes, and says on which.
pub(super) fn wait(lanes: &[Lane]) -> Result<Vec<usize>, Error> {
    let mut waited_for: Vec<PollFd<'_>> = lanes
        .iter()
        .map(|lane| {
            let sending = lane.connection.is_sending();
            let output = if sending {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            PollFd::new(&lane.connection, PollFlags::IN | output)
        })
        .collect();
    let limit = Timespec::try_from(PATIENCE)
        .map_err(|e| Error::Failed(format!("waiting for {PATIENCE:?}: {e}")))?;
    match poll(&mut waited_for, Some(&limit)) {
        Ok(0) => Err(Error::Failed(format!(
            "a server did not answer for {} s",
            PATIENCE.as_secs()
        ))),
        Ok(_) => Ok(waited_for
            .iter()
            .enumerate()
            .filter(|(_, lane)| !lane.revents().is_empty())
            .map(|(index, _)| index)
            .collect()),
        Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
        Err(e) => Err(Error::io("waiting for a server's answer", e)),
    }
}
