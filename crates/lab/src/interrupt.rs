//! Whether a signal asked for the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

/// The signals that end an experiment or the demo in good order.
const SIGNALS: [i32; 3] = [
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
];

/// Whether a signal asked for the end.
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    pub(crate) fn catch() -> Result<Self, Error> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in SIGNALS {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .map_err(|e| Error::io(format!("catching signal {signal}"), e))?;
        }
        Ok(Interrupt(flag))
    }

    /// Whether one came.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once one came.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.came() {
            return Err(Error::Failed(
                "interrupted; what it changed globally is as before".into(),
            ));
        }
        Ok(())
    }
}
