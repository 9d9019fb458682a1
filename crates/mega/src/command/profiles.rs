//! `mega profiles`: what mega remembers of programs.

use std::fmt::Write;
use std::process::ExitCode;

use mega_core::bytes;
use mega_core::profile::{Key, MappingProfile, Profile, Verdict};
use mega_core::table::Table;
use mega_core::worth::Estimate;
use mega_linux::profile::{Store, Stored};
use serde::Serialize;

use crate::cli::{ForgetProfiles, Profiles, ProfilesCommand, ShowProfile};
use crate::exit::Failure;
use crate::output;
use crate::report::{VERSION, gain};
use crate::share::percent;

/// What `mega profiles list --json` prints.
#[derive(Serialize)]
struct Listing {
    version: u32,
    profiles: Vec<ProfileReport>,
}

/// What `mega profiles show --json` prints, and one entry of the list.
#[derive(Serialize)]
struct ProfileReport {
    version: u32,
    #[serde(flatten)]
    key: Key,
    /// When it was written last, in seconds since 1970.
    written: u64,
    runs: u64,
    resident_base: Option<u64>,
    resident_huge: Option<u64>,
    saved_share: Option<Estimate>,
    as_a_whole: Verdict,
    mappings: Vec<MappingReport>,
}

#[derive(Serialize)]
struct MappingReport {
    #[serde(flatten)]
    known: MappingProfile,
    next_time: Verdict,
}

/// What `mega profiles forget --json` prints.
#[derive(Serialize)]
struct Forgotten {
    version: u32,
    forgotten: Vec<String>,
}

impl From<Stored> for ProfileReport {
    fn from(stored: Stored) -> Self {
        let Stored { profile, written } = stored;
        let as_a_whole = profile.verdict_as_a_whole();
        let Profile {
            key,
            runs,
            resident_base,
            resident_huge,
            saved_share,
            mappings,
            ..
        } = profile;
        let mappings = mappings.into_iter().map(|known| MappingReport {
            known,
            next_time: known.verdict(),
        });
        ProfileReport {
            version: VERSION,
            key,
            written,
            runs,
            resident_base,
            resident_huge,
            saved_share,
            as_a_whole,
            mappings: mappings.collect(),
        }
    }
}

pub(super) fn run(args: &Profiles) -> Result<ExitCode, Failure> {
    let store = Store::find().ok_or_else(|| {
        Failure::Failed("there is no place for profiles: set HOME or MEGA_STATE_DIR".to_owned())
    })?;
    match &args.command {
        None => list(&store, args.json),
        Some(ProfilesCommand::List(json)) => list(&store, json.json || args.json),
        Some(ProfilesCommand::Show(show)) => self::show(&store, show, show.json || args.json),
        Some(ProfilesCommand::Forget(forget)) => {
            self::forget(&store, forget, forget.json || args.json)
        }
    }
}

fn list(store: &Store, json: bool) -> Result<ExitCode, Failure> {
    let (profiles, damaged) = store.all()?;
    for error in &damaged {
        output::say(&error.to_string());
    }
    let profiles: Vec<ProfileReport> = profiles.into_iter().map(ProfileReport::from).collect();
    if json {
        output::print_json(&Listing {
            version: VERSION,
            profiles,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if profiles.is_empty() {
        output::say("there are no profiles; `mega run` makes one of each program");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["name", "runs", "memory", "from the start", "arguments"]);
    for profile in &profiles {
        let touched = |known: &&MappingReport| known.known.touched;
        let huge = profile
            .mappings
            .iter()
            .filter(|known| known.next_time == Verdict::Huge);
        let huge: u64 = huge.map(|known| known.known.touched).sum();
        table.row(vec![
            profile.key.name.clone(),
            profile.runs.to_string(),
            bytes::format(profile.mappings.iter().map(|known| touched(&known)).sum()),
            if huge > 0 {
                format!("{} huge", bytes::format(huge))
            } else {
                "base".to_owned()
            },
            profile.key.arguments.clone(),
        ]);
    }
    output::print(&table.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn show(store: &Store, args: &ShowProfile, json: bool) -> Result<ExitCode, Failure> {
    let name = the_name(store, &args.name)?;
    let stored = store.read(&name)?.ok_or_else(|| unknown(store, &name))?;
    let profile = ProfileReport::from(stored);
    if json {
        output::print_json(&profile)?;
    } else {
        output::print(&in_words(&profile))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn forget(store: &Store, args: &ForgetProfiles, json: bool) -> Result<ExitCode, Failure> {
    let names = if args.all {
        store.names()?
    } else {
        let given = args.names.iter();
        given
            .map(|name| the_name(store, name))
            .collect::<Result<_, _>>()?
    };
    let mut forgotten = Vec::new();
    for name in names {
        if store.forget(&name)? {
            forgotten.push(name);
        }
    }
    if json {
        output::print_json(&Forgotten {
            version: VERSION,
            forgotten,
        })?;
    } else {
        let lines = forgotten.iter().map(|name| format!("forgot {name}\n"));
        output::print(&lines.collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The one profile whose name this is, or begins so.
fn the_name(store: &Store, given: &str) -> Result<String, Failure> {
    let names = store.names()?;
    if names.iter().any(|name| name == given) {
        return Ok(given.to_owned());
    }
    let mut fitting = names.iter().filter(|name| name.starts_with(given));
    match (fitting.next(), fitting.count()) {
        (Some(name), 0) => Ok(name.clone()),
        (Some(_), more) => Err(Failure::Failed(format!(
            "{} profiles begin with '{given}'; see `mega profiles`",
            more + 1
        ))),
        (None, _) => Err(unknown(store, given)),
    }
}

fn unknown(store: &Store, name: &str) -> Failure {
    Failure::Failed(format!(
        "there is no profile '{name}' in {}; see `mega profiles`",
        store.path().display()
    ))
}

fn in_words(profile: &ProfileReport) -> String {
    let key = &profile.key;
    let mut text = format!("{}\n\n  executable  {}\n", key.name, key.executable);
    // Writing to a string does not fail.
    let _ = writeln!(text, "  arguments   {}", or_none(&key.arguments));
    if let Some(unit) = &key.unit {
        let _ = writeln!(text, "  unit        {unit}");
    }
    let _ = writeln!(text, "  runs        {}", profile.runs);
    let _ = writeln!(
        text,
        "  resident    {} with base pages at first, {} with huge pages from the start",
        output::bytes_or_dash(profile.resident_base),
        output::bytes_or_dash(profile.resident_huge)
    );
    let gain = profile.saved_share.map_or_else(
        || "not measured".to_owned(),
        |saved| format!("{} of its CPU time", gain::share(saved)),
    );
    let _ = writeln!(text, "  huge pages  save {gain}");
    if profile.mappings.is_empty() {
        return text;
    }
    let mut table = Table::new(&[
        "mappings",
        "touched",
        "filled",
        "within",
        "ended huge",
        "waste",
        "wrong",
        "next time",
    ]);
    for MappingReport { known, next_time } in &profile.mappings {
        table.row(vec![
            known.class.to_string(),
            bytes::format(known.touched),
            percent(known.filled),
            format!("{:.1} s", known.filled_seconds),
            percent(Some(known.ended_huge)),
            percent(known.waste),
            known.wrong.to_string(),
            next_time_in_words(known, *next_time),
        ]);
    }
    let _ = write!(text, "\n{table}");
    text
}

fn next_time_in_words(known: &MappingProfile, verdict: Verdict) -> String {
    match verdict {
        Verdict::Huge => "huge pages".to_owned(),
        Verdict::Base(why) if known.base_for > 0 => {
            format!(
                "base pages for {} runs ({})",
                known.base_for,
                why.in_words()
            )
        }
        Verdict::Base(why) => format!("base pages ({})", why.in_words()),
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}
