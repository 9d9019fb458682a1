//! The simulated allocator against what a real guest's did: `kernel/vm/suites/free-lists` records the guest's free lists, in the
//! order of the lists, then each area that they gave and got, then the lists again. The same is done to the simulated memory here,
//! and it has to give the same areas, and to end with the same lists.
//!
//! What the kernel keeps on the lists of a CPU is in use as far as the free lists know, so nothing has to be drained, and nothing
//! depends on it. A recording is text:
//!
//! | line | says |
//! |---|---|
//! | `zone N NAME FROM TO` | the frames of a zone |
//! | `movable FRAME COUNT` | these were on an LRU list at the beginning: in use, and movable |
//! | `begin`, `end` | what follows is the state then |
//! | `type TYPE` | of the next block |
//! | `free ZONE ORDER TYPE FRAME` | a free area, in the order of its list |
//! | `events` | what follows happened between the two |
//! | `a ORDER TYPE DISTANCE` | an area was taken for pages of that type (`mm_page_alloc_zone_locked`) |
//! | `s ORDER FROM TYPE OTHER DISTANCE` | it came from an area of order FROM of another type (`mm_page_alloc_extfrag`) |
//! | `d ORDER TYPE DISTANCE` | an area came back to a block of that type (`mm_page_pcpu_drain`) |
//! | `f ORDER 0 DISTANCE` | an area too large for the lists of a CPU came back (`mm_page_free`) |
//! | `x N` | the last line N times more |
//!
//! DISTANCE is from the frame of the event before, which begins at 0. Where a type's own lists were refilled by a whole block, an
//! `s` follows the `a` of the same area.

use std::collections::BTreeMap;
use std::io::Read;

use super::block::NONE;
use super::*;

/// A recording of a guest with 288 MiB: Debian's 6.12.117, one CPU.
const KEPT: &[u8] = include_bytes!("recorded.gz");
/// Names another one.
const OTHER: &str = "MEGA_FREE_LISTS";

/// A list: zone, order and type of its areas.
type List = (usize, u8, u8);

/// What was free at one moment, and of which type each block was.
#[derive(Default)]
struct State {
    types: Vec<u8>,
    lists: BTreeMap<List, Vec<u32>>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Taken {
        first: u32,
        order: u8,
        kind: u8,
        from: From,
    },
    Freed {
        first: u32,
        order: u8,
        /// The type of the block, where it is said.
        kind: Option<u8>,
    },
}

/// Where an area was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The type's own lists.
    Own,
    /// Another type's area, whose block it got. Of what order, and whose.
    Claimed(u8, u8),
    /// Another type's area alone.
    Stolen,
}

#[derive(Default)]
struct Recording {
    frames: u32,
    movable: Vec<(u32, u32)>,
    states: Vec<State>,
    events: Vec<Event>,
}

fn mobility_of(kind: u8) -> Mobility {
    match kind {
        0 => Mobility::Unmovable,
        1 => Mobility::Movable,
        2 => Mobility::Reclaimable,
        other => panic!("type {other} is not simulated: record again"),
    }
}

fn text(compressed: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(compressed)
        .read_to_string(&mut text)
        .expect("a recording is compressed text");
    text
}

impl Recording {
    fn read() -> Self {
        let bytes = std::env::var_os(OTHER).map_or_else(
            || KEPT.to_vec(),
            |file| std::fs::read(&file).expect("the recording can be read"),
        );
        let text = text(&bytes);
        let mut recording = Recording::default();
        let (mut at, mut last) = (0, "");
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["x", times] = words[..] {
                for _ in 0..times.parse::<u32>().unwrap() {
                    recording.line(last, &mut at);
                }
                continue;
            }
            recording.line(line, &mut at);
            last = line;
        }
        assert!(text.ends_with("done\n"), "the recording is cut");
        recording
    }

    fn line(&mut self, line: &str, at: &mut i64) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words[place].parse::<u32>().unwrap();
        let small = |place: usize| words[place].parse::<u8>().unwrap();
        let state = self.states.last_mut();
        match words[0] {
            "zone" => self.frames = self.frames.max(number(4)),
            "movable" => self.movable.push((number(1), number(2))),
            "begin" | "end" => self.states.push(State::default()),
            "type" => state.unwrap().types.push(small(1)),
            "free" => {
                let list = (usize::from(small(1)), small(2), small(3));
                state
                    .unwrap()
                    .lists
                    .entry(list)
                    .or_default()
                    .push(number(4));
            }
            "a" | "s" | "d" | "f" => {
                *at += words.last().unwrap().parse::<i64>().unwrap();
                let first = u32::try_from(*at).unwrap();
                let numbers: Vec<u8> = (1..words.len() - 1).map(small).collect();
                self.event(words[0], first, &numbers);
            }
            "events" | "done" => {}
            other => panic!("a line that is none: {other}"),
        }
    }

    fn event(&mut self, name: &str, first: u32, numbers: &[u8]) {
        let event = match (name, numbers) {
            ("a", &[order, kind]) => Event::Taken {
                first,
                order,
                kind,
                from: From::Own,
            },
            ("s", &[order, found, kind, other]) => {
                // A block was claimed, and its area taken from the own lists then: that is one event.
                if let Some(Event::Taken {
                    first: before,
                    from,
                    ..
                }) = self.events.last_mut()
                    && *before == first
                    && *from == From::Own
                {
                    *from = From::Claimed(found, other);
                    return;
                }
                let from = if found >= BLOCK_ORDER {
                    From::Claimed(found, other)
                } else {
                    From::Stolen
                };
                Event::Taken {
                    first,
                    order,
                    kind,
                    from,
                }
            }
            ("d", &[order, kind]) => Event::Freed {
                first,
                order,
                kind: Some(kind),
            },
            ("f", &[order, _]) => Event::Freed {
                first,
                order,
                kind: None,
            },
            other => panic!("an event that is none: {other:?}"),
        };
        self.events.push(event);
    }
}

/// The simulated memory, in the state that was recorded.
struct Replayed {
    memory: PhysicalMemory,
    /// What was stolen last, if nothing else came since: zone, order and type.
    stealing: Option<(usize, u8, Mobility)>,
    /// Decisions whether a block is claimed, and those where the guest decided otherwise.
    decisions: u32,
    decided_otherwise: u32,
}

impl Replayed {
    fn new(recording: &Recording) -> Self {
        let bytes = u64::from(recording.frames).next_multiple_of(1024) * 4096;
        let mut memory = PhysicalMemory::new(&Layout::one_node(bytes).unwrap());
        let state = &recording.states[0];
        // All is in use first, and then given back, from the tail of each list on.
        for block in 0..memory.blocks() {
            let first = Frame::in_block(block, 0);
            if block.is_multiple_of(2) {
                memory.remove(first, LARGEST_ORDER, Mobility::Movable);
            }
            let kind = state.types.get(block as usize).copied().unwrap_or(0);
            memory.blocks[block as usize].mobility = mobility_of(kind);
        }
        let mut replayed = Replayed {
            memory,
            stealing: None,
            decisions: 0,
            decided_otherwise: 0,
        };
        for frame in 0..u32::try_from(bytes / 4096).unwrap() {
            replayed.occupy(frame, 0, false);
        }
        for &(first, count) in &recording.movable {
            for frame in first..first + count {
                replayed.vacate(frame, 0);
                replayed.occupy(frame, 0, true);
            }
        }
        for (&(_, order, kind), areas) in &state.lists {
            for &first in areas {
                replayed.vacate(first, order);
                let memory = &mut replayed.memory;
                memory.add_to_tail(Frame::new(first), order, mobility_of(kind));
            }
        }
        replayed.memory.check().unwrap();
        replayed
    }

    /// The frames of an area are in use from now on, each by itself: parts of it may come back.
    fn occupy(&mut self, first: u32, order: u8, is_movable: bool) {
        for frame in first..first + (1 << order) {
            let frame = Frame::new(frame);
            let block = &mut self.memory.blocks[frame.block_index() as usize];
            let kind = if is_movable {
                block.movable += 1;
                block::FrameKind::Movable
            } else {
                block.unmovable += 1;
                block::FrameKind::Kernel(0)
            };
            block.free -= 1;
            block.split().set_kind(frame.offset(), kind);
        }
    }

    /// Nobody has the frames of an area any more.
    fn vacate(&mut self, first: u32, order: u8) {
        for frame in first..first + (1 << order) {
            let frame = Frame::new(frame);
            let block = &mut self.memory.blocks[frame.block_index() as usize];
            let kind = block.split().kind(frame.offset());
            match kind {
                block::FrameKind::Movable => block.movable -= 1,
                block::FrameKind::Kernel(0) => block.unmovable -= 1,
                other => panic!("frame {} is freed, and it is {other:?}", frame.number()),
            }
            block.free += 1;
            block
                .split()
                .set_kind(frame.offset(), block::FrameKind::Tail);
        }
    }

    /// The event, done here; the area that was taken.
    fn follow(&mut self, event: Event) -> Option<u32> {
        match event {
            Event::Taken {
                first,
                order,
                kind,
                from,
            } => {
                let taken = self.take(first, order, mobility_of(kind), from)?.number();
                self.occupy(taken, order, kind == 1);
                Some(taken)
            }
            Event::Freed { first, order, kind } => {
                self.stealing = None;
                self.vacate(first, order);
                let part = order.min(BLOCK_ORDER);
                for index in 0..1u32 << (order - part) {
                    let first = Frame::new(first + (index << part));
                    let is = self.memory.mobility_of(first);
                    if let Some(kind) = kind {
                        assert_eq!(is, mobility_of(kind), "the type of the block of {first:?}");
                    }
                    self.memory.give_back(first, part, is);
                }
                None
            }
        }
    }

    /// Takes an area, in the zone in which the guest took one. Where the guest decided otherwise whether to claim a block, that is
    /// counted, and done as the guest did it.
    fn take(&mut self, first: u32, order: u8, mobility: Mobility, from: From) -> Option<Frame> {
        let zone = self.memory.zone_of(Frame::new(first).block_index());
        if from != From::Stolen {
            self.stealing = None;
        }
        if from == From::Own {
            return self.memory.take_smallest(zone, order, mobility);
        }
        let lists = &self.memory.zones[zone].lists;
        let own = (order..=LARGEST_ORDER).map(|order| lists.list(order, mobility).count);
        assert_eq!(own.sum::<u64>(), 0, "{first} is another type's");
        let claimable = self.memory.claimable(zone, order, mobility, false);
        let claimed = match from {
            From::Claimed(found, _) => Some(found),
            From::Own | From::Stolen => None,
        };
        // Once it had to steal, the kernel goes on so until a CPU's list is full (`enum rmqueue_mode`).
        let goes_on = self.stealing == Some((zone, order, mobility)) && claimed.is_none();
        if !goes_on {
            self.decisions += 1;
            let differs = claimable.map(|(_, found)| found) != claimed;
            self.decided_otherwise += u32::from(differs);
        }
        if let From::Claimed(found, other) = from {
            let area = self.memory.first(zone, found, mobility_of(other));
            return self.memory.claim_block(zone, area, found, order, mobility);
        }
        self.stealing = Some((zone, order, mobility));
        self.memory.steal(zone, order, mobility)
    }

    fn lists(&self) -> BTreeMap<List, Vec<u32>> {
        let mut all = BTreeMap::new();
        for zone in 0..self.memory.zones.len() {
            for order in 0..=LARGEST_ORDER {
                for kind in 0..3 {
                    let mut areas = Vec::new();
                    let mut next = self.memory.zones[zone]
                        .lists
                        .list(order, mobility_of(kind))
                        .first;
                    while next != NONE {
                        areas.push(next);
                        next = self.memory.links(Frame::new(next)).next;
                    }
                    if !areas.is_empty() {
                        all.insert((zone, order, kind), areas);
                    }
                }
            }
        }
        all
    }
}

/// Each area that the guest's allocator gave is the one that the simulated allocator gives, and the lists are the same in the end.
///
/// Only in one decision the guest may differ, and then it is followed: whether a block is claimed depends on how many of its pages are
/// on an LRU list, and the lists' events do not tell that. Pages that wait on a list of the CPU are not, and from there they go to
/// whoever asks next for pages of their block's type. That matters only where about half of a block is movable: in a quarter of these
/// decisions at most. In one guest of six it is more by chance, so the suite asks up to three.
#[test]
fn the_same_areas_are_given_as_in_a_guest() {
    let recording = Recording::read();
    let mut replayed = Replayed::new(&recording);
    for (place, &event) in recording.events.iter().enumerate() {
        let taken = replayed.follow(event);
        if let Event::Taken { first, .. } = event {
            let all = recording.events.len();
            assert_eq!(taken, Some(first), "event {place} of {all}: {event:?}");
        }
    }
    replayed.memory.check().unwrap();
    let last = &recording.states[1];
    assert_eq!(replayed.lists(), last.lists);
    for (block, &kind) in last.types.iter().enumerate() {
        let is = replayed.memory.blocks[block].mobility;
        assert_eq!(is, mobility_of(kind), "block {block}");
    }
    let (decisions, otherwise) = (replayed.decisions, replayed.decided_otherwise);
    println!(
        "{} events; {decisions} decisions whether to claim a block, {otherwise} otherwise",
        recording.events.len(),
    );
    // kernel/vm/suites/free-lists knows this message.
    assert!(
        otherwise * 4 <= decisions,
        "too many decisions were otherwise: {otherwise} of {decisions}"
    );
}
