//! Where the daemon's metrics can be had, as its configuration and its service manager say.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::listener::Listener;
use super::page::Pages;
use super::server::Server;
use crate::config::Metrics;
use crate::exit::Failure;
use crate::worker::Published;

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
    /// The socket that the configuration names.
    own: Option<Arc<Listener>>,
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
                own: None,
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
        let all = self.now.own.iter().chain(&self.inherited);
        all.map(|listener| listener.name())
    }

    fn serve(&self, config: &Metrics) -> Result<Serving, Failure> {
        let own = match &config.socket {
            None => None,
            Some(path) if config.socket == self.now.config.socket => match &self.now.own {
                Some(listener) => Some(Arc::clone(listener)),
                None => Some(Arc::new(Listener::bind(path)?)),
            },
            Some(path) => Some(Arc::new(Listener::bind(path)?)),
        };
        let listeners: Vec<Arc<Listener>> = own.iter().chain(&self.inherited).cloned().collect();
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
            own,
            _server: server,
        })
    }
}
