//! Gives the guest its device and serves it.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use mega_exchange::{Exchanger, Server};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::json;

use crate::plugin::say;
use crate::qmp::Qmp;
use crate::{Error, ivshmem, machine};

/// How often we look whether the device is still there, when nothing happens.
const LOOK_FOR_DEVICE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// The plugin's arguments.
#[derive(Debug)]
pub(crate) struct Options {
    qmp: PathBuf,
    bus: Option<String>,
    id: String,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, Error> {
        let (mut qmp, mut bus, mut id) = (None, None, "mega-exchange".to_string());
        for argument in arguments {
            match argument.split_once('=') {
                Some(("qmp", path)) => qmp = Some(PathBuf::from(path)),
                Some(("bus", name)) => bus = Some(name.to_string()),
                Some(("id", name)) => id = name.to_string(),
                _ => return Err(Error::UnknownOption(argument.clone())),
            }
        }
        Ok(Self {
            qmp: qmp.ok_or(Error::NoMonitor)?,
            bus,
            id,
        })
    }
}

/// A guest's device that is served.
#[derive(Debug)]
pub(crate) struct Service {
    qmp: Qmp,
    server: Server,
    /// None until the guest has asked for something since the machine was last reset.
    exchanger: Option<Exchanger>,
    id: String,
    did: Totals,
    /// QEMU takes the end of it as the server's.
    _device: UnixStream,
}

/// What came of all requests.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    requests: u64,
    exchanged: usize,
    refused: usize,
}

impl Service {
    /// Looks whether the machine may be served, and adds the device.
    pub(crate) fn start(options: &Options) -> Result<Self, Error> {
        let mut qmp = Qmp::connect(&options.qmp)?;
        // What is refused is said now, and the guest gets no device then.
        drop(Exchanger::new(machine::memory(&mut qmp)?)?);
        let server = Server::new()?;
        let (ours, theirs) =
            UnixStream::pair().map_err(Error::system("make a socket for the device"))?;
        ivshmem::introduce(&ours, server.memory(), server.doorbell())
            .map_err(Error::system("introduce the device"))?;
        let chardev = format!("{}-socket", options.id);
        qmp.give(&chardev, theirs.as_fd())?;
        let backend = json!({ "type": "socket", "data": {
            "addr": { "type": "fd", "data": { "str": chardev } }, "server": false } });
        qmp.execute("chardev-add", &json!({ "id": chardev, "backend": backend }))?;
        let mut device = json!({
            "driver": "ivshmem-doorbell", "id": options.id, "chardev": chardev, "vectors": 1, "master": "off" });
        if let Some(bus) = &options.bus {
            device["bus"] = json!(bus);
        }
        qmp.execute("device_add", &device)?;
        say(&format!("the device {} serves the guest", options.id));
        Ok(Self {
            qmp,
            server,
            exchanger: None,
            id: options.id.clone(),
            did: Totals::default(),
            _device: ours,
        })
    }

    /// Serves until the device is gone.
    pub(crate) fn run(mut self) -> Result<(), Error> {
        loop {
            let woken = self.wait()?;
            self.heed_events()?;
            match woken {
                Woken::Doorbell => {
                    self.server.answer();
                    self.serve();
                }
                Woken::Event => {}
                Woken::Nobody if self.device_is_there()? => {}
                Woken::Nobody => {
                    let Totals {
                        requests,
                        exchanged,
                        refused,
                    } = self.did;
                    say(&format!(
                        "the device {} is gone; the guest copies. In {requests} requests {exchanged} pairs were exchanged and \
                         {refused} refused",
                        self.id
                    ));
                    return Ok(());
                }
            }
        }
    }

    /// Waits for the doorbell or an event of QEMU, for a while.
    fn wait(&self) -> Result<Woken, Error> {
        let mut wait = [
            PollFd::from_borrowed_fd(self.server.doorbell(), PollFlags::IN),
            PollFd::new(&self.qmp, PollFlags::IN),
        ];
        match poll(&mut wait, Some(&LOOK_FOR_DEVICE)) {
            Ok(_) if !wait[0].revents().is_empty() => Ok(Woken::Doorbell),
            Ok(0) => Ok(Woken::Nobody),
            Ok(_) | Err(Errno::INTR) => Ok(Woken::Event),
            Err(error) => Err(Error::system("wait for the guest")(error)),
        }
    }

    /// A reset may change what is RAM: the firmware opens and closes SMRAM.
    fn heed_events(&mut self) -> Result<(), Error> {
        while let Some(event) = self.qmp.event()? {
            if event["event"] == "RESET" {
                self.exchanger = None;
            }
        }
        Ok(())
    }

    /// No DEVICE_DELETED was seen from QEMU 7.2 when the guest let the device go, so we look.
    fn device_is_there(&mut self) -> Result<bool, Error> {
        let devices = self
            .qmp
            .execute("qom-list", &json!({ "path": "/machine/peripheral" }))?;
        Ok(devices
            .as_array()
            .into_iter()
            .flatten()
            .any(|device| device["name"] == self.id.as_str()))
    }

    /// Carries out what the guest asks for. If the memory cannot be exchanged any more, nobody serves the page.
    fn serve(&mut self) {
        if self.exchanger.is_none() {
            match machine::memory(&mut self.qmp).and_then(|ranges| Ok(Exchanger::new(ranges)?)) {
                Ok(exchanger) => self.exchanger = Some(exchanger),
                Err(error) => {
                    self.server.withdraw();
                    say(&format!("{error}; the guest copies instead"));
                }
            }
        }
        if let Some(exchanger) = &self.exchanger
            && let Some(served) = self.server.serve(exchanger)
        {
            self.did.requests += 1;
            self.did.exchanged += served.exchanged;
            self.did.refused += served.refused;
        }
    }
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    Doorbell,
    Event,
    Nobody,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_that_there_are() {
        let parse =
            |text: &str| Options::parse(&text.split(',').map(String::from).collect::<Vec<_>>());
        let options = parse("qmp=/run/q,bus=port0").unwrap();
        assert_eq!(options.qmp, PathBuf::from("/run/q"));
        assert_eq!(options.bus.as_deref(), Some("port0"));
        assert_eq!(options.id, "mega-exchange");
        assert!(matches!(parse("bus=port0"), Err(Error::NoMonitor)));
        assert!(matches!(
            parse("qmp=/run/q,port=1"),
            Err(Error::UnknownOption(_))
        ));
    }
}
