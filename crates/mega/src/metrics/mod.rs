//! Metrics for Prometheus and its like, as OpenMetrics text over HTTP. `docs/metrics.md` describes them.
//!
//! A thread of its own answers scrapes from the manager's latest snapshot. It adds up nothing until somebody asks. The
//! manager never waits for it, but for the lock on the table of processes while a scrape looks up cgroups.
//!
//! Under systemd the daemon opens no network socket: it takes the one that the service manager passes to it, and so can stay in
//! a network namespace of its own. Elsewhere, as in a container, its configuration names a port.

mod cgroups;
mod connection;
mod endpoint;
mod exposition;
mod listener;
mod page;
mod request;
mod sample;
mod server;

pub(crate) use endpoint::Endpoint;
pub(crate) use listener::inherited;
