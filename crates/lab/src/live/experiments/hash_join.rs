//! `hash-join`: a hash table probed with another relation.

use super::kernel::Kernel;
use crate::live::experiment::Experiment;

pub(super) const HASH_JOIN: Experiment = Kernel {
    name: "hash-join",
    title: "a hash table probed with another relation",
    about: "Builds a hash table from one relation, then probes it with every tuple of another one as large, again and again. \
            Every probe is at another place of the table. Threads have a part of the second relation each.",
    paper: None,
}
.experiment();
