//! What a touch costs on one machine, and how much less of it huge pages leave.
//!
//! A touch is the first use of a page that the TLB does not hold. What it costs is a smooth function of the machine, of the
//! size of the working set (it decides where the page table entries are found), of how far touches wait for each other (a
//! processor does several page walks at once if it can) and of how far neighbouring pages are touched together (eight
//! entries share a cache line). `mega-linux` measures it at points; this interpolates between them.
//!
//! The pace of a program bounds how far its touches wait for each other: a touch takes no longer than the time from one to the
//! next. It does not tell how far they do: few that wait for each other, and many at once with something else in between, look the
//! same. [`Calibration::saved_ns`] takes touches to wait as far as their pace allows; [`Calibration::overlapped`] is the other end.

use serde::{Deserialize, Serialize};

use super::Estimate;

/// Page table entries in a cache line: pages whose entries come with one another.
pub const PAGES_PER_LINE: f64 = 8.0;
/// Touches of a visit in the ways [`Touching::Visits`] and [`Touching::SerialVisits`]: as many as a page table has cache lines.
pub const TOUCHES_PER_VISIT: u16 = 64;
/// No touch saves more of its time than this, and no program: it would be a hundred times as fast, and only a fault of the measurement says
/// so.
pub(super) const MOST_SAVED: f64 = 0.99;
/// How far memory sizes may differ, as a share, before a calibration counts as another machine's: kernels reserve a little
/// more or less at each boot.
const SAME_MEMORY: f64 = 0.125;

/// What a calibration is valid for. On a machine that differs in any of it, touches may cost something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// The processor's model, as `/proc/cpuinfo` names it.
    pub processor: String,
    /// The kernel's release, as `uname -r`.
    pub kernel: String,
    /// What virtualizes the machine; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// Memory of the machine, in bytes.
    pub memory: u64,
    /// The way of measuring: [`METHOD`], or 0 where it says none.
    #[serde(default)]
    pub method: u32,
}

/// The way in which calibrations are measured now. It changes when what they say does: until 1 several chains of touches went through the
/// same addresses, so that most touches found them in the caches; until 2 no working set was larger than 2 GiB, where page tables are
/// still in the caches of some processors; until 3 no touches of one region followed each other; until 4 page tables were read into the
/// caches right before the touches; until 5 the caches held what the other layout had left in them, and frames of base pages were always neighbours.
pub const METHOD: u32 = 5;

impl Validity {
    /// What differs between the machine that this was measured on and `now`, in words; `None` where it is the same one.
    #[must_use]
    pub fn differs_from(&self, now: &Validity) -> Option<&'static str> {
        let (here, there) = (now.memory as f64, self.memory as f64);
        if self.processor != now.processor {
            Some("it is of another processor")
        } else if self.kernel != now.kernel {
            Some("it is of another kernel")
        } else if self.hypervisor != now.hypervisor {
            Some("it is of another hypervisor")
        } else if (here - there).abs() > SAME_MEMORY * there {
            Some("it is of a machine with another size of memory")
        } else if self.method != now.method {
            Some("it was measured in another way, by another version of mega")
        } else {
            None
        }
    }
}

/// How a program touches pages, as the calibration does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Touching {
    /// Each touch waits for the one before: a whole page walk each.
    Serial,
    /// Two such chains at once.
    TwoChains,
    /// Four such chains at once.
    FourChains,
    /// No touch waits for another: as many walks at once as the processor does.
    Overlapped,
    /// No touch waits for another, but much arithmetic lies between two.
    Worked,
    /// 1 KiB read at each touch; no touch waits for another.
    Rows,
    /// Eight neighbouring pages after each other, then eight elsewhere; no touch waits for another.
    Neighbours,
    /// All lines of all pages, in order.
    Stream,
    /// Each touch waits for the one before, and 16 KiB elsewhere are read in between: caches keep little of the page tables.
    Busy,
    /// [`TOUCHES_PER_VISIT`] pages of a region in order, one of each cache line of entries, then as many elsewhere; no touch waits for
    /// another.
    Visits,
    /// As many pages of a region at random, then as many elsewhere; each touch waits for the one before.
    SerialVisits,
}

impl Touching {
    /// Every way.
    pub const ALL: [Touching; 11] = [
        Touching::Serial,
        Touching::TwoChains,
        Touching::FourChains,
        Touching::Overlapped,
        Touching::Worked,
        Touching::Rows,
        Touching::Neighbours,
        Touching::Stream,
        Touching::Busy,
        Touching::Visits,
        Touching::SerialVisits,
    ];

    /// What it is called, in JSON too.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Touching::Serial => "serial",
            Touching::TwoChains => "two-chains",
            Touching::FourChains => "four-chains",
            Touching::Overlapped => "overlapped",
            Touching::Worked => "worked",
            Touching::Rows => "rows",
            Touching::Neighbours => "neighbours",
            Touching::Stream => "stream",
            Touching::Busy => "busy",
            Touching::Visits => "visits",
            Touching::SerialVisits => "serial-visits",
        }
    }

    /// Whether nothing but the processor bounds how many are under way at once.
    #[must_use]
    pub const fn overlaps_most(self) -> bool {
        matches!(
            self,
            Touching::Overlapped | Touching::Neighbours | Touching::Visits
        )
    }

    /// Touches that use one cache line of page table entries before it goes on to another.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is 8"
    )]
    pub const fn pages_of_line(self) -> usize {
        match self.nearness() {
            Nearness::Line => PAGES_PER_LINE as usize,
            Nearness::Region | Nearness::Anywhere => 1,
        }
    }

    const fn nearness(self) -> Nearness {
        match self {
            Touching::Neighbours | Touching::Stream => Nearness::Line,
            Touching::Visits | Touching::SerialVisits => Nearness::Region,
            _ => Nearness::Anywhere,
        }
    }
}

/// How near most touches are to the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nearness {
    /// All entries of a cache line are used at once.
    Line,
    /// Many entries of one page table, of different lines.
    Region,
    Anywhere,
}

/// How near the touches of a program are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Locality {
    /// Pages touched of each cache line of eight entries in which one is, 1 to 8.
    pub pages_per_line: f64,
    /// Touches of one region that follow each other, 1 to 512, those of one line among them.
    pub touches_per_visit: f64,
}

impl Locality {
    /// Each touch is anywhere.
    pub const SCATTERED: Locality = Locality {
        pages_per_line: 1.0,
        touches_per_visit: 1.0,
    };

    /// The part of all touches that are the first ones of a line.
    fn first_of_line(self) -> f64 {
        1.0 / self.pages_per_line.clamp(1.0, PAGES_PER_LINE)
    }

    /// The part of these that are the first ones of a visit.
    fn first_of_visit(self) -> f64 {
        let lines = self.touches_per_visit * self.first_of_line();
        1.0 / lines.max(1.0)
    }
}

/// What a touch of one kind cost over one working set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes touched all over.
    pub working_set: u64,
    /// How.
    pub touching: Touching,
    /// Nanoseconds a touch took on the smaller pages, all that goes with it included.
    pub ns: f64,
    /// Nanoseconds less that it took on the larger ones. Its low end may be below 0 where nothing is saved.
    pub saved: Estimate,
}

/// What touches cost on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// What it is valid for.
    pub valid_for: Validity,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// Base pages whose frames are neighbours, as where a huge page was split, against huge pages.
    pub points: Vec<Point>,
    /// Base pages whose frames lie apart, as many do on a machine that has run for a while; the smaller working sets, as far
    /// as memory allowed. Under a hypervisor they need more of its page tables, and some processors join neighbouring frames in the TLB.
    /// `None` where nothing was measured so.
    #[serde(default)]
    pub apart: Option<Vec<Point>>,
    /// Huge pages against giant pages; `None` where there are no giant pages.
    pub giant: Option<Vec<Point>>,
    /// CPU seconds that it takes to make one region huge, with what it takes to have its block backed where the hypervisor had not.
    pub promotion: Estimate,
    /// The same where the block is backed: the copy.
    pub copy: Estimate,
}

impl Calibration {
    /// Nanoseconds that a huge page saves at each touch of a base page, if touches wait for each other as far as their pace allows.
    ///
    /// `working_set`: bytes that the program touches all over. `ns_per_touch`: its CPU time for each touch; no more of it can be
    /// saved.
    #[must_use]
    pub fn saved_ns(&self, working_set: u64, ns_per_touch: f64, locality: Locality) -> Estimate {
        saved_ns(&self.points, working_set, ns_per_touch, locality)
    }

    /// The same for a giant page in place of huge ones; `None` where there are no giant pages.
    #[must_use]
    pub fn saved_by_giant_ns(
        &self,
        working_set: u64,
        ns_per_touch: f64,
        locality: Locality,
    ) -> Option<Estimate> {
        let points = self.giant.as_deref()?;
        Some(saved_ns(points, working_set, ns_per_touch, locality))
    }

    /// The same machine for a program of whose neighbouring base pages that share lies in neighbouring frames, 0 to 1; `None` where
    /// nobody knows: then it may be any.
    #[must_use]
    pub fn for_frames(&self, together: Option<f64>) -> Calibration {
        let Some(apart) = &self.apart else {
            return self.clone();
        };
        let moved = |point: &Point| {
            let by = costs_apart(&self.points, apart, point);
            moved_apart(point, by, together)
        };
        Calibration {
            points: self.points.iter().map(moved).collect(),
            apart: None,
            ..self.clone()
        }
    }

    /// The same machine for a program of whose touches none waits for another: what such touches cost, whatever lies between them.
    /// Where none were measured so, the core waits for each, and all stays as it is.
    #[must_use]
    pub fn overlapped(&self) -> Calibration {
        Calibration {
            points: overlapped(&self.points),
            giant: self.giant.as_deref().map(overlapped),
            ..self.clone()
        }
    }

    /// The working sets measured, in ascending order.
    #[must_use]
    pub fn working_sets(&self) -> Vec<u64> {
        sizes(&self.points)
    }

    /// Why this cannot be what a calibration measured; `None` where it can. A file that someone damaged may hold anything.
    #[must_use]
    pub fn nonsense(&self) -> Option<&'static str> {
        let all = [Some(&self.points), self.apart.as_ref(), self.giant.as_ref()];
        let mut points = all.into_iter().flatten().flatten();
        if self.points.is_empty() {
            Some("it holds no point")
        } else if !points.all(Point::is_sound) {
            Some("a point is no measurement")
        } else if [self.promotion, self.copy]
            .iter()
            .any(|cost| !is_ordered(cost) || cost.low < 0.0)
        {
            Some("the cost of a promotion is no measurement")
        } else {
            None
        }
    }
}

impl Point {
    /// A touch took some time, and what was saved of it is less than that.
    fn is_sound(&self) -> bool {
        self.working_set > 0
            && self.ns.is_finite()
            && self.ns > 0.0
            && is_ordered(&self.saved)
            && self.saved.value < self.ns
    }
}

fn is_ordered(estimate: &Estimate) -> bool {
    let all = [estimate.low, estimate.value, estimate.high];
    all.iter().all(|number| number.is_finite()) && all.is_sorted()
}

/// What touches cost that find their frames apart, beyond what `point` says.
#[derive(Clone, Copy)]
struct CostsApart {
    ns: f64,
    saved: Estimate,
}

/// As measured at that working set, or at the largest one below it that was: page tables of a hypervisor that no cache holds cost as
/// much however many there are. Nothing below the smallest.
fn costs_apart(together: &[Point], apart: &[Point], point: &Point) -> Option<CostsApart> {
    let measured = apart
        .iter()
        .filter(|apart| apart.touching == point.touching && apart.working_set <= point.working_set)
        .max_by_key(|apart| apart.working_set)?;
    let same = find(together, measured.working_set, measured.touching)?;
    let by = |measured: f64, same: f64| measured - same;
    Some(CostsApart {
        ns: by(measured.ns, same.ns),
        saved: Estimate {
            value: by(measured.saved.value, same.saved.value),
            low: by(measured.saved.low, same.saved.low),
            high: by(measured.saved.high, same.saved.high),
        },
    })
}

/// The point for that share of frames together. Where nobody knows, the mean, in an interval that holds both ends.
fn moved_apart(point: &Point, by: Option<CostsApart>, together: Option<f64>) -> Point {
    let Some(by) = by else {
        return *point;
    };
    let at = |part: f64| {
        let ns = (point.ns + part * by.ns).max(0.1);
        let saved = |saved: f64, by: f64| (saved + part * by).min(MOST_SAVED * ns);
        let value = saved(point.saved.value, by.saved.value);
        Point {
            ns,
            saved: Estimate::within(
                value,
                saved(point.saved.low, by.saved.low),
                saved(point.saved.high, by.saved.high),
            ),
            ..*point
        }
    };
    match together {
        Some(together) => at(1.0 - together.clamp(0.0, 1.0)),
        None => {
            let middle = at(0.5);
            Point {
                saved: middle.saved.reaching(point.saved).reaching(at(1.0).saved),
                ..middle
            }
        }
    }
}

/// What touches of that way cost over that working set, of these points; `None` where it was not measured.
#[must_use]
pub fn find(points: &[Point], working_set: u64, touching: Touching) -> Option<&Point> {
    points
        .iter()
        .find(|point| point.working_set == working_set && point.touching == touching)
}

/// The working sets of these, in ascending order.
#[must_use]
pub fn sizes(points: &[Point]) -> Vec<u64> {
    let mut sizes: Vec<u64> = points.iter().map(|point| point.working_set).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn overlapped(points: &[Point]) -> Vec<Point> {
    let waits_for_each = points
        .iter()
        .all(|point| point.touching != Touching::Overlapped);
    let of_those = points
        .iter()
        .filter(|point| waits_for_each || point.touching.overlaps_most());
    of_those.copied().collect()
}

/// Of the touches of a visit one fetches what leads to the page table, of those of each cache line one the line, and the others find it
/// at hand. None saves more time than it takes.
fn saved_ns(points: &[Point], working_set: u64, ns_per_touch: f64, locality: Locality) -> Estimate {
    let at = |nearness| at_size(points, nearness, working_set, ns_per_touch);
    let anywhere = at(Nearness::Anywhere).unwrap_or(ZERO);
    let in_region = at(Nearness::Region).unwrap_or(anywhere);
    let in_line = at(Nearness::Line).unwrap_or(in_region);
    let of_lines = of_which_first(
        1.0 / f64::from(TOUCHES_PER_VISIT),
        in_region,
        anywhere,
        locality.first_of_visit(),
    );
    let saved = of_which_first(
        1.0 / PAGES_PER_LINE,
        in_line,
        of_lines,
        locality.first_of_line(),
    );
    let possible = |ns: f64| ns.clamp(0.0, ns_per_touch.max(0.0));
    Estimate {
        value: possible(saved.value),
        low: possible(saved.low),
        high: possible(saved.high),
    }
}

/// What touches save of which the part `first` is as the first of some and the others as the rest: `together` was measured with the
/// part `measured` of first ones, and `alone` with nothing else.
fn of_which_first(measured: f64, together: Estimate, alone: Estimate, first: f64) -> Estimate {
    between(together, alone, (first - measured) / (1.0 - measured))
}

/// Interpolated by the logarithm of the working set; beyond the largest one, as there. `None` where nothing was measured so.
fn at_size(
    points: &[Point],
    nearness: Nearness,
    working_set: u64,
    ns_per_touch: f64,
) -> Option<Estimate> {
    let kind: Vec<Point> = points
        .iter()
        .filter(|point| point.touching.nearness() == nearness)
        .copied()
        .collect();
    let sizes = sizes(&kind);
    let at = |size: u64| at_pace(&kind, size, ns_per_touch);
    let above = sizes.partition_point(|&size| size < working_set);
    match (
        above.checked_sub(1).map(|below| sizes[below]),
        sizes.get(above),
    ) {
        (None, None) => None,
        (None, Some(&only)) | (Some(only), None) => Some(at(only)),
        (Some(below), Some(&above)) => {
            let span = (above as f64 / below as f64).log2();
            let part = (working_set as f64 / below as f64).log2() / span;
            Some(between(at(below), at(above), part))
        }
    }
}

/// Interpolated by the time that a touch takes: the share of the time that is saved, as a faster program is one that waits
/// less for anything else. One faster than the fastest saves the same share.
fn at_pace(points: &[Point], size: u64, ns_per_touch: f64) -> Estimate {
    let of_size: Vec<Point> = points
        .iter()
        .filter(|point| point.working_set == size)
        .copied()
        .collect();
    let knots = knots(&of_size);
    let slower = knots.partition_point(|knot| knot.ns < ns_per_touch);
    let faster = slower.checked_sub(1).map(|faster| knots[faster]);
    let share = match (faster, knots.get(slower)) {
        (None, None) => return ZERO,
        (None, Some(fastest)) => fastest.share,
        (Some(slowest), None) => return slowest.share.scaled(slowest.ns),
        (Some(faster), Some(slower)) => {
            let part = (ns_per_touch / faster.ns).ln() / (slower.ns / faster.ns).ln();
            between(faster.share, slower.share, part)
        }
    };
    share.scaled(ns_per_touch.max(0.0))
}

/// The share of the time that is saved at one pace.
#[derive(Clone, Copy)]
struct Knot {
    ns: f64,
    share: Estimate,
}

/// The curve over paces, in ascending order.
///
/// A program slower than a chain does something else in between, each touch by itself. How far the processor does that during the walk
/// depends on what it is. So the truth lies anywhere between a chain, which waits for the whole walk, and arithmetic or rows, during
/// which the next walk begins. Or it reads so much else meanwhile that the walk finds less in the caches, the more the slower it is. From
/// the pace of one that is busy so, a touch saves as much however slow the program is.
fn knots(points: &[Point]) -> Vec<Knot> {
    let (apart, along): (Vec<Point>, Vec<Point>) = points.iter().partition(|point| {
        matches!(
            point.touching,
            Touching::Worked | Touching::Rows | Touching::Busy
        )
    });
    let knot = |point: &Point| Knot {
        ns: point.ns,
        share: point.saved.scaled(1.0 / point.ns),
    };
    let mut knots: Vec<Knot> = along.iter().map(knot).collect();
    let chain = along
        .iter()
        .find(|point| point.touching == Touching::Serial);
    if let (Some(chain), false) = (chain, apart.is_empty()) {
        knots.extend(slower_than(chain, &apart));
    }
    knots.sort_by(|one, other| one.ns.total_cmp(&other.ns));
    knots
}

/// Programs that do something else in half of their time, and all those that are busy.
fn slower_than(chain: &Point, apart: &[Point]) -> Vec<Knot> {
    let is_busy = |point: &&Point| point.touching == Touching::Busy;
    let busy = apart.iter().find(is_busy);
    let of_others = apart.iter().filter(|point| !is_busy(point));
    let mut possible: Vec<Estimate> = of_others.map(|point| point.saved).collect();
    possible.push(chain.saved);
    let half_of_the_time = 2.0 * chain.ns;
    let paces = std::iter::once(half_of_the_time).chain(busy.map(|busy| busy.ns));
    let knot = |ns: f64| {
        let busy = busy.map(|busy| {
            let part = (ns - chain.ns) / (busy.ns - chain.ns);
            between(chain.saved, busy.saved, part)
        });
        let possible: Vec<Estimate> = possible.iter().copied().chain(busy).collect();
        Knot {
            ns,
            share: anywhere_between(&possible).scaled(1.0 / ns),
        }
    };
    paces
        .filter(|ns| *ns >= half_of_the_time)
        .map(knot)
        .collect()
}

/// The mean of some estimates, in an interval that holds all of theirs. There is at least one.
fn anywhere_between(estimates: &[Estimate]) -> Estimate {
    let sum: f64 = estimates.iter().map(|estimate| estimate.value).sum();
    let low = estimates.iter().map(|estimate| estimate.low);
    let high = estimates.iter().map(|estimate| estimate.high);
    Estimate::within(
        sum / estimates.len() as f64,
        low.fold(f64::INFINITY, f64::min),
        high.fold(f64::NEG_INFINITY, f64::max),
    )
}

const ZERO: Estimate = Estimate::exact(0.0);

/// `from` at part 0, `to` at part 1.
fn between(from: Estimate, to: Estimate, part: f64) -> Estimate {
    let part = if part.is_finite() {
        part.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let mix = |from: f64, to: f64| from + (to - from) * part;
    Estimate {
        value: mix(from.value, to.value),
        low: mix(from.low, to.low),
        high: mix(from.high, to.high),
    }
}
