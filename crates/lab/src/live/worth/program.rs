//! The programs, of the lab and from elsewhere.

use std::time::Duration;

use super::{duckdb, mariadb, twins};
use crate::live::experiments::{busy, java, python};
use crate::live::package::Program as Installed;
use crate::live::server::memcached::MEMCACHED;
use crate::live::server::redis::REDIS;

/// A program that is measured.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// How it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A workload of the lab's own of this name, with the size asked for.
    Workload(&'static str),
    /// One that uses as much memory as it does by default.
    SmallWorkload(&'static str),
    /// Redis, asked for values of 1 KiB.
    Redis,
    /// memcached, asked for the same.
    Memcached,
    /// SQLite, asked for rows of a table in memory.
    Sqlite,
    /// A JVM with a heap of small objects.
    Java,
    /// NumPy sorting and gathering.
    Python,
    /// MariaDB, asked for rows of a table.
    MariaDb,
    /// DuckDB joining two tables in memory.
    DuckDb,
}

impl Program {
    /// All, in the order in which they are run.
    pub(super) const ALL: [Program; 18] = [
        Program::workload("random"),
        Program::workload("chase"),
        Program::workload(twins::PACED),
        Program::workload("btree"),
        Program::workload("graph-bfs"),
        Program::workload("hash-join"),
        Program::workload("xs-lookup"),
        Program::workload("stride"),
        Program::workload("chunks"),
        Program::small("small"),
        Program::small("matrix"),
        Program {
            name: "redis",
            kind: Kind::Redis,
        },
        Program {
            name: "memcached",
            kind: Kind::Memcached,
        },
        Program {
            name: "sqlite",
            kind: Kind::Sqlite,
        },
        Program {
            name: "java",
            kind: Kind::Java,
        },
        Program {
            name: "python",
            kind: Kind::Python,
        },
        Program {
            name: "mariadb",
            kind: Kind::MariaDb,
        },
        Program {
            name: "duckdb",
            kind: Kind::DuckDb,
        },
    ];

    const fn workload(name: &'static str) -> Self {
        Program {
            name,
            kind: Kind::Workload(name),
        }
    }

    const fn small(name: &'static str) -> Self {
        Program {
            name,
            kind: Kind::SmallWorkload(name),
        }
    }

    /// The shortest window in which it does something whole, of that many bytes.
    pub(super) fn least_window(&self, size: u64) -> Duration {
        match self.kind {
            // It tells of itself once it has sorted and gathered, which takes 2 to 4 s for each GiB here.
            Kind::Python => Duration::from_secs(9 * size.div_ceil(1 << 30)),
            // It tells of itself after each sixteenth, which takes 0.1 s for each GiB here: some forty in a window.
            Kind::DuckDb => Duration::from_secs(4 * size.div_ceil(1 << 30)),
            _ => Duration::ZERO,
        }
    }

    /// What must be installed.
    pub(super) fn needs(&self) -> &'static [Installed] {
        match self.kind {
            Kind::Workload(_) | Kind::SmallWorkload(_) => &[],
            Kind::Redis => &[REDIS],
            Kind::Memcached => &[MEMCACHED],
            Kind::Sqlite => &[busy::SQLITE],
            Kind::Java => &java::PROGRAMS,
            Kind::Python => &python::PROGRAMS,
            Kind::MariaDb => &mariadb::PROGRAMS,
            Kind::DuckDb => &duckdb::PROGRAMS,
        }
    }
}
