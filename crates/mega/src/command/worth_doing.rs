//! The three things that are worth doing on this machine, in order: the end of `mega doctor`.

use std::path::Path;

use mega_core::MemoryObservation;
use mega_linux::doctor::{Examination, Feature, State};
use mega_linux::kernel::Kernel;
use mega_linux::observe::memory;

use crate::cli::DEFAULT_CONFIG;
use crate::config;
use crate::control;

/// Free memory is in pieces from this FMFI on: most of it fits no huge page.
const FRAGMENTED: f64 = 0.7;
/// How many things are told.
const TOLD: usize = 3;

/// What the examination does not say.
#[derive(Clone, Debug, Default)]
pub(super) struct Situation {
    memory: Option<MemoryObservation>,
    /// One that selects something.
    has_configuration: bool,
    managers: usize,
}

impl Situation {
    /// Looks at this machine.
    pub(super) fn look(kernel: &dyn Kernel) -> Self {
        Situation {
            memory: memory::observe(kernel).ok(),
            has_configuration: config::selects_something(Path::new(DEFAULT_CONFIG)),
            // Whoever may not ask knows of none.
            managers: control::ask_everyone().map_or(0, |(managers, _)| managers.len()),
        }
    }
}

/// The three things, the most important first.
pub(super) fn worth_doing(examination: &Examination, situation: &Situation) -> Vec<String> {
    let mut things = Vec::new();
    things.extend(required(examination));
    // Nothing else is worth doing before mega can work at all.
    if things.is_empty() {
        things.extend(left_behind(examination));
        things.extend(better_tracker(examination));
        things.extend(faults(examination));
        things.extend(fragmentation(examination, situation));
        things.extend(first_steps(situation));
        things.extend(others(examination));
    }
    things.truncate(TOLD);
    things
}

fn missing<'e>(
    examination: &'e Examination,
    is_meant: impl Fn(&Feature) -> bool + 'e,
) -> impl Iterator<Item = &'e Feature> {
    let features = examination.features.iter();
    features.filter(move |feature| feature.state == State::Missing && is_meant(feature))
}

fn required(examination: &Examination) -> impl Iterator<Item = String> {
    missing(examination, |feature| feature.required).map(|feature| {
        format!(
            "{}: without it {}",
            capitalised(feature.remedy),
            feature.cost_if_missing
        )
    })
}

fn left_behind(examination: &Examination) -> Option<String> {
    let any = examination.stale_state.is_some() || !examination.stale_settings.is_empty();
    any.then(|| {
        "Run `mega doctor --restore`: a killed mega left settings of this machine changed"
            .to_owned()
    })
}

/// Without accesses mega cannot tell what is used from what is not, and that is most of what it is for.
fn better_tracker(examination: &Examination) -> Option<String> {
    let chosen = examination.tracker.chosen?;
    if chosen.knows_accesses() {
        return None;
    }
    let bpf = mega_linux::TrackerKind::Bpf;
    let feature = missing(examination, |feature| feature.name.contains(bpf.name())).next()?;
    Some(format!(
        "{}: then mega sees which memory is used, and not only which is mapped",
        capitalised(feature.remedy)
    ))
}

fn faults(examination: &Examination) -> Option<String> {
    let faults = examination.faults.as_ref()?;
    faults.advice.as_ref().map(|_| {
        format!(
            "Set fault = \"base\" in the configuration, or {} to madvise: it is `{}`, so that page faults take huge pages \
             whether they pay or not",
            faults.setting.display(),
            faults.thp_mode
        )
    })
}

fn fragmentation(examination: &Examination, situation: &Situation) -> Option<String> {
    let memory = situation.memory.as_ref()?;
    if memory.fmfi() < FRAGMENTED {
        return None;
    }
    let pieces = format!(
        "{:.0} % of the free memory is in pieces too small for a huge page",
        memory.fmfi() * 100.0
    );
    let module = missing(examination, |feature| feature.name.contains("mega.ko")).next();
    Some(match module {
        Some(feature) => format!(
            "Load the kernel module, so that mega can empty blocks ({}): {pieces}",
            feature.remedy
        ),
        None => format!("Empty blocks ahead of need with `mega compact --blocks 256`: {pieces}"),
    })
}

fn first_steps(situation: &Situation) -> Vec<String> {
    let mut steps = Vec::new();
    if situation.managers == 0 {
        steps.push("Look at this machine with `mega top`, which changes nothing".to_owned());
        if !situation.has_configuration {
            steps.push("Write a configuration from what runs here with `mega init`".to_owned());
        }
        steps.push(
            "Try it with `mega daemon --dry-run`, then start it (`systemctl enable --now mega`)"
                .to_owned(),
        );
    } else {
        steps.push("See whether all is well with `mega status`".to_owned());
        steps.push("See what is not huge, and why, with `mega top`".to_owned());
    }
    steps
}

/// What else lacks, as far as it costs anything.
fn others(examination: &Examination) -> impl Iterator<Item = String> {
    let costs =
        |feature: &Feature| !feature.required && !feature.cost_if_missing.starts_with("nothing");
    missing(examination, costs).map(|feature| {
        format!(
            "{}: without it {}",
            capitalised(feature.remedy),
            feature.cost_if_missing
        )
    })
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_linux::TrackerKind;
    use mega_linux::doctor::{Faults, TrackerChoice};
    use mega_linux::settings::thp_mode::ThpMode;

    fn feature(name: &'static str, required: bool) -> Feature {
        Feature {
            name,
            state: State::Missing,
            seen: String::new(),
            needed_for: "something",
            cost_if_missing: "something is lost",
            remedy: "do this",
            required,
        }
    }

    fn examination(features: Vec<Feature>, tracker: TrackerKind) -> Examination {
        Examination {
            kernel_release: "6.12".to_owned(),
            features,
            tracker: TrackerChoice {
                chosen: Some(tracker),
                why: String::new(),
            },
            faults: None,
            other_consumers: Vec::new(),
            stale_state: None,
            stale_settings: Vec::new(),
            stale_unknown: None,
        }
    }

    fn fragmented(fmfi_percent: u64) -> Situation {
        Situation {
            memory: Some(MemoryObservation {
                total: 1000,
                available: 500,
                free: 100,
                contiguity: 100 - fmfi_percent,
                nodes: Vec::new(),
            }),
            ..Situation::default()
        }
    }

    #[test]
    fn what_is_required_comes_first_and_alone() {
        let machine = examination(vec![feature("x", true)], TrackerKind::Bpf);
        let things = worth_doing(&machine, &fragmented(90));
        assert_eq!(things, ["Do this: without it something is lost"]);
    }

    #[test]
    fn three_things_are_told_the_worst_first() {
        let features = vec![
            feature("tracker `bpf`", false),
            feature("kernel module (mega.ko)", false),
        ];
        let mut machine = examination(features, TrackerKind::Mapped);
        machine.faults = Some(Faults {
            thp_mode: ThpMode::Always,
            setting: mega_linux::settings::thp_mode::PATH.into(),
            take: "huge pages",
            advice: Some("set it".to_owned()),
        });
        let things = worth_doing(&machine, &fragmented(90));
        assert_eq!(things.len(), 3);
        assert!(things[0].contains("which memory is used"), "{things:?}");
        assert!(things[1].starts_with("Set fault"), "{things:?}");
        assert!(things[2].contains("90 % of the free memory"), "{things:?}");
    }

    #[test]
    fn a_machine_that_lacks_nothing_gets_the_next_steps() {
        let machine = examination(Vec::new(), TrackerKind::Module);
        let things = worth_doing(&machine, &fragmented(10));
        assert!(things[0].contains("mega top"), "{things:?}");
        assert!(things[1].contains("mega init"), "{things:?}");
        assert!(things[2].contains("mega daemon"), "{things:?}");
        let managed = Situation {
            managers: 1,
            ..fragmented(10)
        };
        assert!(worth_doing(&machine, &managed)[0].contains("mega status"));
    }
}
