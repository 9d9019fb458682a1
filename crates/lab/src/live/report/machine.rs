//! The machine, for people.

use mega_core::bytes;

use crate::live::machine::Machine;

/// What it is, as names and texts.
pub(super) fn facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let nodes = match machine.numa_nodes {
        1 => "1 NUMA node".to_owned(),
        nodes => format!("{nodes} NUMA nodes"),
    };
    let hardware = if machine.virtual_machine {
        "virtual machine"
    } else {
        "no virtual machine"
    };
    let module = if machine.module { "" } else { "not " };
    vec![
        (
            "processor",
            format!("{}, {} logical CPUs", known(&machine.cpu), machine.cpus),
        ),
        (
            "memory",
            format!("{}, {nodes}", bytes::format(machine.memory_bytes)),
        ),
        ("kernel", known(&machine.kernel).to_owned()),
        ("system", format!("{}, {hardware}", known(&machine.system))),
        (
            "mega",
            format!(
                "{}, commit {}, mega.ko {module}loaded",
                known(&machine.mega),
                known(&machine.commit)
            ),
        ),
        ("THP mode before", known(&machine.thp_mode).to_owned()),
        ("began", known(&machine.began).to_owned()),
    ]
}

/// In one line, for under a chart.
pub(super) fn line(machine: &Machine) -> String {
    format!(
        "{}, {} CPUs, {}; Linux {}; mega {}; {}",
        known(&machine.cpu),
        machine.cpus,
        bytes::format(machine.memory_bytes),
        known(&machine.kernel),
        known(&machine.mega),
        known(&machine.began)
    )
}

/// Whether two experiments ran on the same machine with the same kernel and mega, whenever that was.
pub(super) fn is_same(one: &Machine, other: &Machine) -> bool {
    let at_the_same_time = Machine {
        began: one.began.clone(),
        ..other.clone()
    };
    *one == at_the_same_time
}

fn known(text: &str) -> &str {
    if text.is_empty() { "not known" } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn what_is_not_known_is_said() {
        let facts = facts(&Machine::default());
        assert!(facts.contains(&("kernel", "not known".to_owned())));
        assert!(line(&Machine::default()).starts_with("not known, 0 CPUs"));
    }

    #[test]
    fn a_machine_is_the_same_at_another_time() {
        let machine = example::three_rounds().machine;
        let later = Machine {
            began: "2027-01-01T00:00:00Z".into(),
            ..machine.clone()
        };
        assert!(is_same(&machine, &later));
        assert!(!is_same(&machine, &Machine::default()));
    }
}
