//! A client of Redis for one connection, which can send many commands before it reads the replies.

use super::connection::Connection;
use super::resp::{Reply, command, reply};
use crate::error::Error;

/// A connection to Redis.
pub(crate) struct RedisClient(Connection);

impl RedisClient {
    /// Connects.
    ///
    /// # Errors
    /// When there is no server.
    pub(crate) fn connect(port: u16) -> Result<Self, Error> {
        Connection::open(port, false).map(RedisClient)
    }

    /// Takes in a command, to be sent with the others before it.
    pub(crate) fn queue(&mut self, words: &[&[u8]]) {
        command(self.0.out(), words);
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// When the connection fails.
    pub(crate) fn send(&mut self) -> Result<(), Error> {
        self.0.send()
    }

    /// Waits for the next reply, and hands it to `take`.
    ///
    /// # Errors
    /// When the connection fails, the server complains or its bytes make no sense; and whatever `take` finds wrong.
    pub(crate) fn receive<T>(
        &mut self,
        take: impl FnOnce(Reply<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let bad = |reason: String| Error::Failed(format!("redis-server answered badly: {reason}"));
        while reply(self.0.received()).map_err(bad)?.is_none() {
            self.0.receive()?;
        }
        let Some((reply, length)) = reply(self.0.received()).map_err(bad)? else {
            return Err(bad("a reply that was there is gone".into()));
        };
        if let Reply::Error(text) = reply {
            return Err(bad(String::from_utf8_lossy(text).into_owned()));
        }
        let taken = take(reply)?;
        self.0.use_up(length);
        Ok(taken)
    }

    /// Sends what is queued and one command more, and waits for that one's reply, the only one.
    ///
    /// # Errors
    /// As [`RedisClient::receive`].
    pub(crate) fn call<T>(
        &mut self,
        words: &[&[u8]],
        take: impl FnOnce(Reply<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.queue(words);
        self.send()?;
        self.receive(take)
    }
}
