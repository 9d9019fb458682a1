//! Measures what touches cost on this machine, and keeps it: [`mega_core::worth::Calibration`].
//!
//! It takes some 45 seconds, once on each machine and kernel, on one CPU at the lowest priority. It touches memory of its own
//! on base pages and on huge pages in turns, so what the machine does meanwhile meets both alike. It changes no setting.
//! Both lie in the same stretches of physical memory (`layout.rs`).

mod layout;
mod promotion;
mod statistics;
mod store;
mod touching;
mod turns;
mod validity;

use std::time::{SystemTime, UNIX_EPOCH};

use mega_core::HUGE_PAGE_SIZE;
use mega_core::worth::{Calibration, Point};

use crate::Error;
use crate::kernel::Kernel;
use crate::observe::{cgroups, memory};
use layout::Layouts;

pub use store::{Place, Stored};
pub use validity::validity;

/// The working sets that are measured where memory allows, in bytes: from within the TLB's reach to far beyond it. The largest are
/// closer together: there the page tables leave the caches, and the largest one finds no room where free blocks are few. Beyond 4 GiB a
/// touch saves no more (8 GiB on an AMD EPYC 9005, Linux 6.18, under a hypervisor).
pub const WORKING_SETS: [u64; 8] = [
    2 << 20,
    8 << 20,
    32 << 20,
    128 << 20,
    512 << 20,
    1 << 30,
    2 << 30,
    4 << 30,
];
/// The smallest working set whose frames matter, in bytes: those of a smaller one are within the reach of the TLB and of its like for a
/// hypervisor's page tables.
const SMALLEST_APART: u64 = 32 << 20;
/// What stays free for others meanwhile, in bytes, and as much as is taken.
const KEPT_FREE: u64 = 2 << 30;
/// One part in this many of a cgroup's limit stays free.
const KEPT_FREE_OF_CGROUP: u64 = 4;

/// Hears how far the calibration is, from 0 to 1.
pub type Progress<'a> = dyn FnMut(f64) + Send + 'a;

/// Where a calibration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was kept.
    Kept,
    /// It was measured now, for this reason, and kept, or not kept for that reason.
    Measured {
        /// Why it was not at hand.
        why: String,
        /// Why it could not be kept; `None` where it was.
        not_kept: Option<String>,
    },
}

/// The calibration of this machine: the one that was kept, or a new one where there is none that is valid.
///
/// # Errors
/// As [`measure`].
pub fn load_or_measure(
    kernel: &dyn Kernel,
    progress: &mut Progress<'_>,
) -> Result<(Calibration, Origin), Error> {
    match load(kernel)? {
        Stored::Valid(calibration) => Ok((*calibration, Origin::Kept)),
        Stored::Not(why) => measure_and_keep(kernel, why, progress),
    }
}

/// What was kept of this machine's calibration. Measures nothing.
///
/// # Errors
/// As [`validity`].
pub fn load(kernel: &dyn Kernel) -> Result<Stored, Error> {
    let now = validity(kernel)?;
    Ok(Place::of_this_user().map_or_else(Stored::Not, |place| place.load(&now)))
}

/// The calibration of this machine that was kept; `None` where there is none that is valid, for whatever reason: who asks goes on
/// without. Measures nothing.
#[must_use]
pub fn kept(kernel: &dyn Kernel) -> Option<Calibration> {
    match load(kernel) {
        Ok(Stored::Valid(calibration)) => Some(*calibration),
        Ok(Stored::Not(_)) | Err(_) => None,
    }
}

/// Measures anew, for the reason given, and keeps the result. That it cannot be kept is no failure.
///
/// # Errors
/// As [`measure`].
pub fn measure_and_keep(
    kernel: &dyn Kernel,
    why: String,
    progress: &mut Progress<'_>,
) -> Result<(Calibration, Origin), Error> {
    let calibration = measure(kernel, &WORKING_SETS, progress)?;
    let kept = Place::of_this_user()
        .and_then(|place| place.store(&calibration).map_err(|error| error.to_string()));
    let not_kept = kept.err();
    Ok((calibration, Origin::Measured { why, not_kept }))
}

/// Measures those of the working sets, in ascending order, that free memory and free blocks allow.
///
/// # Errors
/// [`Error::Missing`] where not even the smallest one fits, or nothing can be promoted; [`Error::Io`] where the kernel
/// refuses memory.
pub fn measure(
    kernel: &dyn Kernel,
    working_sets: &[u64],
    progress: &mut Progress<'_>,
) -> Result<Calibration, Error> {
    let valid_for = validity(kernel)?;
    // The priority is a thread's: this one ends with it.
    let measured = std::thread::scope(|scope| {
        let measuring = scope.spawn(|| measure_here(kernel, working_sets, progress));
        measuring.join()
    });
    let measured = measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Ok(Calibration {
        valid_for,
        made: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        points: measured.points,
        apart: measured.apart,
        giant: None,
        promotion: measured.costs.promotion,
        copy: measured.costs.copy,
    })
}

struct Measured {
    points: Vec<Point>,
    apart: Option<Vec<Point>>,
    costs: promotion::Costs,
}

fn measure_here(
    kernel: &dyn Kernel,
    working_sets: &[u64],
    progress: &mut Progress<'_>,
) -> Result<Measured, Error> {
    // The lowest priority there is is polite, not needed: that it is refused changes nothing.
    let _ = rustix::process::setpriority_process(None, 19);
    let costs = promotion::measure(kernel)?;
    let sizes = fitting(kernel, working_sets)?;
    let mut layouts = Layouts::map(sizes.last().copied().unwrap_or(HUGE_PAGE_SIZE))?;
    let steps = (sizes.len() + apart_of(&sizes).len()) as f64;
    let mut points = Vec::new();
    let mut done = Vec::new();
    for size in sizes {
        if !layouts.grow(kernel, size)? {
            break;
        }
        points.extend(turns::take(layouts.halves(size), layouts.work(), size));
        done.push(size);
        progress(done.len() as f64 / steps);
    }
    if points.is_empty() {
        return Err(Error::Missing {
            feature: "a free block for a huge page".to_owned(),
            remedy: "free memory, or compact it (`mega compact`)".to_owned(),
        });
    }
    let mut progress = |number: usize| progress((done.len() + number) as f64 / steps);
    let apart = measure_apart(&layouts, &done, &mut progress)?;
    Ok(Measured {
        points,
        apart,
        costs,
    })
}

/// The same for base pages whose frames lie apart, of those of the working sets `measured` for which there are enough.
fn measure_apart(
    layouts: &Layouts,
    measured: &[u64],
    progress: &mut dyn FnMut(usize),
) -> Result<Option<Vec<Point>>, Error> {
    let sizes = apart_of(measured);
    if sizes.is_empty() {
        return Ok(None);
    }
    let apart = layouts.apart()?;
    let mut points = Vec::new();
    for (number, &size) in sizes.iter().enumerate() {
        let [_, huge] = layouts.halves(size);
        points.extend(turns::take([apart.half(size), huge], layouts.work(), size));
        progress(number + 1);
    }
    Ok(Some(points))
}

/// The working sets of which base pages apart are measured, where these are in both layouts: those for which there are enough.
fn apart_of(measured: &[u64]) -> Vec<u64> {
    let most = measured
        .last()
        .map_or(0, |&largest| Layouts::apart_of(largest));
    let large = |size: &&u64| (SMALLEST_APART..=most).contains(*size);
    measured.iter().filter(large).copied().collect()
}

/// What may be taken: of the machine's memory, and of that which a limited cgroup lets this process use.
fn budget(kernel: &dyn Kernel, available: u64) -> u64 {
    let of_machine = available.saturating_sub(KEPT_FREE).min(available / 2);
    let mount = cgroups::mount_point(kernel);
    let cgroup = cgroups::Cgroups::new(kernel, mount.as_deref()).limit_of(std::process::id());
    cgroup.map_or(of_machine, |cgroup| {
        let kept_free = cgroup.limit / KEPT_FREE_OF_CGROUP;
        of_machine.min(cgroup.available.saturating_sub(kept_free))
    })
}

/// The working sets that fit into free memory in both layouts.
fn fitting(kernel: &dyn Kernel, working_sets: &[u64]) -> Result<Vec<u64>, Error> {
    let available = memory::observe(kernel)?.available;
    let budget = budget(kernel, available);
    let fits = |size: &u64| Layouts::needed(*size) <= budget;
    let sizes: Vec<u64> = working_sets.iter().copied().filter(fits).collect();
    if sizes.is_empty() {
        return Err(Error::Missing {
            feature: "free memory for a calibration".to_owned(),
            remedy: format!(
                "free some, or raise the cgroup's limit: {} are available on the machine, of which {} stay free, and {} may be taken",
                mega_core::bytes::format(available),
                mega_core::bytes::format(KEPT_FREE),
                mega_core::bytes::format(budget)
            ),
        });
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_apart_are_those_of_a_quarter_of_the_largest_working_set() {
        let apart = [32 << 20, 128 << 20, 512 << 20, 1 << 30];
        assert_eq!(apart_of(&WORKING_SETS), apart);
        assert_eq!(apart_of(&WORKING_SETS[..4]), apart[..1]);
        assert!(apart_of(&WORKING_SETS[..3]).is_empty());
        assert!(apart_of(&[]).is_empty());
    }
}
