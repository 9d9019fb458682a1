//! Gives the guest its device and serves it.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use mega_exchange::daemon::Connection;
use mega_exchange::{Exchanger, Server, Unserved, ivshmem};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::json;

use crate::plugin::say;
use crate::qmp::Qmp;
use crate::{Error, decode, machine};

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
    daemon: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, Error> {
        let (mut qmp, mut bus, mut daemon) = (None, None, None);
        let mut id = "mega-exchange".to_string();
        for argument in arguments {
            match argument.split_once('=') {
                Some(("qmp", path)) => qmp = Some(PathBuf::from(path)),
                Some(("bus", name)) => bus = Some(name.to_string()),
                Some(("id", name)) => id = name.to_string(),
                Some(("daemon", path)) => daemon = Some(PathBuf::from(path)),
                _ => return Err(Error::UnknownOption(argument.clone())),
            }
        }
        Ok(Self {
            qmp: qmp.ok_or(Error::NoMonitor)?,
            bus,
            id,
            daemon,
        })
    }
}

/// A guest's device that is served.
#[derive(Debug)]
pub(crate) struct Service {
    qmp: Qmp,
    server: Server,
    carrier: Carrier,
    id: String,
    did: Totals,
    /// QEMU takes the end of it as the server's.
    device: UnixStream,
}

/// Who exchanges the memory. `None` until the guest has asked for something since the machine was last reset.
#[derive(Debug)]
enum Carrier {
    /// This process, by moving pages.
    Own(Option<Exchanger>),
    /// The host's `mega daemon`, by its kernel.
    Daemon {
        /// Its socket.
        path: PathBuf,
        connection: Option<Connection>,
    },
}

impl Carrier {
    /// Whom the options name, before anything was asked of him.
    fn of(options: &Options) -> Self {
        match &options.daemon {
            Some(path) => Self::Daemon {
                path: path.clone(),
                connection: None,
            },
            None => Self::Own(None),
        }
    }
}

/// What came of all requests.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    requests: u64,
    exchanged: usize,
    refused: usize,
}

impl Service {
    /// Looks whether the machine may be served, and adds the device: it tells the guest if not, and why.
    pub(crate) fn start(options: &Options) -> Result<Self, Error> {
        let (ours, theirs) =
            UnixStream::pair().map_err(Error::system("make a socket for the device"))?;
        let mut service = Self {
            qmp: Qmp::connect(&options.qmp)?,
            server: Server::new()?,
            carrier: Carrier::of(options),
            id: options.id.clone(),
            did: Totals::default(),
            device: ours,
        };
        let says = match service.prepare() {
            Ok(()) => "serves the guest",
            Err(error) => {
                service.refuse(&error);
                "tells the guest why"
            }
        };
        if let Carrier::Own(exchanger) = &mut service.carrier {
            // We look again when the guest asks: its firmware has not run yet.
            *exchanger = None;
        }
        service.add_device(options, &theirs)?;
        say(&format!("the device {} {says}", options.id));
        Ok(service)
    }

    /// Has QEMU make the device, which takes the other end of our socket for an ivshmem server's.
    fn add_device(&mut self, options: &Options, theirs: &UnixStream) -> Result<(), Error> {
        ivshmem::introduce(&self.device, &self.server)
            .map_err(Error::system("introduce the device"))?;
        let chardev = format!("{}-socket", options.id);
        self.qmp.give(&chardev, theirs.as_fd())?;
        let backend = json!({ "type": "socket", "data": {
            "addr": { "type": "fd", "data": { "str": chardev } }, "server": false } });
        self.qmp
            .execute("chardev-add", &json!({ "id": chardev, "backend": backend }))?;
        let mut device = json!({
            "driver": "ivshmem-doorbell", "id": options.id, "chardev": chardev, "vectors": 1, "master": "off" });
        if let Some(bus) = &options.bus {
            device["bus"] = json!(bus);
        }
        decode::add(&mut self.qmp, &device)
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
                Woken::DaemonGone => self.do_without_daemon(),
                Woken::Nobody if self.device_is_there()? => {}
                Woken::Nobody => {
                    self.say_goodbye();
                    return Ok(());
                }
            }
        }
    }

    fn say_goodbye(&self) {
        let mut text = format!("the device {} is gone; the guest copies", self.id);
        if let Carrier::Own(_) = self.carrier {
            let Totals {
                requests,
                exchanged,
                refused,
            } = self.did;
            text += &format!(
                ". In {requests} requests {exchanged} pairs were exchanged and {refused} refused"
            );
        }
        say(&text);
    }

    /// Waits for the doorbell or an event of QEMU, for a while. Where the daemon serves the guest, the doorbell is its affair.
    fn wait(&self) -> Result<Woken, Error> {
        let (first, woken) = match &self.carrier {
            Carrier::Daemon {
                connection: Some(connection),
                ..
            } => (connection.as_fd(), Woken::DaemonGone),
            _ => (self.server.doorbell(), Woken::Doorbell),
        };
        let mut wait = [
            PollFd::from_borrowed_fd(first, PollFlags::IN),
            PollFd::new(&self.qmp, PollFlags::IN),
        ];
        match poll(&mut wait, Some(&LOOK_FOR_DEVICE)) {
            Ok(_) if !wait[0].revents().is_empty() => Ok(woken),
            Ok(0) => Ok(Woken::Nobody),
            Ok(_) | Err(Errno::INTR) => Ok(Woken::Event),
            Err(error) => Err(Error::system("wait for the guest")(error)),
        }
    }

    fn heed_events(&mut self) -> Result<(), Error> {
        while let Some(event) = self.qmp.event()? {
            if event["event"] == "RESET" {
                self.begin_anew();
            }
        }
        Ok(())
    }

    /// The machine was reset: what it had asked for nobody waits for, and what is RAM may have changed, as the firmware opens and
    /// closes SMRAM. So memory and daemon are looked for when it asks again.
    fn begin_anew(&mut self) {
        match &mut self.carrier {
            Carrier::Own(exchanger) => *exchanger = None,
            Carrier::Daemon { connection, .. } => {
                if let Some(connection) = connection.take() {
                    connection.end();
                }
            }
        }
        self.server.end_request();
        // What rang until now was for that.
        self.server.answer();
        self.server.offer();
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

    /// The daemon has ended, and said so in the page if it could.
    fn do_without_daemon(&mut self) {
        if let Carrier::Daemon { connection, .. } = &mut self.carrier {
            *connection = None;
        }
        self.server.refuse(Unserved::Host);
        self.server.end_request();
        self.server.answer();
        say("the daemon does not serve the guest any more; it copies until the machine is reset");
    }

    /// Tells the guest that it is not served, and why.
    fn refuse(&self, error: &Error) {
        self.server.refuse(error.unserved());
        say(&format!(
            "{error}; the guest copies until the machine is reset"
        ));
    }

    /// Finds the guest's memory, and who exchanges it.
    fn prepare(&mut self) -> Result<(), Error> {
        match &mut self.carrier {
            Carrier::Own(exchanger @ None) => {
                *exchanger = Some(Exchanger::new(machine::memory(&mut self.qmp)?)?);
            }
            Carrier::Daemon {
                path,
                connection: connection @ None,
            } => {
                let memory = machine::memory(&mut self.qmp)?;
                *connection = Some(Connection::open(path, &self.server, &memory)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Carries out what the guest asks for, or has the daemon do it. If the memory cannot be exchanged any more, nobody serves
    /// the page.
    fn serve(&mut self) {
        if let Err(error) = self.prepare() {
            self.refuse(&error);
            self.server.end_request();
        }
        if let Carrier::Own(Some(exchanger)) = &self.carrier
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
    DaemonGone,
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
        assert_eq!(options.daemon, None);
        let options = parse("qmp=/run/q,daemon=/run/mega/exchange.sock").unwrap();
        let daemon = PathBuf::from("/run/mega/exchange.sock");
        assert_eq!(options.daemon, Some(daemon));
        assert!(matches!(parse("bus=port0"), Err(Error::NoMonitor)));
        assert!(matches!(
            parse("qmp=/run/q,port=1"),
            Err(Error::UnknownOption(_))
        ));
    }
}
