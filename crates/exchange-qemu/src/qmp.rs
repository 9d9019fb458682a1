//! QEMU's monitor, as far as it is needed.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use mega_exchange::ivshmem::send_with;
use serde_json::{Value, json};

use crate::Error;

/// How long QEMU may take to come up, and to answer: it answers from its main loop, which a large machine keeps busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection to a QMP monitor.
#[derive(Debug)]
pub(crate) struct Qmp {
    stream: UnixStream,
    received: Vec<u8>,
    events: VecDeque<Value>,
}

impl Qmp {
    /// Connects to the monitor, and waits until QEMU's main loop runs.
    pub(crate) fn connect(path: &Path) -> Result<Self, Error> {
        let stream = connect(path).map_err(Error::system("connect to the QMP monitor"))?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .map_err(Error::system("set a time limit for the QMP monitor"))?;
        let mut qmp = Self {
            stream,
            received: Vec::new(),
            events: VecDeque::new(),
        };
        let greeting = qmp.receive()?;
        if greeting.get("QMP").is_none() {
            return Err(Error::Answer {
                command: "the connection".into(),
                answer: greeting.to_string(),
            });
        }
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    pub(crate) fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, Error> {
        self.send(command, arguments, None)
    }

    /// Gives QEMU a descriptor, under a name.
    pub(crate) fn give(&mut self, name: &str, fd: BorrowedFd<'_>) -> Result<(), Error> {
        self.send("getfd", &json!({ "fdname": name }), Some(fd))
            .map(|_| ())
    }

    /// What the human monitor prints.
    pub(crate) fn human(&mut self, line: &str) -> Result<String, Error> {
        let answer = self.execute("human-monitor-command", &json!({ "command-line": line }))?;
        answer
            .as_str()
            .map(String::from)
            .ok_or_else(|| Error::Answer {
                command: line.into(),
                answer: answer.to_string(),
            })
    }

    /// The next event, if one has come. QEMU sends the event of a reset before the machine runs again, so what has not come
    /// by the time the guest rings has not happened.
    pub(crate) fn event(&mut self) -> Result<Option<Value>, Error> {
        self.stream
            .set_nonblocking(true)
            .map_err(Error::system("read from the QMP monitor"))?;
        let drained = self.drain();
        self.stream
            .set_nonblocking(false)
            .map_err(Error::system("read from the QMP monitor"))?;
        drained?;
        Ok(self.events.pop_front())
    }

    fn drain(&mut self) -> Result<(), Error> {
        loop {
            match self.receive() {
                Ok(message) => self.keep(message),
                Err(Error::System { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn keep(&mut self, message: Value) {
        if message.get("event").is_some() {
            self.events.push_back(message);
        }
    }

    fn send(
        &mut self,
        command: &str,
        arguments: &Value,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<Value, Error> {
        let text = json!({ "execute": command, "arguments": arguments }).to_string();
        let sent = match fd {
            Some(fd) => send_with(&self.stream, text.as_bytes(), fd),
            None => self.stream.write_all(text.as_bytes()),
        };
        sent.map_err(Error::system("write to the QMP monitor"))?;
        loop {
            let mut message = self.receive()?;
            if let Some(answer) = message.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = message.get("error") {
                return Err(Error::Qmp {
                    command: command.into(),
                    reason: error["desc"].as_str().unwrap_or("no reason").into(),
                });
            }
            self.keep(message);
        }
    }

    /// The next message: QEMU ends each with a newline.
    fn receive(&mut self) -> Result<Value, Error> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return serde_json::from_slice(&line).map_err(|error| Error::Answer {
                    command: "the monitor".into(),
                    answer: error.to_string(),
                });
            }
            let mut buffer = [0; 16384];
            let read = Error::system("read from the QMP monitor");
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(read(io::Error::from(io::ErrorKind::UnexpectedEof))),
                Ok(bytes) => self
                    .received
                    .extend_from_slice(buffer.get(..bytes).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read(error)),
            }
        }
    }
}

impl AsFd for Qmp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The monitor's socket is there when QEMU has made its character devices; plugins may be loaded before.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let started = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Err(_) if started.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(50)),
            result => return result,
        }
    }
}
