//! What policies would have done with a recorded program: `mega replay --json`.

use std::path::PathBuf;

use mega_core::PageSize;
use mega_record::replay::{Course, Point, Translation};
use mega_record::{Ending, Header, Usable};
use serde::Serialize;

use super::{Actions, HostPage};

/// What `mega replay --json` prints.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReplayReport {
    pub(crate) version: u32,
    pub(crate) recording: RecordingReport,
    /// The memory that the machine was taken to have; `null` for what it had.
    pub(crate) memory: Option<u64>,
    /// The same of its fragmentation.
    pub(crate) fragmentation: Option<f64>,
    /// Whether it was replayed on the simulated kernel, with giant pages and compaction.
    pub(crate) simulated: bool,
    /// The processor whose translation was asked for.
    pub(crate) processor: Option<&'static str>,
    /// The pages by which a host maps the memory of the guest that it ran in; `null` where it was no guest.
    pub(crate) host_pages: Option<PageSize>,
    /// Always: what the program does is as it was recorded, whatever a policy does.
    pub(crate) open_loop: bool,
    pub(crate) policies: Vec<PolicyReplay>,
}

/// A recording, and how much of it was usable.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RecordingReport {
    pub(crate) file: PathBuf,
    pub(crate) subject: String,
    pub(crate) kernel: String,
    pub(crate) tracker: String,
    pub(crate) interval_seconds: f64,
    pub(crate) looks: u64,
    /// Looks that were due and not made.
    pub(crate) missed: u64,
    pub(crate) seconds: f64,
    /// Bytes of the file that could be used.
    pub(crate) usable_bytes: u64,
    /// Why not all of it could; `null` where all could.
    pub(crate) broken: Option<String>,
    /// The part of its resident memory that huge pages mapped, which hide what is used of their base pages.
    pub(crate) coverage: Option<f64>,
    /// Resident, in the end.
    pub(crate) resident: u64,
    /// Free in blocks of at least 2 MiB, in the end.
    pub(crate) contiguity: u64,
    /// Bytes that the host exchanged for giant pages instead of a copy, for a manager that ran when it was recorded.
    pub(crate) exchanged: u64,
    /// By which pages the host mapped what was recorded in its guest; `null` where it was no guest, or the recording does not say.
    pub(crate) host_page: Option<HostPage>,
}

impl RecordingReport {
    #[allow(
        clippy::cast_precision_loss,
        reason = "milliseconds of some days at most"
    )]
    pub(crate) fn new(file: PathBuf, header: &Header, usable: &Usable, course: &Course) -> Self {
        RecordingReport {
            file,
            subject: header.subject.clone(),
            kernel: header.kernel.clone(),
            tracker: header.tracker.clone(),
            interval_seconds: header.interval_ms as f64 / 1e3,
            looks: usable.looks,
            missed: course.missed,
            seconds: usable.until.as_secs_f64(),
            usable_bytes: usable.bytes,
            broken: (usable.ending != Ending::Whole).then(|| usable.to_string()),
            coverage: course.recorded_coverage,
            resident: course.last.recorded,
            contiguity: course.last.recorded_contiguity,
            exchanged: course.recorded_exchanged,
            host_page: HostPage::of_recording(header),
        }
    }
}

/// What one policy would have done.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PolicyReplay {
    pub(crate) policy: String,
    /// The part of its resident memory in huge pages: a mean over time.
    pub(crate) coverage: Option<f64>,
    /// Resident memory over that of the recording: a mean over time.
    pub(crate) growth: Option<f64>,
    /// CPU time of the manager.
    pub(crate) cpu_seconds: f64,
    pub(crate) actions: Actions,
    /// Observations that more than one look went into: what they say of accesses is the least that it can be.
    pub(crate) merged: u64,
    /// What translating addresses would have taken; `null` where no processor was named, or nobody had measured touches.
    pub(crate) translation: Option<TranslationReport>,
    /// How it was at the last step at which something was resident.
    pub(crate) last: PointReport,
    /// How it was over time.
    pub(crate) points: Vec<PointReport>,
}

impl From<&Course> for PolicyReplay {
    fn from(course: &Course) -> Self {
        PolicyReplay {
            policy: course.policy.clone(),
            coverage: course.mean_coverage,
            growth: course.mean_growth,
            cpu_seconds: course.cpu.as_secs_f64(),
            actions: Actions::from(&course.totals),
            merged: course.merged,
            translation: course.translation.as_ref().map(TranslationReport::from),
            last: PointReport::from(&course.last),
            points: course.points.iter().map(PointReport::from).collect(),
        }
    }
}

/// What translating addresses would have taken on a processor, as far as touches had been measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct TranslationReport {
    pub(crate) touches: f64,
    /// The program's CPU time in which they were, when it was recorded.
    pub(crate) program_cpu_seconds: f64,
    /// Time of translation under the policy.
    pub(crate) seconds: f64,
    /// The same by the pages that it was recorded with.
    pub(crate) recorded_seconds: f64,
}

impl From<&Translation> for TranslationReport {
    fn from(taken: &Translation) -> Self {
        TranslationReport {
            touches: taken.touches,
            program_cpu_seconds: taken.cpu.as_secs_f64(),
            seconds: taken.time.as_secs_f64(),
            recorded_seconds: taken.recorded.as_secs_f64(),
        }
    }
}

/// How it was at one step, before the step did anything.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct PointReport {
    /// Since the recording began.
    pub(crate) seconds: f64,
    pub(crate) resident: u64,
    pub(crate) huge: u64,
    /// Of that in giant pages.
    pub(crate) giant: u64,
    /// Resident in the recording, and of that in huge pages.
    pub(crate) recorded: u64,
    pub(crate) recorded_huge: u64,
    /// Resident, and not to be judged any more: huge pages of the recording that the policy demoted.
    pub(crate) blind: u64,
    pub(crate) free: u64,
    pub(crate) contiguity: u64,
    /// Free in blocks of at least 2 MiB in the recording.
    pub(crate) recorded_contiguity: u64,
    /// Until then.
    pub(crate) copied: u64,
    pub(crate) promoted: u64,
    pub(crate) demoted: u64,
    /// Bytes that were moved until then to empty blocks and chunks, besides what is copied.
    pub(crate) moved: u64,
    /// Seconds of translation, until then.
    pub(crate) translation: Option<f64>,
    /// The same by the pages of the recording.
    pub(crate) recorded_translation: Option<f64>,
}

impl From<&Point> for PointReport {
    fn from(point: &Point) -> Self {
        PointReport {
            seconds: point.at.as_secs_f64(),
            resident: point.resident,
            huge: point.huge,
            giant: point.giant,
            recorded: point.recorded,
            recorded_huge: point.recorded_huge,
            blind: point.blind,
            free: point.free,
            contiguity: point.contiguity,
            recorded_contiguity: point.recorded_contiguity,
            copied: point.copied,
            promoted: point.promoted,
            demoted: point.demoted,
            moved: point.moved * mega_core::BASE_PAGE_SIZE,
            translation: point.translation.map(|time| time.as_secs_f64()),
            recorded_translation: point.recorded_translation.map(|time| time.as_secs_f64()),
        }
    }
}
