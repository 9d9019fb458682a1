//! The thread that manages. Other threads answer signals and the control socket, also while a step takes long.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::config::Config;
use crate::events::{self, Change, Teller};
use crate::exit::Failure;
use crate::history::Recorder;
use crate::manager::Manager;
use crate::published::Published;
use crate::report::ManagerStatus;

/// An order to the thread.
enum Order {
    /// Take over this configuration, and answer whether that worked.
    Configure(Box<Config>, Sender<Result<(), Failure>>),
    /// Stop.
    Stop,
}

/// A thread that manages until it is stopped.
pub(crate) struct Worker {
    orders: Sender<Order>,
    thread: JoinHandle<(Manager, Teller)>,
    published: Published,
}

impl Worker {
    /// Starts to manage. The thread tells `teller` what changes, has `recorder` look from time to time, and calls `beat` at least
    /// once every `patience` while all is well.
    pub(crate) fn start(
        manager: Manager,
        recorder: Option<Recorder>,
        teller: Teller,
        patience: Duration,
        beat: impl Fn() + Send + 'static,
    ) -> Result<Self, Failure> {
        let history = recorder.as_ref().map(Recorder::history);
        let published = Published::new(manager.snapshot(), manager.watch(), history);
        let (orders, inbox) = channel();
        let place = published.clone();
        let thread = std::thread::Builder::new()
            .name("manage".to_owned())
            .spawn(move || manage(manager, recorder, &inbox, &place, teller, patience, &beat))
            .map_err(|error| Failure::Failed(format!("cannot start a thread: {error}")))?;
        Ok(Worker {
            orders,
            thread,
            published,
        })
    }

    /// Gives access to its status.
    pub(crate) fn published(&self) -> Published {
        self.published.clone()
    }

    /// Takes over `config` once the present step is done.
    ///
    /// # Errors
    /// Where that does not work: everything goes on as before. Where managing has ended: [`Worker::stop`] says why.
    pub(crate) fn configure(&self, config: Config) -> Result<(), Failure> {
        let ended = || Failure::Failed("managing has ended".to_owned());
        let (reply, answer) = channel();
        self.orders
            .send(Order::Configure(Box::new(config), reply))
            .map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?
    }

    /// Whether it ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops it once the present step is done, and returns its last status.
    ///
    /// # Errors
    /// Where it ended by an internal error.
    pub(crate) fn stop(self) -> Result<ManagerStatus, Failure> {
        // A thread that has ended takes no order and needs none.
        let _ = self.orders.send(Order::Stop);
        match self.thread.join() {
            Ok((mut manager, mut teller)) => {
                let status = manager.snapshot().status();
                events::tell(&manager.finish_recordings(), &mut teller);
                Ok(status)
            }
            Err(_) => Err(Failure::Failed(
                "managing stopped by an internal error, which is a bug".to_owned(),
            )),
        }
    }
}

fn manage(
    mut manager: Manager,
    mut recorder: Option<Recorder>,
    inbox: &Receiver<Order>,
    published: &Published,
    mut teller: Teller,
    patience: Duration,
    beat: &dyn Fn(),
) -> (Manager, Teller) {
    loop {
        let mut tick = manager.tick();
        if tick.has_news {
            published.set(manager.snapshot());
        }
        if let Some(recorder) = &mut recorder {
            tick.changes.extend(record(recorder, published));
        }
        // Who hears of a change and asks for the status finds it there.
        events::tell(&tick.changes, &mut teller);
        tick.changes
            .into_iter()
            .for_each(|change| published.events().add(change));
        beat();
        match inbox.recv_timeout(tick.pause.min(patience)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Order::Configure(config, reply)) => {
                // Nobody takes the answer where the daemon is ending.
                let _ = reply.send(manager.manage_configured(*config));
            }
        }
    }
    if let Some(recorder) = &mut recorder {
        // The daemon ends: nobody reads an event any more, and the history ends a few minutes early.
        let _ = recorder.close();
    }
    (manager, teller)
}

/// Has the history take a look, if one is due. Returns what went wrong.
fn record(recorder: &mut Recorder, published: &Published) -> Option<Change> {
    let snapshot = published.latest();
    if !recorder.is_due(snapshot.host.kernel().now()) {
        return None;
    }
    let looked = recorder.look(&snapshot, &published.events().counts());
    looked.err().map(|why| Change::error(None, &why))
}
