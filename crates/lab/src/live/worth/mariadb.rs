//! MariaDB, asked for rows of its table by a client.

use super::asked::Asked;
use crate::error::Error;
use crate::live::package::Program;
use crate::live::run::Run;
use crate::live::server::mariadb::{CLIENT, INSTALL, MARIADBD, MariaDb, Table, ThpDisable};

/// What must be installed.
pub(super) const PROGRAMS: [Program; 3] = [MARIADBD, INSTALL, CLIENT];

/// A server and a client that asks it.
pub(super) struct Asking {
    database: MariaDb,
    table: Table,
    client: Asked,
}

impl Asking {
    /// Starts both, the server with as much memory as the run's programs have. It cannot switch huge pages off for itself, as Debian's
    /// does: else nobody could say what it would gain. Each question is for a thousand rows.
    ///
    /// # Errors
    /// When they cannot be started.
    pub(super) fn start(run: &Run<'_>) -> Result<Self, Error> {
        let (database, table) = MariaDb::start_filled(run, run.size, ThpDisable::Ignored)?;
        let client = database.asked_by_lines(run)?;
        let rows = table.rows;
        // The places are made before any is looked up: a limit keeps the two from becoming one.
        let question = format!(
            "SELECT SUM(LENGTH(t.pad)) FROM (SELECT CAST(FLOOR(1 + RAND() * {rows}) AS SIGNED) AS id FROM seq_1_to_1000 LIMIT 1000) places \
             STRAIGHT_JOIN sbtest1 t ON t.id = places.id;"
        );
        let client = Asked::start(
            client,
            Some("SELECT 'ready';"),
            std::iter::repeat(question),
            "60000",
        )?;
        Ok(Asking {
            database,
            table,
            client,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.database.server.pid()
    }

    /// Questions that were answered.
    pub(super) fn answers(&self) -> u64 {
        self.client.answers()
    }

    /// Ends both.
    ///
    /// # Errors
    /// When one of them failed, or an answer was wrong.
    pub(super) fn finish(self, run: &Run<'_>) -> Result<(), Error> {
        self.client.finish()?;
        self.database.check(run, &self.table)?;
        self.database.server.stop()
    }
}
