//! C programs that are VMMs: they link the shared library and use the header.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fs::File;
use std::mem;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use mega_exchange::daemon::{Answer, Received, answer, receive};
use mega_exchange::state::{PENDING, RUNNING};
use mega_exchange::{BLOCK_BYTES, Backend, Blocks, Memory, Refusal, Server};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

#[test]
fn a_c_program_exchanges_and_serves() {
    let program = compile("vmm");
    let output = Command::new(&program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "the C interface cannot be tested: {said}"
        );
        eprintln!("the C interface is skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{:?}: {said}", output.status);
}

#[test]
fn a_c_program_has_a_daemon_serve_its_guest() {
    let program = compile("vmm_of_daemon");
    let name = format!("mega-exchange-c-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let listener = listen(&path);
    let daemon = thread::spawn(move || {
        let refusal = Answer::Refused("the kernel has no EXCHANGE".into());
        answer(accept(&listener), &refusal).unwrap();
        serve(&accept(&listener));
        die_in_a_request(&accept(&listener));
    });
    let output = Command::new(&program).arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {said}", output.status);
    daemon.join().unwrap();
}

/// Compiles `tests/NAME.c`, and says where the program is.
fn compile(name: &str) -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The library lies beside the folder of this test.
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let library = [deps, deps.parent().unwrap()]
        .into_iter()
        .map(|folder| folder.join("libmega_exchange.so"))
        .find(|path| path.exists());
    let library = library.expect("cargo builds libmega_exchange.so for this test");
    let program = deps.join(format!("mega-exchange-c-test-{name}"));
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(manifest.join(format!("tests/{name}.c")))
        .arg("-I")
        .arg(manifest.join("include"))
        .arg("-I")
        .arg(manifest.join("../../kernel/module"))
        .arg(&library)
        .arg(format!(
            "-Wl,-rpath,{}",
            library.parent().unwrap().display()
        ))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// A socket as the daemon's.
fn listen(path: &Path) -> OwnedFd {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&socket, 1).unwrap();
    socket
}

fn accept(listener: &OwnedFd) -> OwnedFd {
    rustix::net::accept_with(listener, SocketFlags::CLOEXEC).unwrap()
}

/// The memory of the process that connected. What the daemon has the kernel exchange is copied here.
struct OfProcess {
    mem: File,
    memory: Memory,
}

impl Backend for OfProcess {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn at_once(&self) -> usize {
        1
    }

    fn carry_out(&self, pairs: &[Blocks]) -> Vec<Result<(), Refusal>> {
        let read = |address| {
            let mut block = vec![0; usize::try_from(BLOCK_BYTES).unwrap()];
            self.mem.read_exact_at(&mut block, address).unwrap();
            block
        };
        for blocks in pairs {
            let (source, target) = blocks.addresses();
            let (source, target) = (source as u64, target as u64);
            let (first, second) = (read(source), read(target));
            self.mem.write_all_at(&second, source).unwrap();
            self.mem.write_all_at(&first, target).unwrap();
        }
        vec![Ok(()); pairs.len()]
    }
}

/// Takes a request, as the daemon does.
fn begin(socket: &OwnedFd) -> (OfProcess, Server) {
    let Received {
        request,
        page,
        doorbell,
    } = receive(socket).unwrap().unwrap();
    let pid = socket_peercred(socket).unwrap().pid;
    let mem = File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{}/mem", pid.as_raw_nonzero()))
        .unwrap();
    let ranges = request.ranges.into_iter();
    let memory = Memory::elsewhere(
        ranges.map(|(guest, bytes, host)| (guest, bytes, host.try_into().unwrap())),
    );
    let guest = OfProcess {
        mem,
        memory: memory.unwrap(),
    };
    let server = Server::adopt(page, doorbell).unwrap();
    answer(socket, &Answer::Serving).unwrap();
    (guest, server)
}

/// Serves until the VMM ends it.
fn serve(socket: &OwnedFd) {
    let (guest, server) = begin(socket);
    loop {
        let mut wait = [
            PollFd::new(socket, PollFlags::IN | PollFlags::RDHUP),
            PollFd::from_borrowed_fd(server.doorbell(), PollFlags::IN),
        ];
        poll(&mut wait, None).unwrap();
        if !wait[0].revents().is_empty() {
            return;
        }
        server.answer();
        server.serve(&guest);
    }
}

/// As a daemon that is killed: it leaves request and page as they are.
fn die_in_a_request(socket: &OwnedFd) {
    let (_, server) = begin(socket);
    let page = server.page();
    while page.header.state.load(SeqCst) != PENDING {
        thread::sleep(Duration::from_millis(1));
    }
    page.header.state.store(RUNNING, SeqCst);
    page.pairs[0].state.store(RUNNING, SeqCst);
    mem::forget(server);
}
