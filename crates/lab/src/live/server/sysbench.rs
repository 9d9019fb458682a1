//! `sysbench` reads a table of MariaDB.

use std::process::{Child, Command, Stdio};

use super::mariadb::{DATABASE, MariaDb};
use crate::error::Error;
use crate::live::output::output_of;
use crate::live::package::{Package, Program};
use crate::live::run::Run;

/// What must be installed.
pub(crate) const SYSBENCH: Program = Program {
    name: "sysbench",
    package: Package::Debian("sysbench"),
};

/// Threads that ask at a time (MEGA, section 4.4).
const THREADS: u32 = 8;

/// What `sysbench` reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) transactions_per_second: f64,
    /// Latencies of transactions, in nanoseconds.
    pub(crate) min: f64,
    pub(crate) average: f64,
    /// Below which the percentage is that was asked for.
    pub(crate) percentile: f64,
    pub(crate) max: f64,
}

/// Reads at random while the server's huge memory settles, and then for the time that is measured, which alone is told.
///
/// # Errors
/// As [`read_at_once`].
pub(crate) fn read_settled(
    run: &Run<'_>,
    database: &MariaDb,
    rows: u64,
    percentile: u8,
) -> Result<Report, Error> {
    let mut settling = command(run, database, rows, percentile, 0)?;
    settling
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = settling
        .spawn()
        .map_err(|e| Error::io(format!("starting {settling:?}"), e))?;
    let load = Endless(child);
    run.settle(database.server.pid(), run.size)?;
    drop(load);
    read_at_once(run, database, rows, percentile)
}

/// Reads at random for the time that is measured, in whole seconds since `sysbench` counts in them. Tells the latency below which
/// that percentage is.
///
/// # Errors
/// When `sysbench` cannot be started or fails, its report is not understood, or the lab is interrupted.
pub(crate) fn read_at_once(
    run: &Run<'_>,
    database: &MariaDb,
    rows: u64,
    percentile: u8,
) -> Result<Report, Error> {
    let seconds = run.measured.as_secs() + u64::from(run.measured.subsec_nanos() > 0);
    let text = output_of(&mut command(
        run,
        database,
        rows,
        percentile,
        seconds.max(1),
    )?)?;
    run.interrupt.check()?;
    parse(&text, percentile).ok_or_else(|| {
        Error::Failed(format!(
            "sysbench's report is not as it was known to be:\n{text}"
        ))
    })
}

/// A `sysbench` that runs for some seconds, or without end for 0.
fn command(
    run: &Run<'_>,
    database: &MariaDb,
    rows: u64,
    percentile: u8,
    seconds: u64,
) -> Result<Command, Error> {
    let mut command = run.beside(SYSBENCH.find()?);
    command
        .args(["oltp_read_only", "--db-driver=mysql", "--mysql-user=root"])
        .args(["--tables=1", "--events=0"])
        .arg(format!("--percentile={percentile}"))
        .arg(format!("--mysql-db={DATABASE}"))
        .arg(format!("--mysql-socket={}", database.socket.display()))
        .arg(format!("--table-size={rows}"))
        .arg(format!("--threads={THREADS}"))
        .arg(format!("--time={seconds}"))
        .arg("run");
    Ok(command)
}

/// A load that ends when it is dropped.
struct Endless(Child);

impl Drop for Endless {
    fn drop(&mut self) {
        // It may have ended by itself; then the next run tells why.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn parse(report: &str, percentile: u8) -> Option<Report> {
    let value = |name: &str| {
        let lines = report.lines().map(str::trim);
        let mut found = lines.filter_map(|line| line.strip_prefix(name));
        found.next().map(str::trim)
    };
    let rate = value("transactions:")?
        .split_once('(')?
        .1
        .strip_suffix(" per sec.)")?;
    let nanoseconds = |name: &str| Some(value(name)?.parse::<f64>().ok()? * 1e6);
    Some(Report {
        transactions_per_second: rate.parse().ok()?,
        min: nanoseconds("min:")?,
        average: nanoseconds("avg:")?,
        percentile: nanoseconds(&format!("{percentile}th percentile:"))?,
        max: nanoseconds("max:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report() {
        let text = "    transactions:                        4688   (2336.00 per sec.)\n\
                    \x20   ignored errors:                      0      (0.00 per sec.)\n\
                    Latency (ms):\n         min:                                    0.52\n\
                    \x20        avg:                                    4.88\n\
                    \x20        max:                                   33.63\n\
                    \x20        95th percentile:                        8.5\n";
        let expected = Report {
            transactions_per_second: 2336.0,
            min: 0.52e6,
            average: 4.88e6,
            percentile: 8.5e6,
            max: 33.63e6,
        };
        assert_eq!(parse(text, 95), Some(expected));
        assert_eq!(parse(text, 99), None);
        assert_eq!(parse(&text.replace("max", "most"), 95), None);
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(text: String, percentile: u8) {
            let _ = parse(&text, percentile);
        }
    }
}
