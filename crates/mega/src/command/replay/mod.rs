//! `mega replay`: what policies would have done with a recorded program.

mod over_time;
mod quantity;
mod svg;
mod text;

use std::process::ExitCode;

use mega_core::engine::Engine;
use mega_core::promotion::{self, Parameters, Policy};
use mega_record::replay::{Course, ReplayedMachine, SimulatedReplay, Terms, Walk, follow};
use mega_record::{Header, Usable};

use crate::cli::Replay;
use crate::exit::Failure;
use crate::output;
use crate::recording;
use crate::report::{PolicyReplay, RecordingReport, ReplayReport, VERSION};

pub(super) fn run(args: &Replay) -> Result<ExitCode, Failure> {
    // A wrong name must not cost the replays before it.
    let policies = args
        .policy
        .iter()
        .map(|name| promotion::build(name, &Parameters::new()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut recording = None;
    let mut replays = Vec::new();
    for policy in policies {
        let (course, header, usable) = replay(args, policy)?;
        replays.push(PolicyReplay::from(&course));
        recording.get_or_insert_with(|| {
            RecordingReport::new(args.file.clone(), &header, &usable, &course)
        });
    }
    let Some(recording) = recording else {
        return Err(Failure::Usage("name a policy".to_owned()));
    };
    let report = ReplayReport {
        version: VERSION,
        recording,
        memory: args.memory,
        fragmentation: args.fragmentation,
        simulated: args.simulated,
        processor: args.cpu.map(|processor| processor.name),
        host_pages: args.host_pages,
        open_loop: true,
        policies: replays,
    };
    if let Some(file) = &args.svg {
        std::fs::write(file, svg::draw(&report)).map_err(|error| {
            let file = file.display();
            Failure::Failed(format!("cannot write the picture to {file}: {error}"))
        })?;
    }
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&text::in_words(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Replays the recording once, look by look as it is read.
fn replay(args: &Replay, policy: Box<dyn Policy>) -> Result<(Course, Header, Usable), Failure> {
    let reader = recording::open(&args.file)?;
    let header = reader.header().clone();
    let terms = Terms {
        memory: args.memory,
        fragmentation: args.fragmentation,
        ..Terms::default()
    };
    let walk = args.host_pages.map_or(Walk::Native, Walk::Nested);
    let terms = args.cpu.map_or(terms, |cpu| terms.on(cpu, walk));
    let engine = Engine::new(policy, args.budgets.budgets(), args.budgets.interval);
    if args.simulated {
        let machine = SimulatedReplay::new(&header, reader, terms);
        let machine = machine.map_err(|error| {
            Failure::Failed(format!("cannot simulate {}: {error}", args.file.display()))
        })?;
        let (course, machine) = follow(engine, machine);
        return Ok((course, header, machine.looks().usable().clone()));
    }
    let machine = ReplayedMachine::new(&header, reader, terms);
    let (course, machine) = follow(engine, machine);
    let usable = machine.looks().usable().clone();
    recording::need_look(&args.file, &usable)?;
    Ok((course, header, usable))
}
