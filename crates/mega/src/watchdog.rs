//! Signs of life within a step, which may take as long as an interval's CPU budget allows: minutes, if both are large.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Tells the service manager that managing goes on, if it asked for that and was not told lately.
pub(crate) fn beat() {
    static EVERY: OnceLock<Option<Duration>> = OnceLock::new();
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let Some(every) = EVERY.get_or_init(|| sd_notify::watchdog_enabled().map(|limit| limit / 6))
    else {
        return;
    };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|last| last.elapsed() >= *every) {
        *last = Some(Instant::now());
        // A service manager that does not listen ends the daemon; nothing here can help that.
        let _ = sd_notify::notify(&[NotifyState::Watchdog]);
    }
}
