//! SQLite with a table in memory, asked for rows at random.

use super::asked::Asked;
use crate::error::Error;
use crate::live::experiments::busy::SQLITE;
use crate::live::run::Run;

/// Bytes of memory for each row of 400 characters.
const BYTES_PER_ROW: u64 = 420;

/// Starts it with as much memory as the run's programs have. Each question is for a thousand rows.
///
/// # Errors
/// When it cannot be started.
pub(super) fn start(run: &Run<'_>) -> Result<Asked, Error> {
    let rows = (run.size / BYTES_PER_ROW).max(1);
    let mut command = run.command(SQLITE.find()?)?;
    command.args(["-batch", ":memory:"]);
    let first = format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, pad TEXT); \
         WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT {rows}) \
         INSERT INTO t SELECT i, printf('%0400d', i) FROM n; SELECT 'ready';"
    );
    let question = format!(
        "WITH RECURSIVE n(i) AS (SELECT abs(random() % {rows}) UNION ALL SELECT abs(random() % {rows}) FROM n LIMIT 1000) \
         SELECT sum(length(t.pad)) FROM n CROSS JOIN t ON t.id = n.i;"
    );
    Asked::start(command, Some(&first), std::iter::repeat(question), "400000")
}
