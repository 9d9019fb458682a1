//! Which changes are told at once: as a line in the log, or at the end of `mega run`.

use super::change::{Change, Severity};

/// Changes of one kind that are told at most in one go: what concerns one process may concern ten thousand.
const TOLD: usize = 20;

/// Tells of one change, as it is or in other words.
pub(crate) type Teller = Box<dyn FnMut(&Change, &str) + Send>;

/// Tells of what changed in one go, of each kind a bounded number.
pub(crate) fn tell(changes: &[Change], teller: &mut dyn FnMut(&Change, &str)) {
    let mut counts = [0_usize; Change::NAMES.len()];
    for change in changes {
        let count = &mut counts[change.index()];
        *count += 1;
        if *count <= TOLD {
            teller(change, &change.in_words());
        }
    }
    for (index, count) in counts.into_iter().enumerate() {
        let last = changes.iter().rfind(|change| change.index() == index);
        if let Some(last) = last.filter(|_| count > TOLD) {
            let more = count - TOLD;
            let line = match last {
                Change::ProcessRefused { .. } => {
                    format!("{more} more are not managed; `mega status` shows why")
                }
                _ => format!("{more} more of {}; `mega events` shows them", last.name()),
            };
            teller(last, &line);
        }
    }
}

impl Change {
    /// Whether it tells of something that is not as it should be.
    pub(crate) fn is_trouble(&self) -> bool {
        self.severity() >= Severity::Warning
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::tests::who;
    use super::*;

    #[test]
    fn of_many_like_it_a_bounded_number_is_told() {
        let mut changes = vec![Change::refused(who(), "no"); 900];
        changes.push(Change::Reloaded { selections: 1 });
        let mut lines = Vec::new();
        tell(&changes, &mut |_, line| lines.push(line.to_owned()));
        assert_eq!(lines.len(), TOLD + 2);
        assert_eq!(lines[0], "guests: qemu (pid 7) is not managed: no");
        assert_eq!(lines[TOLD], "reloaded: managing 1 selections");
        assert_eq!(
            lines[TOLD + 1],
            "880 more are not managed; `mega status` shows why"
        );
    }
}
