//! MariaDB for the time of a run, with one table as `sysbench` makes it.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::Server;
use crate::error::Error;
use crate::live::output::output_of;
use crate::live::package::{Package, Program};
use crate::live::run::Run;
use crate::programs;

/// The server.
pub(crate) const MARIADBD: Program = Program {
    name: "mariadbd",
    package: Package::Debian("mariadb-server-core"),
};
/// Makes a data folder.
pub(crate) const INSTALL: Program = Program {
    name: "mariadb-install-db",
    package: Package::Debian("mariadb-server-core"),
};
/// The client.
pub(crate) const CLIENT: Program = Program {
    name: "mariadb",
    package: Package::Debian("mariadb-client-core"),
};

/// The database that the table is in, as `sysbench` calls it.
pub(crate) const DATABASE: &str = "sbtest";
/// How long the server may take over its greeting before it is asked again.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of memory for each row, of which it takes some 250: making 700 000 rows for 1 GiB takes some 8 s.
const BYTES_PER_ROW: u64 = 1500;
/// The version of the protocol in the server's greeting.
const PROTOCOL_VERSION: u8 = 10;

/// A MariaDB server that answers only this machine's root, by its socket.
pub(crate) struct MariaDb {
    pub(crate) server: Server,
    /// Where it listens.
    pub(crate) socket: PathBuf,
}

/// Whether the server's own `prctl(PR_SET_THP_DISABLE)` does what it says: Debian's MariaDB (since 10.11.7) switches huge pages off for
/// itself once its buffers are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThpDisable {
    Works,
    Ignored,
}

/// What is in a table that `sysbench` reads.
pub(crate) struct Table {
    pub(crate) rows: u64,
    checksum: String,
}

impl MariaDb {
    /// Starts a server for so many bytes of memory: three quarters are its buffer pool, and the table is as large as goes with
    /// that.
    ///
    /// # Errors
    /// As [`MariaDb::start`], and when the server refuses.
    pub(crate) fn start_filled(
        run: &Run<'_>,
        bytes: u64,
        disable: ThpDisable,
    ) -> Result<(Self, Table), Error> {
        let rows = (bytes / BYTES_PER_ROW).max(1);
        let database = MariaDb::start(run, bytes / 4 * 3, disable)?;
        database.fill(run, rows)?;
        let checksum = database.checksum(run)?;
        Ok((database, Table { rows, checksum }))
    }

    /// Fails where the table is no longer as it was filled. Reads all of it.
    ///
    /// # Errors
    /// Then, and when the server refuses.
    pub(crate) fn check(&self, run: &Run<'_>, table: &Table) -> Result<(), Error> {
        if self.checksum(run)? == table.checksum {
            return Ok(());
        }
        Err(Error::Failed(
            "data was lost: MariaDB's table has another checksum after it was read".into(),
        ))
    }

    /// Starts a server with an empty data folder. Nothing that it writes is waited for.
    ///
    /// # Errors
    /// When its data folder cannot be made, and as [`Server::start`].
    pub(crate) fn start(
        run: &Run<'_>,
        buffer_pool_bytes: u64,
        disable: ThpDisable,
    ) -> Result<Self, Error> {
        let data = run.scratch.join("mariadb");
        let mut install = run.beside(INSTALL.find()?);
        install
            .args(["--no-defaults", "--user=root", "--skip-test-db"])
            .args([
                "--auth-root-authentication-method=normal",
                "--skip-name-resolve",
            ])
            .arg(option("datadir", &data));
        output_of(&mut install)?;
        let socket = run.scratch.join("mariadb.socket");
        let mut command = match disable {
            ThpDisable::Works => run.command(MARIADBD.find()?)?,
            ThpDisable::Ignored => {
                let mut command = run.command(programs::own()?)?;
                command
                    .args(["without-thp-disable", "--"])
                    .arg(MARIADBD.find()?);
                command
            }
        };
        command
            .args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1"])
            .args([
                "--skip-log-bin",
                "--skip-name-resolve",
                "--skip-innodb-doublewrite",
            ])
            .args([
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-buffer-pool-dump-at-shutdown=0",
            ])
            .arg(format!("--innodb-buffer-pool-size={buffer_pool_bytes}"))
            .arg(option("datadir", &data))
            .arg(option("socket", &socket))
            .arg(option("pid-file", &run.scratch.join("mariadb.pid")));
        let listen = |command: &mut Command, port: u16| {
            command.arg(format!("--port={port}"));
        };
        let server = Server::start(run, "mariadbd", command, listen, greets)?;
        Ok(MariaDb { server, socket })
    }

    /// Makes the table that `sysbench` reads, of the form that it gives it, filled by the server itself: that is
    /// faster than `sysbench`'s own way.
    ///
    /// # Errors
    /// When the server refuses.
    pub(crate) fn fill(&self, run: &Run<'_>, rows: u64) -> Result<(), Error> {
        self.query(
            run,
            &format!(
                "CREATE DATABASE {DATABASE}; USE {DATABASE}; \
                 SET unique_checks = 0, foreign_key_checks = 0; \
                 CREATE TABLE sbtest1 (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0, \
                 c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', KEY k_1 (k)) \
                 ENGINE = InnoDB CHARACTER SET latin1; \
                 INSERT INTO sbtest1 SELECT seq, seq, REPEAT(LPAD(seq, 10, '0'), 12), \
                 REPEAT(LPAD(seq, 10, '0'), 6) FROM seq_1_to_{rows};"
            ),
        )?;
        Ok(())
    }

    /// What the server says of a table's content: the same for the same content. Reads all of it.
    ///
    /// # Errors
    /// When the server refuses.
    pub(crate) fn checksum(&self, run: &Run<'_>) -> Result<String, Error> {
        self.query(run, &format!("CHECKSUM TABLE {DATABASE}.sbtest1 EXTENDED"))
    }

    fn query(&self, run: &Run<'_>, statements: &str) -> Result<String, Error> {
        let mut client = self.client(run)?;
        client.arg(format!("--execute={statements}"));
        output_of(&mut client)
    }

    /// A client that answers each line on its standard input, a statement about the table that `sysbench` reads, by a line for each row.
    ///
    /// # Errors
    /// When there is no client.
    pub(crate) fn asked_by_lines(&self, run: &Run<'_>) -> Result<Command, Error> {
        let mut client = self.client(run)?;
        client.args(["--unbuffered", DATABASE]);
        Ok(client)
    }

    fn client(&self, run: &Run<'_>) -> Result<Command, Error> {
        let mut client = run.beside(CLIENT.find()?);
        client
            .args([
                "--no-defaults",
                "--user=root",
                "--skip-column-names",
                "--batch",
            ])
            .arg(option("socket", &self.socket));
        Ok(client)
    }
}

/// `--name=path`.
fn option(name: &str, path: &std::path::Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(format!("--{name}="));
    option.push(path);
    option
}

fn greets(port: u16) -> bool {
    greeting(port).is_ok_and(|greeting| greeting[4] == PROTOCOL_VERSION)
}

/// The head of its first packet, and the first byte in it.
fn greeting(port: u16) -> std::io::Result<[u8; 5]> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting)?;
    Ok(greeting)
}
