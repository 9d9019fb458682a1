//! Guests of a fake kernel, whose VMM is this process: they ask as a guest does, through the page, and see what came of it.

use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use mega_core::HUGE_PAGE_SIZE;
use mega_exchange::daemon::{Connection, Request};
use mega_exchange::state::{DONE, PENDING};
use mega_exchange::{PAGE_BYTES, Pair, Server};
use mega_linux::kernel::fake::{FakeKernel, FakeModule, FakeProcess};
use proptest::prelude::*;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::*;

/// Where the VMM maps its guest's memory, and where the guest sees it.
const ADDRESS: u64 = 64 << 30;
const GUEST: u64 = 4 << 30;
const BLOCKS: u64 = 6;

/// A daemon on a fake kernel that has this process, with a guest whose blocks are known by how much of them is zero-filled.
struct Machine {
    kernel: FakeKernel,
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let kernel = FakeKernel::new();
        let mut vmm = FakeProcess::with_regions(1, ADDRESS, BLOCKS);
        for (block, region) in vmm.regions.values_mut().enumerate() {
            region.huge = true;
            region.zero_filled = u16::try_from(block).expect("a few");
        }
        kernel.add(std::process::id(), vmm);
        kernel.state().module = Some(FakeModule::with_giant_pages());
        // Where the tests are not root's.
        for task in std::fs::read_dir("/proc/self/task")
            .expect("tasks")
            .flatten()
        {
            let status = std::path::PathBuf::from(format!("/proc/{}/task", std::process::id()))
                .join(task.file_name())
                .join("status");
            let says = b"NoNewPrivs:\t1\n".to_vec();
            kernel.state().files.insert(status, says);
        }
        let folder = tempfile::tempdir().expect("a folder");
        Machine { kernel, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("exchange.sock")
    }

    fn start(&self) -> Result<Guests, Failure> {
        let settings = Exchange {
            socket: self.path(),
            group: None,
        };
        Guests::start(Arc::new(self.kernel.clone()), &settings)
    }

    /// What lies at each block now.
    fn blocks(&self) -> Vec<u16> {
        let state = self.kernel.state();
        let regions = &state.processes[&std::process::id()].regions;
        regions.values().map(|region| region.zero_filled).collect()
    }

    fn set_busy(&self, block: u64) {
        let mut state = self.kernel.state();
        let vmm = state.processes.get_mut(&std::process::id()).expect("it");
        let region = vmm.regions.get_mut(&(ADDRESS + block * HUGE_PAGE_SIZE));
        region.expect("a block").busy = true;
    }

    fn connect(&self, server: &Server) -> Result<Connection, String> {
        Connection::ask(&self.path(), server, &whole()).map_err(|error| error.to_string())
    }
}

/// All of the guest's memory.
fn whole() -> Request {
    Request {
        ranges: vec![(GUEST, BLOCKS * HUGE_PAGE_SIZE, ADDRESS)],
    }
}

/// Writes a request as a guest does: pairs of blocks, by their numbers.
fn write_request(server: &Server, pairs: &[(u64, u64)]) {
    let pair = |&(source, target)| Pair {
        source: GUEST + source * HUGE_PAGE_SIZE,
        target: GUEST + target * HUGE_PAGE_SIZE,
    };
    let pairs: Vec<Pair> = pairs.iter().map(pair).collect();
    server.page().request(&pairs);
}

fn ring(server: &Server) {
    rustix::io::write(server.doorbell(), &1_u64.to_ne_bytes()).expect("it rings");
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "not {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Asks, and waits for the results.
fn exchange(server: &Server, pairs: &[(u64, u64)]) -> Vec<i32> {
    write_request(server, pairs);
    ring(server);
    let page = server.page();
    wait_until("answered", || page.header.state.load(SeqCst) == DONE);
    page.pairs[..pairs.len()]
        .iter()
        .map(|pair| pair.result.load(SeqCst))
        .collect()
}

fn is_offered(server: &Server) -> bool {
    server.page().header.features.load(SeqCst) & 1 != 0
}

fn errno(error: Errno) -> i32 {
    -error.raw_os_error()
}

#[test]
fn a_guest_is_served_within_its_memory_until_its_vmm_ends_it() {
    let machine = Machine::new();
    let _guests = machine.start().unwrap();
    machine.set_busy(3);
    let server = Server::new().unwrap();
    let connection = machine.connect(&server).unwrap();
    let outside = BLOCKS;
    let results = exchange(&server, &[(0, 1), (2, 3), (4, outside), (1, 5)]);
    let refused = [Errno::BUSY, Errno::PERM, Errno::INVAL].map(errno);
    assert_eq!(results, [&[0], refused.as_slice()].concat());
    assert_eq!(machine.blocks(), [1, 0, 2, 3, 4, 5]);
    assert_eq!(exchange(&server, &[(5, 0)]), [0], "it goes on");
    assert_eq!(machine.blocks(), [5, 0, 2, 3, 4, 1]);

    connection.end();
    assert!(!is_offered(&server), "the guest copies from now on");
    write_request(&server, &[(0, 1)]);
    ring(&server);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(machine.blocks(), [5, 0, 2, 3, 4, 1]);

    // What the guest asked for meanwhile is carried out when it is served again.
    let _connection = machine.connect(&server).unwrap();
    let page = server.page();
    wait_until("answered", || page.header.state.load(SeqCst) == DONE);
    assert_eq!(machine.blocks(), [0, 5, 2, 3, 4, 1]);
}

#[test]
fn two_guests_are_served_and_told_when_the_daemon_ends() {
    let machine = Machine::new();
    let guests = machine.start().unwrap();
    let servers = [Server::new().unwrap(), Server::new().unwrap()];
    let connections = servers
        .each_ref()
        .map(|server| machine.connect(server).unwrap());
    assert_eq!(exchange(&servers[0], &[(0, 1)]), [0]);
    assert_eq!(exchange(&servers[1], &[(0, 1)]), [0]);
    drop(guests);
    for (server, connection) in servers.iter().zip(&connections) {
        assert!(!is_offered(server));
        let mut wait = [PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::IN)];
        assert_eq!(poll(&mut wait, None), Ok(1), "the VMM sees it");
    }
    assert!(!machine.path().exists());
}

/// Connects until a guest is refused. Returns the connections, and why the last was refused.
fn connect_as_often_as_allowed(machine: &Machine, server: &Server) -> (Vec<Connection>, String) {
    let mut connections = Vec::new();
    loop {
        match machine.connect(server) {
            Ok(connection) => connections.push(connection),
            Err(reason) => return (connections, reason),
        }
        assert!(connections.len() <= MOST, "no end of it");
    }
}

#[test]
fn a_user_leaves_places_to_others() {
    let machine = Machine::new();
    let _guests = machine.start().unwrap();
    let server = Server::new().unwrap();
    let (mut own, reason) = connect_as_often_as_allowed(&machine, &server);
    assert!(reason.contains("as many as one user may have"), "{reason}");
    assert_eq!(own.len(), MOST_OF_A_USER);

    // Only root can be another user.
    if rustix::process::geteuid().is_root() {
        let open = |path: &Path| {
            let mode = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(path, mode).unwrap();
        };
        open(machine.folder.path());
        open(&machine.path());
        let others = |user| {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    let user = Uid::from_raw(user);
                    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
                    connect_as_often_as_allowed(&machine, &server)
                });
                other.join().unwrap()
            })
        };
        let (rest, reason) = others(12345);
        assert!(reason.contains("guests are served already"), "{reason}");
        assert_eq!(rest.len(), MOST - MOST_OF_A_USER);
    }

    // Who ends one may have another, a moment later.
    own.pop().unwrap().end();
    wait_until("served", || machine.connect(&server).is_ok());
}

#[test]
fn who_asks_nothing_loses_its_place() {
    let machine = Machine::new();
    let _guests = machine.start().unwrap();
    let silent = socket().unwrap();
    let address = SocketAddrUnix::new(machine.path()).unwrap();
    rustix::net::connect(&silent, &address).unwrap();
    let mut told = [0; 300];
    let flags = rustix::net::RecvFlags::empty();
    let (bytes, _) = rustix::net::recv(&silent, &mut told[..], flags).unwrap();
    let Ok(Answer::Refused(reason)) = Answer::parse(&told[..bytes]) else {
        panic!("it was not refused");
    };
    assert!(reason.contains("nothing was asked"), "{reason}");
    assert_eq!(
        rustix::net::recv(&silent, &mut told[..], flags),
        Ok((0, 0)),
        "hung up"
    );
}

#[test]
fn what_is_wrong_is_told() {
    let machine = Machine::new();
    let _guests = machine.start().unwrap();
    let server = Server::new().unwrap();
    let ask = |ranges| {
        let request = Request { ranges };
        let told = Connection::ask(&machine.path(), &server, &request);
        told.map(drop).unwrap_err().to_string()
    };
    let misaligned = ask(vec![(GUEST, HUGE_PAGE_SIZE, ADDRESS + 4096)]);
    assert!(misaligned.contains("differ modulo 2 MiB"), "{misaligned}");
    let twice = ask(vec![(GUEST, HUGE_PAGE_SIZE, ADDRESS); 2]);
    assert!(twice.contains("share memory"), "{twice}");
    let none = ask(Vec::new());
    assert!(none.contains("has no ranges"), "{none}");
    assert!(machine.start().is_err(), "another daemon listens there");
}

#[test]
fn a_page_that_could_be_taken_away_is_refused() {
    let memfd = |seals: bool, bytes: u64| {
        let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
        let memfd = rustix::fs::memfd_create("page", flags).unwrap();
        rustix::fs::ftruncate(&memfd, bytes).unwrap();
        if seals {
            rustix::fs::fcntl_add_seals(&memfd, rustix::fs::SealFlags::SHRINK).unwrap();
        }
        memfd
    };
    let doorbell = || eventfd(0, EventfdFlags::empty()).unwrap();
    let adopt = |page, doorbell| match Server::adopt(page, doorbell) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    let bytes = PAGE_BYTES as u64;
    assert_eq!(adopt(memfd(true, bytes), doorbell()), "");
    assert!(adopt(memfd(false, bytes), doorbell()).contains("not sealed"));
    assert!(adopt(memfd(true, bytes - 1), doorbell()).contains("too small"));
    assert!(adopt(doorbell(), doorbell()).contains("no memfd"));
    assert!(adopt(memfd(true, bytes), memfd(true, bytes)).contains("no eventfd"));
}

#[test]
fn a_kernel_that_cannot_exchange_serves_nobody() {
    let machine = Machine::new();
    let has_none = |module: &mut FakeModule| {
        module.info.features &= !interface::FEATURE_EXCHANGE_PAIRS;
    };
    machine.kernel.state().module.as_mut().map(has_none);
    assert!(matches!(machine.start(), Err(Failure::Missing(_))));
    machine.kernel.state().module = None;
    assert!(matches!(machine.start(), Err(Failure::Missing(_))));
    assert!(!machine.path().exists());
}

#[test]
fn the_socket_is_private_or_a_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exchange.sock");
    let mode = |group| {
        let listener = listen(&path, group).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        drop(listener);
        mode & 0o777
    };
    assert_eq!(mode(None), 0o600);
    // What a killed daemon left is replaced.
    assert!(path.exists());
    let own = rustix::process::getegid().as_raw();
    assert_eq!(mode(Some(own)), 0o660);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "data").unwrap();
    assert!(listen(&path, None).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"data");
}

/// Sends any packet with some descriptors, and hangs up.
fn send_anything(path: &Path, bytes: &[u8], descriptors: usize) {
    let socket = socket().unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    let (one, _) = UnixStream::pair().unwrap();
    let all = [one.as_fd(); 4];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if descriptors > 0 {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&all[..descriptors])));
    }
    let parts = [std::io::IoSlice::new(bytes)];
    // It may hang up before.
    let _ = sendmsg(&socket, &parts, &mut ancillary, SendFlags::NOSIGNAL);
}

/// Packets that are nothing, and requests that somebody spoilt.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let spoilt = (any::<prop::sample::Index>(), any::<u8>(), any::<u64>()).prop_map(
        |(place, value, address)| {
            let mut request = whole();
            request.ranges.push((address, !address, address));
            let mut bytes = request.to_bytes();
            let place = place.index(bytes.len());
            bytes[place] = value;
            bytes
        },
    );
    prop_oneof![prop::collection::vec(any::<u8>(), 0..2000), spoilt]
}

#[test]
fn whatever_is_sent_the_next_guest_is_served() {
    let machine = Machine::new();
    let _guests = machine.start().unwrap();
    let server = Server::new().unwrap();
    let _connection = machine.connect(&server).unwrap();
    proptest!(ProptestConfig::with_cases(64), |(bytes in packets(), descriptors in 0_usize..5)| {
        send_anything(&machine.path(), &bytes, descriptors);
    });
    assert_eq!(
        exchange(&server, &[(0, 1)]),
        [0],
        "it was served all the time"
    );
    let another = Server::new().unwrap();
    // Those that were sent nothing are waited for.
    let connected = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        machine.connect(&another).ok()
    });
    assert!(connected.is_some());
    assert_eq!(exchange(&another, &[(2, 3)]), [0]);
    assert_eq!(machine.blocks(), [1, 0, 3, 2, 4, 5]);
}

#[test]
fn a_page_that_a_guest_fills_with_anything_harms_only_the_guest() {
    let machine = Machine::new();
    let _guests = machine.start().unwrap();
    let server = Server::new().unwrap();
    let _connection = machine.connect(&server).unwrap();
    let page = server.page();
    proptest!(ProptestConfig::with_cases(64), |(
        pairs in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u32>()), 1..40),
        count in any::<u32>(),
    )| {
        for (shared, (source, target, state)) in page.pairs.iter().zip(pairs) {
            shared.source.store(source, SeqCst);
            shared.target.store(target, SeqCst);
            shared.state.store(state % 3, SeqCst);
        }
        page.header.pairs.store(count, SeqCst);
        page.header.state.store(PENDING, SeqCst);
        ring(&server);
        wait_until("answered", || page.header.state.load(SeqCst) == DONE);
    });
    let mut blocks = machine.blocks();
    blocks.sort_unstable();
    assert_eq!(blocks, [0, 1, 2, 3, 4, 5]);
}
