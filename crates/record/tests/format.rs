//! What is written is read again; what is cut or damaged is read as far as it is whole; nothing that is read panics.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking, in its helpers too.

use std::collections::BTreeMap;
use std::time::Duration;

use mega_core::compaction::{Emptied, MigrationCounts, Stopped, ToEmpty, Unit};
use mega_core::worth::Estimate;
use mega_core::{
    Action, ActionKind, Call, CallKind, Cause, CgroupMemory, Gain, Glance, HUGE_PAGE_SIZE,
    MemoryObservation, NodeMemory, Observation, Outcome, PageSize, ProcessId, ProcessObservation,
    Region, RegionObservation, RegionRef,
};
use mega_record::format::block::{self, Kind};
use mega_record::reader::OpenError;
use mega_record::{
    Acted, Compacted, Ending, FreeList, Header, Look, News, Reader, TouchRate, Usable, Writer,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

fn process() -> impl Strategy<Value = ProcessId> {
    (1_u32..50, 0_u64..1000).prop_map(|(pid, start_time)| ProcessId { pid, start_time })
}

fn region() -> impl Strategy<Value = (u64, RegionObservation)> {
    let size = select(vec![PageSize::Base, PageSize::Huge, PageSize::Giant]);
    // Few values of each, so that neighbours are alike now and then; and any.
    let mapped = prop_oneof![Just(512_u16), 1_u16..=512];
    (
        0_u64..4,
        mapped,
        0_u16..=512,
        size,
        0_u16..=512,
        any::<Option<u16>>(),
    )
        .prop_map(|(gap, mapped, accessed, page_size, swapped, zero_filled)| {
            let seen = RegionObservation {
                region: Region::containing(0),
                mapped,
                accessed: accessed.min(mapped),
                page_size,
                zero_filled: zero_filled.map(|pages| pages.min(mapped)),
                swapped: swapped.min(512 - mapped),
            };
            (gap, seen)
        })
}

fn regions() -> impl Strategy<Value = Vec<RegionObservation>> {
    (0_u64..1 << 26, vec(region(), 0..40)).prop_map(|(first, regions)| {
        let mut index = first;
        let place = |(gap, seen): (u64, RegionObservation)| {
            index += gap;
            let region = Region::containing(index * HUGE_PAGE_SIZE);
            index += 1;
            RegionObservation { region, ..seen }
        };
        regions.into_iter().map(place).collect()
    })
}

fn observed() -> impl Strategy<Value = Vec<ProcessObservation>> {
    let about = (
        regions(),
        any::<bool>(),
        any::<Option<u32>>(),
        any::<Option<(u64, u64)>>(),
        any::<Option<Duration>>(),
    );
    btree_map(process(), about, 0..4).prop_map(|processes| {
        let observed =
            |(process, (regions, accesses_known, node, cgroup, cpu_time))| ProcessObservation {
                process,
                cpu_time,
                regions,
                accesses_known,
                node,
                cgroup: Option::map(cgroup, |(limit, available)| CgroupMemory {
                    limit,
                    available,
                }),
            };
        processes.into_iter().map(observed).collect()
    })
}

fn memory() -> impl Strategy<Value = MemoryObservation> {
    let nodes = btree_map(0_u32..4, any::<(u64, u64)>(), 0..3);
    (any::<[u64; 4]>(), nodes).prop_map(|([total, available, free, contiguity], nodes)| {
        let nodes = nodes
            .into_iter()
            .map(|(node, (free, contiguity))| NodeMemory {
                node,
                free,
                contiguity,
            });
        MemoryObservation {
            total,
            available,
            free,
            contiguity,
            nodes: nodes.collect(),
        }
    })
}

fn touches() -> impl Strategy<Value = TouchRate> {
    (0.0..1e9, 0.0..64.0, any::<u64>(), any::<Option<bool>>()).prop_map(
        |(per_cpu_second, cpus, working_set, gain)| TouchRate {
            per_cpu_second,
            cpus,
            working_set,
            gain: gain.map(|pays| Gain {
                saved_share: Estimate::within(cpus / 64.0, 0.0, 1.0),
                cpus,
                cost_cpu_seconds: 0.25,
                payback_seconds: pays.then_some(2.5),
                saved_by_giant_share: None,
                working_set,
            }),
        },
    )
}

fn news() -> impl Strategy<Value = News> {
    let range = (0_u64..1 << 20, 1_u64..9)
        .prop_map(|(start, length)| start * HUGE_PAGE_SIZE..(start + length) * HUGE_PAGE_SIZE);
    (
        btree_map(process(), any::<String>(), 0..3),
        btree_map(process(), vec(range, 0..4), 0..3),
        btree_map(process(), touches(), 0..3),
        any::<Option<Vec<String>>>(),
    )
        .prop_map(|(names, mappings, touches, others)| News {
            names,
            mappings,
            touches,
            others,
        })
}

fn acted() -> impl Strategy<Value = Acted> {
    let outcome = prop_oneof![
        any::<(u64, u64)>().prop_map(|(resident_before, resident_after)| Outcome::Done {
            resident_before,
            resident_after,
        }),
        any::<(u64, Option<u64>)>().prop_map(|(copied, exchanged)| Outcome::Remapped {
            copied,
            exchanged: exchanged.unwrap_or(0),
        }),
        Just(Outcome::AlreadySo),
        select(Cause::ALL.to_vec()).prop_map(Outcome::Failed),
        Just(Outcome::NotTried),
    ];
    let kind = select(ActionKind::ALL.to_vec());
    (any::<u32>(), kind, process(), 0_u64..1 << 40, outcome).prop_map(
        |(at, kind, process, region, outcome)| {
            let region = Region::containing(region * HUGE_PAGE_SIZE);
            Acted {
                at: Duration::from_micros(at.into()),
                action: Action {
                    kind,
                    target: RegionRef { process, region },
                },
                outcome,
            }
        },
    )
}

fn compacted() -> impl Strategy<Value = Compacted> {
    let target =
        (select(vec![Unit::Block, Unit::Chunk]), 0_u64..1 << 22).prop_flat_map(|(unit, number)| {
            (0..=unit.pages(), any::<bool>()).prop_map(move |(pages, empties)| ToEmpty {
                unit,
                first_pfn: number * u64::from(unit.pages()),
                pages,
                empties,
            })
        });
    let counts =
        any::<[u64; 4]>().prop_map(|[scanned, isolated, migrated, failed]| MigrationCounts {
            scanned,
            isolated,
            migrated,
            failed,
        });
    let stopped = select(Stopped::ALL.to_vec());
    (any::<[u32; 2]>(), target, stopped, counts).prop_map(
        |([at, took], target, stopped, counts)| Compacted {
            at: Duration::from_micros(at.into()),
            emptied: Emptied {
                target,
                stopped,
                counts,
                took: Duration::from_nanos(took.into()),
            },
        },
    )
}

fn call() -> impl Strategy<Value = Call> {
    let range = (0_u64..1 << 35, 0_u64..1 << 20)
        .prop_map(|(first, count)| first * 4096..(first + count) * 4096);
    let kind = prop_oneof![
        range.clone().prop_map(CallKind::Mapped),
        range.clone().prop_map(CallKind::Unmapped),
        range.prop_map(CallKind::Discarded),
        process().prop_map(CallKind::Forked),
    ];
    (any::<u32>(), process(), kind).prop_map(|(at, process, kind)| Call {
        at: Duration::from_micros(at.into()),
        process,
        kind,
    })
}

fn look() -> impl Strategy<Value = Look> {
    let free_list =
        (0_u32..4, vec(any::<u64>(), 0..12)).prop_map(|(node, areas)| FreeList { node, areas });
    let times = (any::<u32>(), any::<u32>(), any::<u32>(), any::<[bool; 2]>());
    (
        times,
        (observed(), glances()),
        memory(),
        vec(free_list, 0..3),
        news(),
        any::<Option<u8>>(),
        (vec(acted(), 0..6), vec(compacted(), 0..4)),
        (vec(call(), 0..6), any::<u64>()),
    )
        .prop_map(
            |(
                (cpu, missed, interval, [giant_pages, free_zero]),
                (processes, glances),
                memory,
                free_lists,
                news,
                idle,
                (actions, compacted),
                (calls, calls_lost),
            )| {
                let observation = Observation {
                    interval: Duration::from_micros(interval.into()),
                    processes,
                    memory,
                    idle_cpus: idle.map(f64::from),
                    giant_pages,
                    free_zero,
                    counted: BTreeMap::new(),
                    glances,
                };
                Look {
                    at: Duration::ZERO,
                    cpu: Duration::from_nanos(cpu.into()),
                    missed,
                    observation,
                    free_lists,
                    news,
                    actions,
                    compacted,
                    calls,
                    calls_lost,
                }
            },
        )
}

fn glances() -> impl Strategy<Value = Vec<Glance>> {
    (observed(), any::<u32>()).prop_map(|(processes, length)| {
        let glance = |seen: ProcessObservation| Glance {
            process: seen.process,
            length: Duration::from_micros(length.into()),
            worked: seen.cpu_time,
            regions: seen.regions,
        };
        processes.into_iter().map(glance).collect()
    })
}

/// Looks one after the other, some of them more than a block apart.
fn looks() -> impl Strategy<Value = Vec<Look>> {
    vec((0_u64..8_000_000_000, look()), 0..12).prop_map(|looks| {
        let mut at = Duration::ZERO;
        let place = |(after, look): (u64, Look)| {
            at += Duration::from_nanos(after);
            Look { at, ..look }
        };
        looks.into_iter().map(place).collect()
    })
}

fn header() -> Header {
    Header {
        recorder: "0.1.0".to_owned(),
        subject: "a program".to_owned(),
        interval_ms: 1000,
        ..Header::default()
    }
}

fn recorded(looks: &[Look]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    for look in looks {
        writer.write(look).unwrap();
    }
    let (file, bytes) = writer.finish().unwrap();
    assert_eq!(file.len() as u64, bytes);
    file
}

/// All looks of a file that are usable, and what is said of that.
fn read(file: &[u8]) -> Result<(Vec<Look>, Usable), OpenError> {
    let mut reader = Reader::new(file)?;
    let looks: Vec<Look> = reader.by_ref().collect();
    assert!(reader.next().is_none(), "it goes on after its end");
    let usable = reader.usable().clone();
    assert_eq!(usable.looks, looks.len() as u64);
    assert_eq!(
        usable.until,
        looks.last().map_or(Duration::ZERO, |look| look.at)
    );
    assert!(usable.bytes <= file.len() as u64);
    Ok((looks, usable))
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(looks in looks()) {
        let file = recorded(&looks);
        let (read, usable) = read(&file).unwrap();
        prop_assert_eq!(&read, &looks);
        prop_assert_eq!(usable.ending, Ending::Whole);
        prop_assert_eq!(usable.bytes, file.len() as u64);
        prop_assert_eq!(recorded(&read), file, "the same looks give the same bytes");
    }

    #[test]
    fn a_file_that_is_cut_has_its_first_looks(looks in looks(), part in 0.0..1.0) {
        let file = recorded(&looks);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let length = (file.len() as f64 * part) as usize;
        let Ok((read, usable)) = read(&file[..length]) else {
            return Ok(());
        };
        prop_assert!(looks.starts_with(&read));
        prop_assert_eq!(usable.ending, Ending::Cut);
        let (again, _) = self::read(&file[..usize::try_from(usable.bytes).unwrap()]).unwrap();
        prop_assert_eq!(again, read, "the bytes that are called usable are");
    }

    #[test]
    fn a_flipped_bit_costs_only_what_lies_behind_it(looks in looks(), place: prop::sample::Index, bit in 0_u8..8) {
        let mut file = recorded(&looks);
        let place = place.index(file.len());
        file[place] ^= 1 << bit;
        let Ok((read, usable)) = read(&file) else {
            return Ok(());
        };
        prop_assert!(looks.starts_with(&read));
        prop_assert!(usable.bytes <= place as u64);
        prop_assert_ne!(usable.ending, Ending::Whole);
    }

    #[test]
    #[test]
    fn a_look_of_version_4_has_all_but_what_was_emptied_and_what_is_newer(look in look()) {
        let look = without_cpu_times(without_glances(Look { compacted: Vec::new(), ..look }));
        recording_without(&look, 4, 2 + bytes_of_cpu_times(&look));
    }

    #[test]
    fn a_look_of_version_5_has_all_but_cpu_times_and_glances(look in look()) {
        let look = without_cpu_times(without_glances(look));
        recording_without(&look, 5, 1 + bytes_of_cpu_times(&look));
    }

    #[test]
    fn a_look_of_version_6_has_all_but_glances(look in look()) {
        recording_without(&without_glances(look), 6, 1);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = read(&bytes);
    }

    /// Behind right checksums, as an attacker would write them.
    #[test]
    fn any_content_is_read_or_refused(contents in vec((0_usize..3, any::<Vec<u8>>()), 1..4)) {
        let mut file = recorded(&[]);
        // Without the end.
        let begun = Writer::new(Vec::new(), &header()).unwrap().bytes();
        file.truncate(usize::try_from(begun).unwrap());
        for (kind, content) in contents {
            let kind = [Kind::Header, Kind::Looks, Kind::End][kind];
            block::write(&mut file, kind, &content).unwrap();
        }
        let (_, usable) = read(&file).unwrap();
        prop_assert!(usable.bytes >= begun);
    }

    /// Looks that were written, with a few of their bytes changed before the checksum was made.
    #[test]
    fn changed_looks_are_read_or_refused(
        look in look(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let file = recorded(&[look]);
        let begun = usize::try_from(Writer::new(Vec::new(), &header()).unwrap().bytes()).unwrap();
        let (_, mut content, _) = block::read(&mut &file[begun..]).unwrap().unwrap();
        for (place, byte) in changes {
            let place = place.index(content.len());
            content[place] = byte;
        }
        let mut changed = file[..begun].to_vec();
        block::write(&mut changed, Kind::Looks, &content).unwrap();
        let (looks, _) = read(&changed).unwrap();
        for look in looks {
            let mut normal = look.observation.clone();
            normal.normalise();
            prop_assert_eq!(normal.processes, look.observation.processes);
        }
    }
}

#[test]
fn another_version_and_another_file_are_told_apart() {
    let mut file = recorded(&[]);
    file[8] = 8;
    let other = Reader::new(file.as_slice()).err().expect("refused");
    assert!(matches!(other, OpenError::OtherVersion(8)), "{other}");
    file[0] = b'X';
    let other = Reader::new(file.as_slice()).err().expect("refused");
    assert!(matches!(other, OpenError::NoRecording), "{other}");
    assert!(matches!(
        Reader::new([].as_slice()),
        Err(OpenError::NoRecording)
    ));
}

/// Version 1 had the same looks, without actions and calls, version 2 without calls, version 3 without what was exchanged, version 4
/// without what compaction did, version 5 without CPU times, and version 6 without glances.
#[test]
fn recordings_of_older_versions_are_read() {
    // The last bytes say how many actions and calls there are, how many were lost, how often something was emptied, and how many
    // processes and glances there are: none.
    for (version, bytes) in [(1, 6), (2, 5), (3, 3), (4, 3), (5, 2), (6, 1)] {
        recording_without(&Look::default(), version, bytes);
    }
}

fn without_glances(mut look: Look) -> Look {
    look.observation.glances.clear();
    look
}

fn without_cpu_times(mut look: Look) -> Look {
    for process in &mut look.observation.processes {
        process.cpu_time = None;
    }
    look
}

/// How many there are, and a byte for each that is not known.
fn bytes_of_cpu_times(look: &Look) -> usize {
    1 + look.observation.processes.len()
}

fn recording_without(look: &Look, version: u8, bytes: usize) {
    let file = recorded(std::slice::from_ref(look));
    let begun = usize::try_from(Writer::new(Vec::new(), &header()).unwrap().bytes()).unwrap();
    let mut rest = &file[begun..];
    let (_, content, _) = block::read(&mut rest).unwrap().unwrap();
    let mut old = file[..12].to_vec();
    old[8] = version;
    let (kind, said, _) = block::read(&mut &file[12..]).unwrap().unwrap();
    let mut said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    let said_version = said.as_object_mut().unwrap().remove("format").unwrap();
    assert_eq!(said_version, 7);
    if version >= 5 {
        said["format"] = version.into();
    }
    block::write(&mut old, kind, &serde_json::to_vec(&said).unwrap()).unwrap();
    block::write(&mut old, Kind::Looks, &content[..content.len() - bytes]).unwrap();
    old.extend(rest);
    let (looks, usable) = read(&old).unwrap();
    assert_eq!(looks, std::slice::from_ref(look));
    assert_eq!(usable.ending, Ending::Whole);
}

/// What says the version has no checksum of its own.
#[test]
fn a_version_that_is_damaged_is_not_taken_for_another() {
    let mut file = recorded(&[Look::default()]);
    for version in 1..7 {
        file[8] = version;
        let refused = Reader::new(file.as_slice()).err().expect("refused");
        assert!(refused.to_string().contains("another version"), "{refused}");
    }
}

/// Right but for one number, which no compaction can have had.
#[test]
fn what_no_compaction_can_have_emptied_is_refused() {
    let sound = Compacted {
        at: Duration::from_secs(1),
        emptied: Emptied {
            target: ToEmpty {
                unit: Unit::Block,
                first_pfn: 512 * 7,
                pages: 512,
                empties: true,
            },
            stopped: Stopped::Emptied,
            counts: MigrationCounts::default(),
            took: Duration::ZERO,
        },
    };
    let looks = |compacted: Compacted| {
        let look = Look {
            compacted: vec![compacted],
            ..Look::default()
        };
        read(&recorded(&[look])).unwrap()
    };
    assert_eq!(looks(sound).0.len(), 1);
    let mut pages = sound;
    pages.emptied.target.pages = 513;
    let mut place = sound;
    place.emptied.target.first_pfn = u64::MAX;
    for wrong in [pages, place] {
        let (looks, usable) = looks(wrong);
        assert_eq!(looks, []);
        let how = usable.to_string();
        assert!(how.contains("what was emptied"), "{how}");
    }
}

#[test]
fn a_length_that_is_a_lie_takes_no_memory() {
    let mut file = recorded(&[]);
    // The length that the header's block claims to have stored.
    file[13..17].copy_from_slice(&(60_u32 << 20).to_le_bytes());
    let refused = Reader::new(file.as_slice()).err().expect("refused");
    assert!(
        refused.to_string().contains("middle of a block"),
        "{refused}"
    );
}

#[test]
fn regions_that_are_alike_take_no_room() {
    let region = |index: u64| RegionObservation {
        region: Region::containing(index * HUGE_PAGE_SIZE),
        mapped: 512,
        accessed: 512,
        page_size: PageSize::Base,
        zero_filled: None,
        swapped: 0,
    };
    let mut look = Look::default();
    look.observation.processes.push(ProcessObservation {
        cpu_time: None,
        process: ProcessId {
            pid: 1,
            start_time: 1,
        },
        regions: (0..131_072).map(region).collect(),
        accesses_known: true,
        node: None,
        cgroup: None,
    });
    let file = recorded(&[look]);
    assert!(file.len() < 512, "256 GiB take {} bytes", file.len());
}
