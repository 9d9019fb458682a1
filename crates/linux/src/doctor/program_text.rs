//! Whether this kernel makes the text of a program huge on request, tried on mega's own.
//!
//! `MADV_COLLAPSE` of a file that is no shared memory depends on kernel and file system (`file_thp_enabled()` in mm/huge_memory.c; read
//! in 6.12, 7.2 and 7.3):
//!
//! - Up to some version before 7.2 a kernel has to be built with `CONFIG_READ_ONLY_THP_FOR_FS`, and the mapping has to be executable
//!   and of a file that nobody has open for writing. Debian's 6.12 is built without.
//! - 7.2 has no such option. There the file system has to be one that can hold a huge page in the page cache.
//!
//! So it is tried. Debian's 7.3.4 does it on ext4; a 6.18 without the option refuses it (both seen). The one thing that changes is where the page cache has the first 2 MiB of the program.

use std::fs::File;
use std::io;

use mega_core::HUGE_PAGE_SIZE;

use super::experiment::sizes;
use super::{Feature, State};
use crate::kernel::own_memory::OwnText;
use crate::kernel::{Advice, Kernel, Refused};

/// What came of it.
#[derive(Debug)]
pub(super) enum Tried {
    /// The kernel did as it was asked. Whether the text was huge then.
    Asked(bool),
    /// The kernel refused.
    Refused(io::Error),
    /// It could not be tried, in words.
    Not(String),
}

/// Asks the kernel to make the beginning of this program huge.
pub(super) fn collapse(kernel: &dyn Kernel) -> Tried {
    let text = File::open("/proc/self/exe").and_then(|program| {
        if program.metadata()?.len() < HUGE_PAGE_SIZE {
            return Err(io::Error::other("mega's program has no 2 MiB"));
        }
        if is_in_memory(&program)? {
            return Err(io::Error::other("mega's program is on a tmpfs"));
        }
        OwnText::of(&program)
    });
    let text = match text {
        Ok(text) => text,
        Err(error) => return Tried::Not(error.to_string()),
    };
    let range = text.range();
    let collapsed = kernel
        .open_process(std::process::id())
        .and_then(|ourselves| {
            kernel.advise(&ourselves, std::slice::from_ref(&range), Advice::Collapse)
        })
        .and_then(|_| sizes(kernel, &range));
    match collapsed {
        Ok(sizes) => Tried::Asked(sizes.huge_of_files >= HUGE_PAGE_SIZE),
        Err(error) => Tried::Refused(error),
    }
}

/// Whether a file lies in shared memory, whose huge pages are another matter.
fn is_in_memory(file: &File) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(file)?.f_type == libc::TMPFS_MAGIC)
}

/// What the doctor says of it.
pub(super) fn feature(tried: &Tried) -> Feature {
    let (state, seen) = match tried {
        Tried::Asked(true) => (
            State::Available,
            "tried on mega's own program: it works".to_owned(),
        ),
        Tried::Asked(false) => (
            State::Unknown,
            "tried on mega's own program: no error, but no huge page".to_owned(),
        ),
        Tried::Refused(error) if Refused::is(error) => {
            (State::Unknown, "not tried in a dry run".to_owned())
        }
        // The kernel's word for what it makes huge for nobody. Other errors are those of a moment: no free block, a busy page.
        Tried::Refused(error) if error.raw_os_error() == Some(libc::EINVAL) => (
            State::Missing,
            format!("tried on mega's own program: {error}"),
        ),
        Tried::Refused(error) => (
            State::Unknown,
            format!("tried on mega's own program: {error}"),
        ),
        Tried::Not(why) => (State::Unknown, format!("not tried: {why}")),
    };
    Feature {
        name: "huge pages for files (MADV_COLLAPSE of a program's text)",
        state,
        seen,
        needed_for: "nothing: mega leaves files to the kernel, also where this works",
        cost_if_missing: "none for mega; programs that ask for huge pages for their own text by madvise get none",
        remedy: "boot Linux 7.2 or newer, with the programs on a file system that holds huge pages in the page cache; or an older one built with CONFIG_READ_ONLY_THP_FOR_FS=y",
        required: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{LiveKernel, ReadOnly};

    fn state(tried: &Tried) -> State {
        feature(tried).state
    }

    #[test]
    fn only_what_the_kernel_refuses_for_good_is_missing() {
        let refused = |errno| Tried::Refused(io::Error::from_raw_os_error(errno));
        assert_eq!(state(&Tried::Asked(true)), State::Available);
        assert_eq!(state(&Tried::Asked(false)), State::Unknown);
        assert_eq!(state(&refused(libc::EINVAL)), State::Missing);
        for errno in [libc::ENOMEM, libc::EAGAIN, libc::EBUSY] {
            assert_eq!(state(&refused(errno)), State::Unknown);
        }
        assert_eq!(state(&Tried::Not("too small".to_owned())), State::Unknown);
    }

    #[test]
    fn a_dry_run_does_not_try_it() {
        let tried = collapse(&ReadOnly(LiveKernel));
        assert!(
            matches!(&tried, Tried::Not(_)) || feature(&tried).seen.contains("dry run"),
            "{tried:?}"
        );
    }

    /// The program stays what it is, whatever the kernel makes of its text.
    #[test]
    fn tried_here_it_has_an_answer_and_the_program_is_as_before() {
        let before = std::fs::read("/proc/self/exe").unwrap();
        let tried = collapse(&LiveKernel);
        eprintln!("{tried:?}: {:?}", state(&tried));
        assert!(before == std::fs::read("/proc/self/exe").unwrap());
    }
}
