//! Work that goes on while a server's huge memory settles: unused memory may not become huge.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::Server;
use crate::error::Error;
use crate::live::run::Run;

/// Lets a load work until a server's huge memory has settled. The load is to end once it is told that it has no more
/// to do.
///
/// # Errors
/// When the load fails, or when interrupted.
pub(crate) fn settle_under_load(
    run: &Run<'_>,
    server: &Server,
    load: impl FnOnce(&dyn Fn() -> bool) -> Result<(), Error> + Send,
) -> Result<(), Error> {
    let settling = AtomicBool::new(true);
    thread::scope(|scope| {
        let load = scope.spawn(|| load(&|| settling.load(Ordering::Relaxed)));
        let settled = run.settle(server.pid(), run.size);
        settling.store(false, Ordering::Relaxed);
        load.join()
            .map_err(|_| Error::Failed("the thread that loads a server ended".into()))??;
        settled
    })
}
