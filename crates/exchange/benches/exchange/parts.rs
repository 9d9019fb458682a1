//! What an exchange by `UFFDIO_MOVE` is made of, each part by itself: it shows what the least is that any order of moves takes.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::guest::{BLOCK, Guest, Kind, PAGE};

// From the kernel's uapi/linux/userfaultfd.h.
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_MOVE: libc::c_ulong = 0xc028_aa05;
const UFFD_FEATURE_MOVE: u64 = 1 << 16;
const REGISTER_MODE_WP: u64 = 2;
const MOVE_MODE_DONTWAKE: u64 = 1;
const MOVE_MODE_ALLOW_SRC_HOLES: u64 = 2;
/// No mode of `UFFDIO_MOVE`: the call ends at once.
const NO_MODE: u64 = 1 << 63;

/// Each part's name and its time for all pairs.
pub type Times = Vec<(&'static str, Duration)>;

/// Measures the parts for so many pairs. `beside`: while another thread of the process runs, so that each flush of the TLB has
/// to reach its CPU as well.
pub fn measure(pairs: usize, beside: bool) -> Times {
    let parts = Parts::new(pairs);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        if beside {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let times = parts.measure();
        over.store(true, Relaxed);
        times
    })
}

/// As many blocks that are sources, that are targets, and twice as many that nothing is in.
struct Parts {
    memory: Guest,
    pairs: usize,
    userfaultfd: OwnedFd,
}

impl Parts {
    fn new(pairs: usize) -> Self {
        let memory = Guest::new(4 * pairs, Kind::Huge);
        // SAFETY: the call takes flags only.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | 1) };
        // SAFETY: it is new, and nobody else's.
        let userfaultfd = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) };
        let parts = Parts {
            memory,
            pairs,
            userfaultfd,
        };
        let (start, bytes) = (parts.memory.start, parts.memory.blocks * BLOCK);
        assert!(parts.call(UFFDIO_API, &mut [0xaa, UFFD_FEATURE_MOVE, 0]));
        let range = &mut [start as u64, bytes as u64, REGISTER_MODE_WP, 0];
        assert!(parts.call(UFFDIO_REGISTER, range));
        for block in 0..2 * pairs {
            parts.write(block);
        }
        parts
    }

    /// The arguments are as long as the structure that the request reads and writes.
    fn call(&self, request: libc::c_ulong, arguments: &mut [u64]) -> bool {
        // SAFETY: so it is said above.
        let result = unsafe {
            libc::ioctl(
                self.userfaultfd.as_raw_fd(),
                request,
                arguments.as_mut_ptr(),
            )
        };
        result == 0
    }

    /// Moves the first bytes of a block.
    fn move_bytes(&self, bytes: usize, from: usize, to: usize, mode: u64) -> bool {
        let [from, to] = [from, to].map(|block| self.memory.address(block) as u64);
        self.call(UFFDIO_MOVE, &mut [to, from, bytes as u64, mode, 0])
    }

    /// The first word of a block, as a guest writes its token.
    fn write(&self, block: usize) {
        self.memory
            .word(self.memory.address(block))
            .store(1, Relaxed);
    }

    fn discard(&self, block: usize) {
        let address = self.memory.address(block);
        self.memory.advise(address, BLOCK, libc::MADV_DONTNEED);
    }

    fn timed(&self, part: impl Fn(usize)) -> Duration {
        let start = Instant::now();
        (0..self.pairs).for_each(part);
        start.elapsed()
    }

    /// Once through all of them. The targets are given back first, so that the sources can be moved there.
    fn measure(&self) -> Times {
        let pairs = self.pairs;
        let nothing = |block| assert!(!self.move_bytes(BLOCK, block, pairs + block, NO_MODE));
        let hole = |block| {
            let (from, to) = (2 * pairs + block, 3 * pairs + block);
            let mode = MOVE_MODE_DONTWAKE | MOVE_MODE_ALLOW_SRC_HOLES;
            assert!(self.move_bytes(PAGE, from, to, mode));
        };
        let page = |block| {
            assert!(self.move_bytes(BLOCK, block, pairs + block, MOVE_MODE_DONTWAKE));
        };
        vec![
            ("nothing", self.timed(nothing)),
            ("give_back", self.timed(|block| self.discard(pairs + block))),
            ("move_hole", self.timed(hole)),
            ("move", self.timed(page)),
            ("token", self.timed(|block| self.write(block))),
        ]
    }
}
