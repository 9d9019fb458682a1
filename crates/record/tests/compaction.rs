//! What compaction does on the simulated machine stands in its recording as it was.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::time::Duration;

use mega_core::BASE_PAGE_SIZE;
use mega_core::Machine;
use mega_core::compaction::{self, Compactor, Goal, Stopped, ToEmpty, Unit};
use mega_core::promotion::Parameters;
use mega_record::overview::Overview;
use mega_record::{Compacted, Ending, Header, Look, Reader, Writer};
use mega_sim::address_space::Advice;
use mega_sim::physical::Layout;
use mega_sim::{Costs, Kernel, Settings, SimulatedMachine};

const MIB: u64 = 1 << 20;

/// A machine half of whose memory has every second page free.
fn fragmented() -> SimulatedMachine {
    let layout = Layout::one_node(256 * MIB).unwrap();
    let mut kernel = Kernel::new(&layout, Settings::default(), Costs::mega_notebook());
    let pid = kernel.spawn(0);
    let start = kernel.map(pid, 128 * MIB, Advice::None);
    let pages = (start..start + 128 * MIB).step_by(usize::try_from(BASE_PAGE_SIZE).unwrap());
    for address in pages.clone() {
        kernel.touch(pid, address).unwrap();
    }
    for address in pages.step_by(2) {
        kernel.discard(pid, address, BASE_PAGE_SIZE);
    }
    SimulatedMachine::new(kernel, 1)
}

#[test]
fn what_was_emptied_is_read_again_as_the_kernel_counted_it() {
    let mut machine = fragmented();
    let goal = Goal {
        unit: Unit::Block,
        count: 4,
        pages: 4096,
    };
    let physical = machine.observe_physical().unwrap();
    let mut policy = compaction::build("trident", &Parameters::new()).unwrap();
    let mut targets = policy.select(&physical, &goal);
    // Where no memory is, nothing can be emptied.
    targets.push(ToEmpty {
        unit: Unit::Block,
        first_pfn: 1 << 30,
        pages: 1,
        empties: true,
    });
    let before = machine.kernel().counters().migrated;
    let emptied = machine.empty(&targets).unwrap();
    let migrated = machine.kernel().counters().migrated - before;
    assert!(migrated > 0, "{emptied:?}");

    let at = machine.now();
    let look = Look {
        observation: machine.observe().unwrap(),
        compacted: emptied
            .iter()
            .map(|emptied| Compacted {
                at,
                emptied: *emptied,
            })
            .collect(),
        ..Look::default()
    };
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    writer.write(&look).unwrap();
    let (file, _) = writer.finish().unwrap();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    let read = reader.next().unwrap();
    assert_eq!(reader.next(), None);
    assert_eq!(reader.usable().ending, Ending::Whole);
    assert_eq!(read, look);

    let outcome = |of: Stopped| {
        let all = read.compacted.iter().map(|compacted| compacted.emptied);
        all.filter(|emptied| emptied.stopped == of).count()
    };
    assert_eq!(
        (outcome(Stopped::Emptied), outcome(Stopped::NotInOneZone)),
        (4, 1)
    );
    let took: Duration = emptied.iter().map(|emptied| emptied.took).sum();
    assert!(took > Duration::ZERO && took <= at, "{took:?} of {at:?}");
    let mut overview = Overview::default();
    overview.add(&read);
    assert_eq!(overview.compaction.pages_migrated, migrated);
    assert_eq!(overview.compaction.tried(), 5);
}
