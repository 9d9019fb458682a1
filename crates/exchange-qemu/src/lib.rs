//! A plugin for an unmodified QEMU (7.2 to 8.1): the guest gets a device through which it asks for exchanges, and a thread in
//! QEMU's process carries them out.
//!
//! `-plugin file=libmega_exchange_qemu.so,qmp=PATH -qmp unix:PATH,server=on,wait=off`; `docs/exchange.md` says the rest.
//!
//! QEMU connects its character devices before it loads plugins, so `-chardev` and `-device` on the command line would find
//! nobody. The plugin adds both itself when the machine is there, through a QMP monitor that is its own. From the same monitor
//! it learns where the guest's memory is mapped, which holds for any machine type and size.

mod decode;
mod machine;
mod plugin;
mod qmp;
mod service;

use std::io;

use mega_exchange::Unserved;

/// Why QEMU's guest gets no exchanger.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the option {0} is unknown; there are qmp=PATH, bus=BUS, id=ID and daemon=PATH")]
    UnknownOption(String),
    #[error(
        "the option qmp=PATH is missing: a QMP monitor of its own, as -qmp unix:PATH,server=on,wait=off gives it"
    )]
    NoMonitor,
    #[error("cannot {attempt}: {source}")]
    System {
        attempt: &'static str,
        source: io::Error,
    },
    #[error("QEMU refuses {command}: {reason}")]
    Qmp { command: String, reason: String },
    #[error("QEMU's answer to {command} is not understood: {answer}")]
    Answer { command: String, answer: String },
    #[error("{1}")]
    Refused(Unserved, String),
    #[error(transparent)]
    Exchange(#[from] mega_exchange::Error),
}

impl Error {
    /// What a guest that is not served for it is told.
    fn unserved(&self) -> Unserved {
        match self {
            Self::Refused(reason, _) => *reason,
            Self::Exchange(error) => error.unserved(),
            _ => Unserved::Other,
        }
    }

    fn system<E: Into<io::Error>>(attempt: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System {
            attempt,
            source: source.into(),
        }
    }
}
