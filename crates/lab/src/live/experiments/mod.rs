//! One file for each experiment.

mod bloat;
mod btree;
pub(crate) mod busy;
mod chase;
mod churn;
mod compute;
mod converge;
mod fault_latency;
mod graph_bfs;
mod gups;
mod harm;
mod hash_join;
pub(super) mod java;
mod kernel;
mod latency;
mod lines;
mod machine;
mod manager_cost;
mod memcached;
mod mysql;
pub(super) mod python;
mod redis;
mod saving;
mod sparse_use;
mod stride;
mod xs_lookup;

use mega_core::promotion::DEFAULT_POLICY;

use super::experiment::Experiment;
use super::mode::Mode;

/// Every experiment, in the order in which `all` runs them.
pub(crate) const ALL: [&Experiment; 22] = [
    &fault_latency::FAULT_LATENCY,
    &bloat::BLOAT,
    &sparse_use::SPARSE_USE,
    &churn::CHURN,
    &stride::STRIDE,
    &gups::GUPS,
    &chase::CHASE,
    &btree::BTREE,
    &graph_bfs::GRAPH_BFS,
    &hash_join::HASH_JOIN,
    &xs_lookup::XS_LOOKUP,
    &redis::REDIS_UNDER_LOAD,
    &memcached::MEMCACHED_UNDER_LOAD,
    &mysql::MYSQL,
    &java::JAVA_HEAP,
    &python::PYTHON_ARRAYS,
    &compute::COMPUTE,
    &busy::BUSY,
    &machine::MACHINE,
    &harm::HARM,
    &manager_cost::MANAGER_COST,
    &converge::CONVERGE,
];

/// The experiment of this name.
pub(crate) fn find(name: &str) -> Option<&'static Experiment> {
    ALL.into_iter().find(|experiment| experiment.name == name)
}

/// The modes in which servers are compared: a run of one takes longer, so not every policy has its turn.
fn server_modes() -> Vec<Mode> {
    let policies = [DEFAULT_POLICY, "mega", "ingens"];
    Mode::STATIC
        .into_iter()
        .chain(policies.map(Mode::Mega))
        .collect()
}
