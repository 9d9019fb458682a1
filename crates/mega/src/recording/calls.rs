//! When recorded processes change their mappings. One BPF program serves all recordings of a daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mega_core::{Call, ProcessId};
use mega_linux::Host;
use mega_linux::calls::{Calls, Place};
use mega_record::Header;

/// Calls that wait for the recording that they belong to, at most.
const MOST_WAITING: usize = 16_384;

/// What one recording hears of the calls of its processes.
pub(crate) struct Heard {
    shared: Shared,
    /// The number of this recording among those that listen.
    listener: u64,
    /// Calls of anybody that were lost, as far as this recording was told.
    lost_before: u64,
}

/// Where recordings hear from; why there is nothing to hear, where there is not.
#[derive(Clone)]
pub(crate) struct Shared(Result<Arc<Mutex<State>>, String>);

struct State {
    calls: Calls,
    /// Whom each recording watches.
    watched: BTreeMap<u64, BTreeSet<ProcessId>>,
    next_listener: u64,
    waiting: Vec<Call>,
    lost: u64,
}

impl Shared {
    /// Begins to see calls, where the kernel and the privileges allow it; with `also_at_all_calls` also where that makes every system call
    /// of the machine take longer.
    pub(crate) fn open(host: &Host, also_at_all_calls: bool) -> Self {
        if host.is_dry_run() {
            return Shared(Err("a dry run loads no BPF program for it".to_owned()));
        }
        let kernel = host.kernel().as_ref();
        let opened = Calls::open(Place::OwnCalls, kernel).or_else(|why| match also_at_all_calls {
            true => Calls::open(Place::AllCalls, kernel),
            false => Err(why),
        });
        Shared(opened.map(|calls| {
            Arc::new(Mutex::new(State {
                calls,
                watched: BTreeMap::new(),
                next_listener: 0,
                waiting: Vec::new(),
                lost: 0,
            }))
        }))
    }

    /// A recording that hears of nobody's calls yet.
    pub(crate) fn listen(&self) -> Heard {
        let (listener, lost_before) = self.with(|state| {
            state.next_listener += 1;
            (state.next_listener, state.lost)
        });
        Heard {
            shared: self.clone(),
            listener,
            lost_before,
        }
    }

    /// Says in a header whether there is anything to hear.
    pub(crate) fn in_header(&self, header: Header) -> Header {
        Header {
            calls: self.0.is_ok(),
            no_calls: self.0.as_ref().err().cloned(),
            ..header
        }
    }

    fn with<T: Default>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        match &self.0 {
            Ok(state) => what(&mut state.lock().unwrap_or_else(PoisonError::into_inner)),
            Err(_) => T::default(),
        }
    }
}

impl Heard {
    /// The calls of these processes, as far as they were watched, until then in a recording that began at that time by the kernel's
    /// clock; and how many calls of anybody were lost. From now on these processes are watched.
    pub(crate) fn take(
        &mut self,
        processes: &BTreeSet<ProcessId>,
        began: Duration,
        until: Duration,
    ) -> (Vec<Call>, u64) {
        let listener = self.listener;
        let (mut calls, lost) = self
            .shared
            .with(|state| (state.take(listener, processes, began + until), state.lost));
        // Earlier ones are of the recording before.
        calls.retain(|call| call.at >= began);
        for call in &mut calls {
            call.at -= began;
        }
        let more = lost.saturating_sub(self.lost_before);
        self.lost_before = lost;
        (calls, more)
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        let listener = self.listener;
        self.shared.with(|state| {
            state.watched.remove(&listener);
            state.watch();
        });
    }
}

impl State {
    fn watch(&mut self) {
        let processes = self.watched.values().flatten().copied();
        self.calls.watch(processes);
    }

    fn take(
        &mut self,
        listener: u64,
        processes: &BTreeSet<ProcessId>,
        until: Duration,
    ) -> Vec<Call> {
        let before = self.watched.insert(listener, processes.clone());
        let (calls, lost) = self.calls.take();
        self.lost += lost;
        self.waiting.extend(calls);
        let too_many = self.waiting.len().saturating_sub(MOST_WAITING);
        self.waiting.drain(..too_many);
        self.lost += too_many as u64;
        let mut taken = Vec::new();
        let before = before.unwrap_or_default();
        self.waiting.retain(|call| {
            let is_own = processes.contains(&call.process) || before.contains(&call.process);
            let is_taken = is_own && call.at <= until;
            if is_taken {
                taken.push(call.clone());
            }
            !is_taken
        });
        if before != *processes {
            self.watch();
        }
        taken
    }
}
