//! The memory that everybody else has in use on the simulated kernel.

use mega_core::{BASE_PAGE_SIZE, HUGE_PAGE_SIZE, Observation, ProcessObservation};
use mega_sim::address_space::Advice;
use mega_sim::kernel::Pid;
use mega_sim::physical::Layout;
use mega_sim::{Kernel, Settings};

use super::super::terms::Terms;
use super::CannotSimulate;

/// Memory comes in such pieces.
const PIECE: u64 = 4 << 20;

/// Pages in use beside a free page, at most: more would make no other pieces of the free memory.
const IN_USE_PER_HOLE: u64 = 3;

/// A kernel with the memory of a recording's machine on some terms, in which everybody but its programs has in use what they had at its
/// first look. Returns the process that has it, too.
///
/// # Errors
/// Where there can be no such memory.
pub fn kernel_as_recorded(
    first: &Observation,
    terms: &Terms,
    settings: Settings,
) -> Result<(Kernel, Pid), CannotSimulate> {
    let memory = terms.memory(&first.memory, std::iter::empty());
    if memory.total < PIECE {
        return Err(CannotSimulate::NoMemory);
    }
    let layout = Layout::one_node(memory.total / PIECE * PIECE)?;
    let mut kernel = Kernel::new(&layout, settings, terms.costs);
    let recorded: u64 = first.processes.iter().map(resident).sum();
    let in_pieces = memory.free.saturating_sub(memory.contiguity);
    // The programs' own memory will fill small pieces first, as new memory does.
    let others = fill(
        &mut kernel,
        memory.total.saturating_sub(memory.free + recorded),
        in_pieces + recorded,
    );
    Ok((kernel, others))
}

fn resident(seen: &ProcessObservation) -> u64 {
    let regions = seen.regions.iter();
    regions.map(|region| region.resident_bytes()).sum()
}

/// Has a process use so many bytes, so that as many as `in_pieces` are free between its pages, in pieces too small for a huge
/// page; fewer where it has too few pages to lie between. All of it can be moved; nobody promotes what lies between holes, which
/// would fill these.
fn fill(kernel: &mut Kernel, used: u64, in_pieces: u64) -> Pid {
    let pid = kernel.spawn(0);
    let holes = in_pieces / BASE_PAGE_SIZE;
    let scattered = (used / BASE_PAGE_SIZE).min(holes.saturating_mul(IN_USE_PER_HOLE));
    let rest = used - scattered * BASE_PAGE_SIZE;
    let whole = rest / HUGE_PAGE_SIZE * HUGE_PAGE_SIZE;
    touch(kernel, pid, whole, Advice::Huge, HUGE_PAGE_SIZE);
    touch(kernel, pid, rest - whole, Advice::NoHuge, BASE_PAGE_SIZE);
    let all = scattered + holes;
    let start = touch(
        kernel,
        pid,
        all * BASE_PAGE_SIZE,
        Advice::NoHuge,
        BASE_PAGE_SIZE,
    );
    // Those stay whose number makes the next whole part of what stays.
    for page in 0..all {
        let stays = |page: u64| u128::from(page) * u128::from(scattered) / u128::from(all);
        if stays(page) == stays(page + 1) {
            kernel.discard(pid, start + page * BASE_PAGE_SIZE, BASE_PAGE_SIZE);
        }
    }
    pid
}

/// Maps memory and touches it all, as far as there is any. Returns where it begins.
fn touch(kernel: &mut Kernel, pid: Pid, bytes: u64, advice: Advice, step: u64) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let start = kernel.map(pid, bytes, advice);
    let mut address = start;
    while address < start + bytes && kernel.touch(pid, address).is_ok() {
        address += step;
    }
    start
}
