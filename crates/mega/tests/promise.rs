//! The promise of coverage over real servers: PostgreSQL's shared buffers, the memory of a QEMU guest, Redis while it saves, a
//! JVM. Each takes many seconds, so `make test-long` runs them.

// A test that fails panics, also outside of the functions that clippy takes for tests.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use live::daemon::{Daemon, Place};
use live::{can_run, mega, run, skip, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const SHARED_MEMORY: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const QEMU: &str = "/usr/bin/qemu-system-x86_64";
/// Of each server's memory.
const MEMORY: u64 = 128 << 20;

/// A server, which ends with the test.
struct Server(Child);

impl Server {
    fn start(command: &mut Command) -> Self {
        Server(command.spawn().expect("the server starts"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // PostgreSQL would leave shared memory behind if it were killed.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Held by each test: two daemons with run directories of their own would not know of each other's change of the setting.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the test can run here, with this program.
fn can_run_with(name: &str, program: &Path) -> bool {
    if !program.exists() {
        skip(name, &format!("{} is missing", program.display()));
        return false;
    }
    can_run(name)
}

/// Selects programs by this and promises so much of `of`, under a policy that does nothing by itself.
fn promise(place: &Place, selected_by: &str, of: &str, least: &str) {
    place.write(&format!(
        "shared_memory = \"advise\"\n[defaults]\ninterval = \"250ms\"\ncpu_budget = \"100%\"\n[[select]]\nname = \"mine\"\n{selected_by}\npolicy = \"base\"\ncoverage = \"{least}\"\ncoverage_of = \"{of}\"\n"
    ));
}

/// Waits until the promise about a process is kept, and says what it found.
fn kept(place: &Place, pid: &str) -> Value {
    let mut command = mega();
    command.args(["coverage", pid, "--min", "90%", "--wait", "200s", "--json"]);
    let output: Output = run(command.env("MEGA_RUN_DIR", place.run_dir()));
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(output.status.code(), Some(0), "{report}");
    report["processes"][0].clone()
}

/// A copy of a program, so that no other process of the machine is selected.
fn own_copy(place: &Place, program: &Path) -> PathBuf {
    let copy = place.0.path().join("server");
    std::fs::copy(program, &copy).expect("copied");
    copy
}

fn by_executable(program: &Path) -> String {
    format!("executable = \"{}\"", program.display())
}

fn huge(found: &Value) -> u64 {
    live::number(found, "huge")
}

/// QEMU with a guest that has this memory; its CPU does not run.
fn guest(qemu: &Path, backend: &str) -> Command {
    let mut command = Command::new(qemu);
    command
        // A copy is not beside them.
        .env("QEMU_MODULE_DIR", "/usr/lib/x86_64-linux-gnu/qemu")
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-S"])
        .args(["-L", "/usr/share/qemu", "-L", "/usr/share/seabios"])
        // The buffer for translated code is to be smaller than the guest's memory.
        .args(["-accel", "tcg,tb-size=16"])
        .args(["-m", "128M", "-machine", "pc,memory-backend=ram"])
        .arg("-object")
        .arg(format!("{backend},id=ram,size=128M"));
    command
}

/// A daemon that keeps a promise to a copy of QEMU, which nobody else runs.
fn promised_qemu(qemu: &Path, of: &str, least: &str) -> (Place, PathBuf, Daemon) {
    let place = Place::new();
    let copy = own_copy(&place, qemu);
    promise(&place, &by_executable(&copy), of, least);
    let daemon = Daemon::start(&place);
    (place, copy, daemon)
}

/// QEMU with a guest that has this memory, all of it touched. Says what mega finds: `look` asks it.
fn with_guest(name: &str, backend: &str, of: &str, look: impl FnOnce(&Place, &str)) {
    let qemu = Path::new(QEMU);
    if !can_run_with(name, qemu) {
        return;
    }
    let _alone = alone();
    let (place, copy, daemon) = promised_qemu(qemu, of, "90%");
    let backend = format!("{backend},prealloc=on");
    let server = Server::start(&mut guest(&copy, &backend));
    live::until("the guest's memory", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid()));
        resident(&status.unwrap_or_default()) >= MEMORY
    });
    look(&place, &server.pid());
    drop(server);
    assert_eq!(daemon.stop(), Some(0));
}

fn is_covered(place: &Place, pid: &str) {
    let mut found = kept(place, pid);
    // Faults may have made it huge before the daemon looked; and what is resident in all says only about when all of the
    // guest's memory is there.
    live::until("the daemon to manage all of it", || {
        found = kept(place, pid);
        !found["managed"].is_null() && huge(&found) >= MEMORY / 10 * 9
    });
    assert_eq!(found["managed"]["selection"], "mine", "{found}");
}

/// `VmRSS` of `/proc/PID/status`, in bytes.
fn resident(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

#[test]
#[ignore = "takes many seconds: make test-long"]
fn a_guests_anonymous_memory_is_covered() {
    let name = "a_guests_anonymous_memory_is_covered";
    with_guest(name, "memory-backend-ram", "largest", is_covered);
}

#[test]
#[ignore = "takes many seconds: make test-long"]
fn a_guests_shared_memory_is_covered() {
    let name = "a_guests_shared_memory_is_covered";
    let mut file = tempfile::Builder::new();
    let file = file.prefix("mega-guest").tempfile_in("/dev/shm");
    let file = file.expect("a file");
    let backend = format!(
        "memory-backend-file,share=on,align=2M,mem-path={}",
        file.path().display()
    );
    with_guest(name, &backend, "/dev/shm/*", is_covered);
}

/// QEMU chooses where it maps a memfd, and no huge page fits there. What mega cannot keep it says, with the cause.
#[test]
#[ignore = "takes many seconds: make test-long"]
fn a_guests_memfd_is_told_to_be_misaligned_where_it_is() {
    let name = "a_guests_memfd_is_told_to_be_misaligned_where_it_is";
    let backend = "memory-backend-memfd,share=on";
    with_guest(name, backend, "/memfd:*", |place, pid| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its mappings");
        let memfd = maps.lines().find(|line| line.contains("/memfd:"));
        let start = memfd.and_then(|line| line.split('-').next()).expect("one");
        let start = u64::from_str_radix(start, 16).expect("an address");
        if start.is_multiple_of(live::HUGE_PAGE) {
            return is_covered(place, pid);
        }
        let mut command = mega();
        command.args(["coverage", pid, "--min", "90%", "--json"]);
        command.args(["--of", "/memfd:*"]);
        let output = run(command.env("MEGA_RUN_DIR", place.run_dir()));
        assert_eq!(output.status.code(), Some(1));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = &report["processes"][0];
        let misaligned = live::number(found, "misaligned");
        assert!(misaligned >= MEMORY / 10 * 9, "{report}");
    });
}

/// What controls a guest.
struct Qmp {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Qmp {
    /// Of a QEMU with `-qmp stdio`.
    fn of(server: &mut Server) -> Self {
        let output = server.0.stdout.take().expect("its output");
        let mut qmp = Qmp {
            input: server.0.stdin.take().expect("its input"),
            output: BufReader::new(output).lines(),
        };
        qmp.line();
        qmp.ask("qmp_capabilities", json!({}));
        qmp
    }

    fn line(&mut self) -> Value {
        let line = self.output.next().expect("a line").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    fn ask(&mut self, command: &str, arguments: Value) -> Value {
        let request = json!({"execute": command, "arguments": arguments});
        writeln!(self.input, "{request}").expect("it reads");
        loop {
            let answer = self.line();
            if answer.get("event").is_none() {
                let done = answer.get("return");
                return done.unwrap_or_else(|| panic!("{answer}")).clone();
            }
        }
    }

    fn migration_is(&mut self, status: &str) -> bool {
        let migration = self.ask("query-migrate", json!({}));
        assert_ne!(migration["status"], "failed", "{migration}");
        migration["status"] == status
    }
}

/// QEMU forbids huge pages while a guest's memory comes page by page (postcopy), so that all of it is in base pages then.
#[test]
#[ignore = "takes many seconds: make test-long"]
fn a_guest_that_was_migrated_is_covered() {
    let name = "a_guest_that_was_migrated_is_covered";
    const DATA: usize = 126 << 20;
    const ADDRESS: usize = 1 << 20;
    let qemu = Path::new(QEMU);
    if !can_run_with(name, qemu) {
        return;
    }
    let _alone = alone();
    // Less than the guest's memory is resident, and 90 % of all that is are asked for: 90 % of the guest's would not always do.
    let (place, copy, daemon) = promised_qemu(qemu, "largest", "95%");
    let file = |name: &str| place.0.path().join(name);
    let data: Vec<u8> = (1..=251).cycle().take(DATA).collect();
    std::fs::write(file("data"), &data).expect("written");
    let start = |qemu: &Path, more: [&str; 2]| {
        let mut command = guest(qemu, "memory-backend-ram");
        command.args(["-qmp", "stdio"]).args(more);
        Server::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
    };
    let loader = format!(
        "loader,file={},addr={ADDRESS},force-raw=on",
        file("data").display()
    );
    let mut source = start(qemu, ["-device", &loader]);
    let mut from = Qmp::of(&mut source);
    let mut server = start(&copy, ["-incoming", "defer"]);
    let mut to = Qmp::of(&mut server);

    let uri = json!({"uri": format!("unix:{}", file("migration").display())});
    let page_by_page = json!({"capabilities": [{"capability": "postcopy-ram", "state": true}]});
    for qmp in [&mut from, &mut to] {
        qmp.ask("migrate-set-capabilities", page_by_page.clone());
    }
    // So slow that nearly all of it is left.
    from.ask("migrate-set-parameters", json!({"max-bandwidth": 1 << 20}));
    to.ask("migrate-incoming", uri.clone());
    from.ask("migrate", uri);
    live::until("its begin", || from.migration_is("active"));
    from.ask("migrate-start-postcopy", json!({}));
    live::until("its end", || {
        from.migration_is("completed") && to.migration_is("completed")
    });

    is_covered(&place, &server.pid());
    let promoted = place.status(daemon.pid())["groups"][0]["actions"]["promoted"].clone();
    assert!(promoted.as_u64() >= Some(50), "{promoted}");
    let saved = file("saved");
    let all = json!({"val": ADDRESS, "size": DATA, "filename": saved});
    to.ask("pmemsave", all);
    assert!(std::fs::read(saved).expect("the memory") == data);
    drop((source, server));
    assert_eq!(daemon.stop(), Some(0));
}

/// A connection to Redis.
struct Redis(BufReader<UnixStream>);

impl Redis {
    fn connect(socket: &Path) -> Self {
        live::until("redis", || UnixStream::connect(socket).is_ok());
        let stream = UnixStream::connect(socket).expect("redis listens");
        Redis(BufReader::new(stream))
    }

    fn send(&mut self, words: &str) {
        let line = format!("{words}\r\n");
        let sent = self.0.get_mut().write_all(line.as_bytes());
        sent.expect("sent");
    }

    /// The first line of an answer; of a text, the text.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        assert!(!line.starts_with('-'), "{line}");
        if let Some(length) = line.strip_prefix('$') {
            let length: usize = length.trim().parse().expect("a length");
            let mut bytes = vec![0; length + 2];
            self.0.read_exact(&mut bytes).expect("a text");
            bytes.truncate(length);
            return String::from_utf8(bytes).expect("text");
        }
        line.trim().to_owned()
    }

    fn ask(&mut self, words: &str) -> String {
        self.send(words);
        self.answer()
    }

    fn is_saving(&mut self) -> bool {
        let info = self.ask("INFO persistence");
        info.contains("rdb_bgsave_in_progress:1")
    }
}

#[test]
#[ignore = "takes many seconds: make test-long"]
fn redis_is_covered_again_once_it_has_saved() {
    let name = "redis_is_covered_again_once_it_has_saved";
    let program = Path::new("/usr/bin/redis-server");
    if !can_run_with(name, program) {
        return;
    }
    const KEYS: usize = 20_000;
    let _alone = alone();
    let place = Place::new();
    let copy = own_copy(&place, program);
    promise(&place, &by_executable(&copy), "private", "90%");
    let daemon = Daemon::start(&place);
    let socket = place.0.path().join("redis.sock");
    let server = Server::start(
        Command::new(&copy)
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(place.0.path())
            .args(["--enable-debug-command", "yes"])
            // It takes 0.2 ms for each key, so that the save is seen.
            .args(["--rdb-key-save-delay", "200"])
            .stdout(Stdio::null()),
    );
    let mut redis = Redis::connect(&socket);
    assert_eq!(redis.ask(&format!("DEBUG POPULATE {KEYS} key 7000")), "+OK");
    let before = kept(&place, &server.pid());
    assert!(huge(&before) >= MEMORY / 10 * 9, "{before}");

    let value = "x".repeat(7000);
    redis.ask("BGSAVE");
    assert!(redis.is_saving());
    // While the child shares all of it, half of the memory is written.
    for key in 0..KEYS / 2 {
        redis.send(&format!("SET key:{key} {value}"));
        assert_eq!(redis.answer(), "+OK");
    }
    live::until("the save to end", || !redis.is_saving());
    let saved = redis.ask("INFO persistence");
    assert!(saved.contains("rdb_last_bgsave_status:ok"), "{saved}");
    let after = kept(&place, &server.pid());
    assert!(huge(&after) >= MEMORY / 10 * 9, "{after}");
    for key in [0, KEYS / 2 - 1] {
        assert_eq!(redis.ask(&format!("GET key:{key}")), value);
    }
    assert_eq!(redis.ask("DBSIZE"), format!(":{KEYS}"));
    drop(server);
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
#[ignore = "takes many seconds: make test-long"]
fn a_jvms_heap_is_covered() {
    let name = "a_jvms_heap_is_covered";
    if !can_run_with(name, Path::new("/usr/bin/java")) {
        return;
    }
    const HOLD: &str = "class Hold { public static void main(String[] all) throws Exception {
        byte[][] kept = new byte[1536][1 << 16];
        for (byte[] part : kept) java.util.Arrays.fill(part, (byte) 7);
        System.out.println(\"ready\");
        System.in.read();
        long sum = 0;
        for (byte[] part : kept) for (byte value : part) sum += value;
        System.out.println(sum);
    } }";
    let _alone = alone();
    let place = Place::new();
    let source = place.0.path().join("Hold.java");
    std::fs::write(&source, HOLD).expect("written");
    let mut command = mega();
    command.env("MEGA_RUN_DIR", place.run_dir());
    command.args(["run", "--policy", "base", "--coverage", "90%"]);
    command.args(["--coverage-of", "largest", "--interval", "250ms", "--"]);
    command.args(["java", "-Xms128m", "-Xmx128m", "-XX:+AlwaysPreTouch"]);
    let mut server = Server::start(
        command
            .arg(&source)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut lines = BufReader::new(server.0.stdout.take().expect("its output")).lines();
    let mut line = || lines.next().expect("a line").expect("a line");
    assert_eq!(line(), "ready");
    let group = || place.status(server.0.id())["groups"][0].clone();
    live::until("the heap", || {
        let group = group();
        let seen = group["totals"]["huge"].as_u64() >= Some(MEMORY / 10 * 8);
        seen && group["short_of_coverage"] == 0
    });
    let mut input = server.0.stdin.take().expect("its input");
    input.write_all(b"\n").expect("it reads");
    assert_eq!(line(), (96 * (7 << 20)).to_string());
    assert_eq!(server.0.wait().expect("it ends").code(), Some(0));
}

/// The newest PostgreSQL of this machine.
fn postgresql() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter();
    let folders = versions.flatten().flatten().map(|entry| entry.path());
    folders
        .max()
        .unwrap_or_else(|| PathBuf::from("/usr/lib/postgresql"))
        .join("bin")
}

/// A command as the user `postgres`: the server refuses to run as root.
fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    command.arg(program).current_dir("/");
    command
}

#[test]
#[ignore = "takes many seconds: make test-long"]
fn postgresqls_shared_buffers_are_covered_and_the_setting_is_put_back() {
    let name = "postgresqls_shared_buffers_are_covered_and_the_setting_is_put_back";
    let programs = postgresql();
    if !can_run_with(name, &programs.join("postgres")) {
        return;
    }
    let setting = || std::fs::read_to_string(SHARED_MEMORY).expect("a setting");
    // Where another user's server can read it.
    let mut folder = tempfile::Builder::new();
    let folder = folder.prefix("mega-postgres").tempdir().expect("a folder");
    run(Command::new("chown").arg("postgres").arg(folder.path()));
    let _alone = alone();
    let before = setting();
    let place = Place::new();
    let server = programs.join("postgres");
    promise(
        &place,
        &format!(
            "user = \"postgres\"\nmin_resident = \"64MiB\"\n{}",
            by_executable(&server)
        ),
        "shared",
        "90%",
    );
    let daemon = Daemon::start(&place);
    assert!(!setting().contains("[never]"), "{}", setting());
    let data = folder.path().join("data");
    let made = run(as_postgres(&programs.join("initdb"))
        .arg("--no-sync")
        .arg("-D")
        .arg(&data));
    assert!(made.status.success(), "{}", text(&made.stderr));
    let mut start = as_postgres(&server);
    start.arg("-D").arg(&data).arg("-k").arg(folder.path());
    start.args(["-c", "shared_buffers=128MB", "-c", "huge_pages=off"]);
    start.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
    let server = Server::start(start.stdout(Stdio::null()).stderr(Stdio::null()));
    let socket = folder.path().join(".s.PGSQL.5432");
    live::until("the server", || UnixStream::connect(&socket).is_ok());

    let mut client = as_postgres(&programs.join("psql"));
    client
        .arg("-h")
        .arg(folder.path())
        .args(["-AtqX", "postgres"]);
    let mut client = Server::start(client.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut input = client.0.stdin.take().expect("its input");
    let mut lines = BufReader::new(client.0.stdout.take().expect("its output")).lines();
    let mut line = || lines.next().expect("a line").expect("a line");
    // A statement of another kind would keep to a small ring of buffers.
    let fill = "create table kept (number int, text text);
        insert into kept select number, repeat('x', 1000) from generate_series(1, 105000) number;
        select pg_backend_pid();\n";
    input.write_all(fill.as_bytes()).expect("it reads");
    let backend = line();
    let found = kept(&place, &backend);
    assert!(huge(&found) >= MEMORY / 10 * 8, "{found}");
    assert_eq!(found["managed"]["coverage_of"][0], "shared", "{found}");
    let sum = b"select count(*), sum(length(text)) from kept;\n";
    input.write_all(sum).expect("it reads");
    assert_eq!(line(), "105000|105000000");
    drop((input, client));
    drop(server);
    assert_eq!(daemon.stop(), Some(0));
    assert_eq!(setting(), before);
}
