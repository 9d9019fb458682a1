//! Why memory was not in huge pages, and what would help, in words.

use mega_core::bytes;

use crate::history::{Counts, SelectionSlot};

/// Bytes by what is in the way, the most first, as "3 GiB with nothing in the way, 1 MiB partly in swap".
pub(super) fn rest_in_words(rest: &Counts) -> String {
    let mut parts: Vec<(&String, u64)> = rest.iter().map(|(name, size)| (name, *size)).collect();
    parts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let words: Vec<String> = parts
        .into_iter()
        .map(|(name, size)| format!("{} {}", bytes::format(size), in_the_way(name)))
        .collect();
    words.join(", ")
}

fn in_the_way(name: &str) -> &str {
    match name {
        "none" => "with nothing in the way",
        "partly_mapped" => "mapped in part",
        "swapped" => "partly in swap",
        other => other,
    }
}

/// What would help a selection, each in one sentence.
pub(super) fn help(selection: &SelectionSlot) -> Vec<String> {
    let size = |name: &str| selection.rest.get(name).copied().unwrap_or(0);
    let failed = |cause: &str| selection.done.failures.get(cause).copied().unwrap_or(0);
    let mut help = Vec::new();
    let unwanted = size("none").saturating_sub(selection.wanted);
    if unwanted > 0 && selection.promised.is_none() {
        help.push(format!(
            "The policy {} did not find {} worth it. `mega scan PID` shows what others would do; `coverage` in the configuration asks for a part whatever it is worth.",
            selection.policy,
            bytes::format(unwanted)
        ));
    }
    if selection.done.deferred_by_budget > 0 {
        help.push(format!(
            "Budgets put off {} actions: raise `cpu_budget`, `copy_budget` or `standstill`.",
            selection.done.deferred_by_budget
        ));
    }
    for (cause, what) in [
        (
            "no_memory",
            "found no free block: `mega frag` shows what is in the way, `mega compact` and the kernel module empty blocks",
        ),
        (
            "busy",
            "found pages that are pinned, or shared since a fork: mega tries again",
        ),
        (
            "not_eligible",
            "were refused by the kernel: memory under MADV_NOHUGEPAGE, or a program that switched huge pages off",
        ),
        (
            "not_permitted",
            "lacked a privilege: `mega doctor` names it",
        ),
    ] {
        if failed(cause) > 0 {
            help.push(format!("{} actions {what}.", failed(cause)));
        }
    }
    if size("partly_mapped") > 0 {
        help.push(format!(
            "{} are in regions that the program uses in part: huge pages there would add memory.",
            bytes::format(size("partly_mapped"))
        ));
    }
    if size("swapped") > 0 {
        help.push(format!(
            "{} are in regions with a part in swap: mega waits until the program reads it.",
            bytes::format(size("swapped"))
        ));
    }
    if let Some(size) = selection.not_eligible.get("misaligned_shared_memory") {
        help.push(format!(
            "{} of shared memory are at addresses that no huge page fits: `mega coverage PID` says what to set.",
            bytes::format(*size)
        ));
    }
    if selection.refused > 0 {
        help.push(format!(
            "{} processes could not be observed: `mega status --processes --sort failure` says why.",
            selection.refused
        ));
    }
    help
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::slot;
    use super::*;

    #[test]
    fn the_largest_part_is_told_first() {
        let rest = [
            ("none".to_owned(), 1 << 20),
            ("swapped".to_owned(), 2 << 20),
        ];
        assert_eq!(
            rest_in_words(&rest.into()),
            "2 MiB partly in swap, 1 MiB with nothing in the way"
        );
    }

    #[test]
    fn each_cause_has_its_remedy_and_only_what_was_is_told() {
        let mut web = slot(0, 4 << 30, 1 << 30).selections.remove(0);
        let told = help(&web);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("2 actions found no free block"),
            "{told:?}"
        );
        web.promised = None;
        web.wanted = 1 << 30;
        assert!(help(&web)[0].contains("did not find 2 GiB worth it"));
        web.done.failures.clear();
        web.wanted = 3 << 30;
        assert!(help(&web).is_empty());
    }
}
