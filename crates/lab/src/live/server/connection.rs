//! A connection to a server on loopback, with what is still to send and what it received.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::error::Error;

/// How long a server on loopback may take to accept a connection, or to go on with an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// A connection.
pub(super) struct Connection {
    stream: TcpStream,
    nonblocking: bool,
    out: Vec<u8>,
    /// Of `out`, the bytes that were sent.
    sent: usize,
    input: Vec<u8>,
    /// Of `input`, the bytes that were used.
    used: usize,
    chunk: Vec<u8>,
}

impl Connection {
    /// Connects. A blocking one waits for a minute at most.
    pub(super) fn open(port: u16, nonblocking: bool) -> Result<Self, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, PATIENCE)
            .and_then(|stream| {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(nonblocking)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(stream)
            })
            .map_err(|e| Error::io(format!("connecting to a server at {address}"), e))?;
        Ok(Connection {
            stream,
            nonblocking,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            used: 0,
            chunk: vec![0; CHUNK],
        })
    }

    /// What is to be sent: requests are appended to it.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether some of it still is.
    pub(super) fn is_sending(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Sends it; without blocking, as much as the server takes.
    pub(super) fn send(&mut self) -> Result<(), Error> {
        while self.is_sending() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(Error::Failed("a server takes no more requests".into())),
                Ok(sent) => self.sent += sent,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if self.would_block(&e) => return Ok(()),
                Err(e) => return Err(Error::io("sending to a server", e)),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Receives what has come; when blocking, waits for something to come.
    pub(super) fn receive(&mut self) -> Result<(), Error> {
        self.input.drain(..self.used);
        self.used = 0;
        match self.stream.read(&mut self.chunk) {
            Ok(0) => Err(Error::Failed("a server closed its connection".into())),
            Ok(length) => {
                self.input.extend_from_slice(&self.chunk[..length]);
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Interrupted || self.would_block(&e) => Ok(()),
            Err(e) => Err(Error::io("receiving from a server", e)),
        }
    }

    /// What was received and not used yet.
    pub(super) fn received(&self) -> &[u8] {
        &self.input[self.used..]
    }

    /// Takes note that as many bytes of it were used.
    pub(super) fn use_up(&mut self, bytes: usize) {
        self.used = (self.used + bytes).min(self.input.len());
    }

    /// Whether an error says that nothing can be done now. Of a blocking connection the same error says that the
    /// server was waited for in vain.
    fn would_block(&self, error: &std::io::Error) -> bool {
        self.nonblocking && error.kind() == ErrorKind::WouldBlock
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
