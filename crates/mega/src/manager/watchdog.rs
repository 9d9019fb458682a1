//! Signs of life of the thread that manages, also from within a step, which may take as long as an interval's CPU budget
//! allows: minutes, if both are large.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The longest that a manager which is well gives no sign of life. As `WatchdogSec=` of the unit.
const LONGEST: Duration = Duration::from_secs(180);

static BEATS: Mutex<Option<Beats>> = Mutex::new(None);

/// When there was a sign of life.
struct Beats {
    latest: Instant,
    /// The latest that the service manager was told of.
    told: Instant,
}

/// How often there must be a sign of life: three times within the limit, the service manager's or the built-in one.
pub(crate) fn patience() -> Duration {
    limit().unwrap_or(LONGEST) / 3
}

/// Managing goes on. Tells the service manager, if it asked for that and was not told lately.
pub(crate) fn beat() {
    let now = Instant::now();
    let mut beats = BEATS.lock().unwrap_or_else(PoisonError::into_inner);
    let told = beats.as_ref().map(|beats| beats.told);
    let is_due = |limit: Duration| told.is_none_or(|told| now.duration_since(told) >= limit / 6);
    let tells = limit().is_some_and(is_due);
    if tells {
        // A service manager that does not listen ends the daemon; nothing here can help that.
        let _ = sd_notify::notify(&[NotifyState::Watchdog]);
    }
    *beats = Some(Beats {
        latest: now,
        told: told.filter(|_| !tells).unwrap_or(now),
    });
}

/// Whether there was a sign of life lately.
pub(crate) fn is_alive() -> bool {
    let beats = BEATS.lock().unwrap_or_else(PoisonError::into_inner);
    beats
        .as_ref()
        .is_some_and(|beats| beats.latest.elapsed() < LONGEST)
}

/// Within which time the service manager wants a sign of life, if it wants any.
fn limit() -> Option<Duration> {
    static LIMIT: OnceLock<Option<Duration>> = OnceLock::new();
    *LIMIT.get_or_init(sd_notify::watchdog_enabled)
}
