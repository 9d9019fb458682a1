//! The response with the metrics. It is made for the first who asks, and serves the others for a while.
//!
//! So clients that ask all the time cost the daemon one scrape a second. Their CPU time is that of the daemon, which
//! the managed programs would miss.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::exposition;
use super::sample::Sample;
use crate::published::Published;

/// How long a page serves.
const FRESH: Duration = Duration::from_secs(1);

/// Makes pages.
pub(super) struct Pages {
    /// When the daemon started, in seconds since 1970.
    started: f64,
    max_cgroups: usize,
    latest: Option<(Instant, Arc<[u8]>)>,
}

impl Pages {
    pub(super) fn new(started: f64, max_cgroups: usize) -> Self {
        Pages {
            started,
            max_cgroups,
            latest: None,
        }
    }

    /// The response: one that is fresh enough, or a new one of what is `published`.
    pub(super) fn get(&mut self, published: &Published) -> Arc<[u8]> {
        let now = Instant::now();
        self.forget(now);
        let make = || {
            let sample = Sample::of(published, self.started, self.max_cgroups);
            (now, response(&exposition::text(sample)).into())
        };
        let (_, page) = self.latest.get_or_insert_with(make);
        Arc::clone(page)
    }

    /// Forgets the page if it serves no more at `now`. Returns when it will not.
    pub(super) fn forget(&mut self, now: Instant) -> Option<Instant> {
        self.latest
            .take_if(|(made, _)| now.saturating_duration_since(*made) >= FRESH);
        self.latest.as_ref().map(|(made, _)| *made + FRESH)
    }
}

fn response(body: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        exposition::MEDIA_TYPE,
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}
