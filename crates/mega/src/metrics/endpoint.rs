//! Where the daemon's metrics can be had, as its configuration and its service manager say.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::listener::Listener;
use super::page::Pages;
use super::server::Server;
use crate::config::Metrics;
use crate::exit::Failure;
use crate::published::Published;

/// Serves metrics. Without a socket it does nothing, and has no thread.
pub(crate) struct Endpoint {
    published: Published,
    /// When the daemon started, in seconds since 1970.
    started: f64,
    inherited: Vec<Arc<Listener>>,
    now: Serving,
}

/// How metrics are served.
pub(crate) struct Serving {
    config: Metrics,
    /// The Unix socket that the configuration names.
    unix: Option<Arc<Listener>>,
    /// The TCP port that it names.
    tcp: Option<Arc<Listener>>,
    /// Serves until it is dropped. `None` where there is no socket to serve on.
    _server: Option<Server>,
}

impl Endpoint {
    /// Serves on what `config` names and on the sockets that were `inherited`. `uptime` is how long the daemon has run.
    ///
    /// # Errors
    /// Where the configured socket cannot be made, or no thread be started.
    pub(crate) fn start(
        inherited: Vec<Listener>,
        config: &Metrics,
        published: Published,
        uptime: Duration,
    ) -> Result<Self, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let started = now.unwrap_or_default().saturating_sub(uptime).as_secs_f64();
        let mut endpoint = Endpoint {
            published,
            started,
            inherited: inherited.into_iter().map(Arc::new).collect(),
            now: Serving {
                config: Metrics::default(),
                unix: None,
                tcp: None,
                _server: None,
            },
        };
        endpoint.now = endpoint.serve(config)?;
        Ok(endpoint)
    }

    /// Begins to serve as another configuration says. What was served before goes on until [`Endpoint::change`] gets the
    /// result, or for good if that is dropped. `None` where nothing changes.
    ///
    /// # Errors
    /// As [`Endpoint::start`].
    pub(crate) fn prepare(&self, config: &Metrics) -> Result<Option<Serving>, Failure> {
        if *config == self.now.config {
            return Ok(None);
        }
        self.serve(config).map(Some)
    }

    /// Serves as was prepared, and no longer as before.
    pub(crate) fn change(&mut self, prepared: Option<Serving>) {
        if let Some(serving) = prepared {
            self.now = serving;
        }
    }

    /// Where the metrics can be had now.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.now.unix.iter().chain(&self.now.tcp);
        let all = own.chain(&self.inherited);
        all.map(|listener| listener.name())
    }

    fn serve(&self, config: &Metrics) -> Result<Serving, Failure> {
        let before = &self.now.config;
        let unix = own(&config.socket, &before.socket, &self.now.unix, |path| {
            Listener::bind(path)
        })?;
        let tcp = own(&config.address, &before.address, &self.now.tcp, |address| {
            Listener::bind_tcp(*address)
        })?;
        let own = unix.iter().chain(&tcp);
        let listeners: Vec<Arc<Listener>> = own.chain(&self.inherited).cloned().collect();
        let server = if listeners.is_empty() {
            None
        } else {
            let pages = Pages::new(self.started, config.max_cgroups);
            let server = Server::start(listeners, self.published.clone(), pages);
            Some(
                server
                    .map_err(|error| Failure::Failed(format!("cannot serve metrics: {error}")))?,
            )
        };
        Ok(Serving {
            config: config.clone(),
            unix,
            tcp,
            _server: server,
        })
    }
}

/// The listener on the place that is `wanted`: the one there is if it is on that place already.
fn own<T: PartialEq>(
    wanted: &Option<T>,
    before: &Option<T>,
    now: &Option<Arc<Listener>>,
    bind: impl FnOnce(&T) -> Result<Listener, Failure>,
) -> Result<Option<Arc<Listener>>, Failure> {
    match (wanted, now) {
        (None, _) => Ok(None),
        (Some(_), Some(listener)) if wanted == before => Ok(Some(Arc::clone(listener))),
        (Some(place), _) => bind(place).map(|listener| Some(Arc::new(listener))),
    }
}
