//! What the kernel does where memory is short, counted since boot.

use mega_linux::physical::vmstat;

use crate::error::Error;

/// Counts, of the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryEvents {
    /// Base pages written to swap.
    pub(crate) swapped_out: u64,
    /// Processes that the OOM killer ended.
    pub(crate) killed: u64,
}

impl MemoryEvents {
    /// As they are now.
    ///
    /// # Errors
    /// When `/proc/vmstat` cannot be read, or has no such counts.
    pub(crate) fn now() -> Result<Self, Error> {
        let path = "/proc/vmstat";
        let text =
            std::fs::read_to_string(path).map_err(|e| Error::io(format!("reading {path}"), e))?;
        let count = |name| {
            vmstat::event(&text, name)
                .ok_or_else(|| Error::Missing(format!("{path} has no {name}")))
        };
        Ok(MemoryEvents {
            swapped_out: count("pswpout")?,
            killed: count("oom_kill")?,
        })
    }

    /// What came since `before`.
    pub(crate) fn since(self, before: MemoryEvents) -> MemoryEvents {
        MemoryEvents {
            swapped_out: self.swapped_out.saturating_sub(before.swapped_out),
            killed: self.killed.saturating_sub(before.killed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_between_a_moment_and_itself() {
        let now = MemoryEvents::now().expect("every kernel that mega runs on counts them");
        let none = MemoryEvents {
            swapped_out: 0,
            killed: 0,
        };
        assert_eq!(now.since(now), none);
    }
}
