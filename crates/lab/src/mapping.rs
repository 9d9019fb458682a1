//! Memory mapped for an experiment, the time stamp counter and other processes' CPU clocks: all of
//! this crate's `unsafe`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::time::Duration;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

/// Bytes in a base page.
pub const PAGE: usize = 4 << 10;
/// Bytes in a huge page.
pub const HUGE_PAGE: usize = 2 << 20;
/// 8-byte words in a base page.
pub const WORDS_PER_PAGE: usize = PAGE / 8;

/// Memory that starts on a 2 MiB boundary, private and anonymous or of a file, unmapped when dropped.
#[derive(Debug)]
pub struct Area {
    start: NonNull<u64>,
    bytes: usize,
}

// SAFETY: an `Area` owns its memory as a `Box<[u64]>` does; nothing in it belongs to one thread.
unsafe impl Send for Area {}

impl Area {
    /// Maps `bytes`, rounded up to whole huge pages. Nothing is touched.
    ///
    /// # Errors
    /// As `mmap`; `EINVAL` for no bytes at all or more than the address space holds.
    pub fn map(bytes: usize) -> io::Result<Self> {
        Self::map_with(bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Maps `bytes`, rounded up to whole huge pages, of which no more may be accessed at first than a piece of `piece`
    /// bytes, then the next one beside it, and so on, as a heap grows. Each piece's words are given to `fill` before
    /// the next one may be accessed.
    ///
    /// # Errors
    /// As [`Area::map`] and `mprotect`; `EINVAL` for pieces that are no whole base pages.
    pub fn map_in_pieces(
        bytes: usize,
        piece: usize,
        mut fill: impl FnMut(&mut [u64]),
    ) -> io::Result<Self> {
        if piece == 0 || !piece.is_multiple_of(PAGE) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let area = Self::map_with(bytes, ProtFlags::empty())?;
        for offset in (0..area.bytes).step_by(piece) {
            let start = area.start.as_ptr().wrapping_byte_add(offset);
            let bytes = piece.min(area.bytes - offset);
            // SAFETY: start..start + bytes lies in the mapping just made; to allow more takes nothing from anyone.
            unsafe {
                rustix::mm::mprotect(
                    start.cast(),
                    bytes,
                    MprotectFlags::READ | MprotectFlags::WRITE,
                )
            }?;
            // SAFETY: that range is readable and writable now, zero, and nobody else has a reference into it.
            fill(unsafe { std::slice::from_raw_parts_mut(start, bytes / 8) });
        }
        Ok(area)
    }

    fn map_with(bytes: usize, protection: ProtFlags) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let bytes = bytes
            .checked_next_multiple_of(HUGE_PAGE)
            .ok_or_else(invalid)?;
        let with_slack = bytes.checked_add(HUGE_PAGE).ok_or_else(invalid)?;
        if bytes == 0 {
            return Err(invalid());
        }
        // SAFETY: without MAP_FIXED the kernel chooses addresses where nothing is mapped.
        let mapped = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                with_slack,
                protection,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let head = mapped.addr().next_multiple_of(HUGE_PAGE) - mapped.addr();
        let tail = HUGE_PAGE - head;
        let start = mapped.wrapping_byte_add(head);
        unmap(mapped, head)?;
        unmap(start.wrapping_byte_add(bytes), tail)?;
        let start = NonNull::new(start.cast::<u64>()).ok_or_else(invalid)?;
        Ok(Area { start, bytes })
    }

    /// Maps `bytes` of `file` from `offset` on, shared, in a filesystem that keeps files in huge pages. Nothing is
    /// touched. The file has to be this program's alone, and must not be made shorter while it is mapped.
    ///
    /// # Errors
    /// As `mmap`; `EINVAL` where the filesystem does not map at a 2 MiB boundary, or `bytes` are no whole huge pages.
    pub fn map_file(file: &File, offset: u64, bytes: usize) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        if bytes == 0 || !bytes.is_multiple_of(HUGE_PAGE) {
            return Err(invalid());
        }
        // SAFETY: without MAP_FIXED the kernel chooses addresses where nothing is mapped.
        let mapped = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                offset,
            )
        }?;
        if !mapped.addr().is_multiple_of(HUGE_PAGE) {
            unmap(mapped, bytes)?;
            return Err(invalid());
        }
        let start = NonNull::new(mapped.cast::<u64>()).ok_or_else(invalid)?;
        Ok(Area { start, bytes })
    }

    /// The first address.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its size in base pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.bytes / PAGE
    }

    /// Its content.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        // SAFETY: start..start + bytes is mapped readable for as long as self lives, aligned to 2 MiB, zero
        // where never written, and changed only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes / 8) }
    }

    /// Its content, to change.
    #[must_use]
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `words`, writable too, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes / 8) }
    }

    /// Its content as bytes, to change.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `words_mut`; any byte is a valid u8.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes) }
    }

    /// Writes a word of every base page.
    pub fn touch_all(&mut self) {
        for page in self.words_mut().chunks_mut(WORDS_PER_PAGE) {
            page[0] = 1;
        }
    }

    /// Writes one word and returns the time stamp counter's cycles that took: the page fault, if it is the
    /// page's first touch.
    pub fn timed_store(&mut self, word: usize, value: u64) -> u64 {
        let target: *mut u64 = &raw mut self.words_mut()[word];
        let before = cycles();
        // SAFETY: `target` comes from a bounds-checked reference into this area.
        unsafe { target.write_volatile(value) };
        cycles().wrapping_sub(before)
    }

    /// Asks for huge pages at fault (`MADV_HUGEPAGE`).
    ///
    /// # Errors
    /// As `madvise`; `EINVAL` where the kernel has no THP.
    pub fn advise_huge(&self) -> io::Result<()> {
        // SAFETY: the range is this area's own mapping, and the advice does not change its content.
        unsafe {
            rustix::mm::madvise(
                self.start.as_ptr().cast(),
                self.bytes,
                Advice::LinuxHugepage,
            )
        }?;
        Ok(())
    }

    /// Has the kernel make its base pages huge now (`MADV_COLLAPSE`, Linux 6.1), whatever the machine's THP mode.
    ///
    /// # Errors
    /// As `madvise`; the others are huge all the same where one cannot be made so.
    pub fn collapse(&self) -> io::Result<()> {
        // Advice for base pages would refuse it.
        self.advise_huge()?;
        // SAFETY: the range is this area's own mapping, and the advice does not change its content.
        let failed =
            unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_COLLAPSE) };
        match failed {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks for base pages only (`MADV_NOHUGEPAGE`).
    ///
    /// # Errors
    /// As `madvise`; `EINVAL` where the kernel has no THP.
    pub fn advise_base(&self) -> io::Result<()> {
        // SAFETY: the range is this area's own mapping, and the advice does not change its content.
        unsafe {
            rustix::mm::madvise(
                self.start.as_ptr().cast(),
                self.bytes,
                Advice::LinuxNoHugepage,
            )
        }?;
        Ok(())
    }

    /// Gives some pages back (`MADV_DONTNEED`): their content becomes zero. Pages beyond the end are left out.
    ///
    /// # Errors
    /// As `madvise`.
    pub fn give_back_pages(&mut self, pages: Range<usize>) -> io::Result<()> {
        let end = pages.end.min(self.pages());
        let start = pages.start.min(end);
        // SAFETY: the range lies in this area's own mapping; `&mut self` says nobody looks at it meanwhile, and
        // all-zero words are valid ones.
        unsafe {
            rustix::mm::madvise(
                self.start.as_ptr().wrapping_byte_add(start * PAGE).cast(),
                (end - start) * PAGE,
                Advice::LinuxDontNeed,
            )
        }?;
        Ok(())
    }

    /// Gives all pages back (`MADV_DONTNEED`): the content becomes zero.
    ///
    /// # Errors
    /// As `madvise`.
    pub fn give_back(&mut self) -> io::Result<()> {
        // SAFETY: the range is this area's own mapping; `&mut self` says nobody looks at it meanwhile, and
        // all-zero words are valid ones.
        unsafe {
            rustix::mm::madvise(
                self.start.as_ptr().cast(),
                self.bytes,
                Advice::LinuxDontNeed,
            )
        }?;
        Ok(())
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // Nothing sensible can be done about a failure, and the memory goes with the process in any case.
        let _ = unmap(self.start.as_ptr().cast(), self.bytes);
    }
}

fn unmap(start: *mut std::ffi::c_void, bytes: usize) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: callers pass a part of a mapping they own and to which no reference is left.
    unsafe { rustix::mm::munmap(start, bytes) }?;
    Ok(())
}

/// Forks a process that touches all of `area`, of which it has a copy of its own, writes one byte to `touched`, and rests
/// until its parent ends or kills it. Returns its pid.
///
/// # Errors
/// As `fork`.
pub fn fork_to_touch_and_rest(area: &mut Area, touched: &OwnedFd) -> io::Result<u32> {
    // SAFETY: the child does nothing but what may be done after a fork of a process with threads: it stores to memory,
    // makes system calls, and never returns from here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: these calls take no pointers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        area.touch_all();
        let _ = rustix::io::write(touched, &[1]);
        loop {
            // SAFETY: it takes nothing, and returns only after a signal.
            unsafe { libc::pause() };
        }
    }
    u32::try_from(pid).map_err(|_| io::Error::last_os_error())
}

/// The time stamp counter.
#[must_use]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 CPU has RDTSC, and Linux leaves it enabled for user space.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// CPU time that all threads of a process have used, its children's not.
///
/// # Errors
/// As `clock_getcpuclockid` and `clock_gettime`: `ESRCH` or `EINVAL` when it is gone.
pub fn cpu_time_of(pid: u32) -> io::Result<Duration> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for the id.
    let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the time.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = u64::try_from(time.tv_sec).map_err(io::Error::other)?;
    let nanoseconds = u32::try_from(time.tv_nsec).map_err(io::Error::other)?;
    Ok(Duration::new(seconds, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_aligned_whole_and_zero() {
        let area = Area::map(3 * HUGE_PAGE - 5).unwrap();
        assert_eq!(area.start() % HUGE_PAGE as u64, 0);
        assert_eq!(area.bytes(), 3 * HUGE_PAGE);
        assert!(area.words().iter().all(|word| *word == 0));
    }

    #[test]
    fn an_area_in_pieces_is_filled_piece_by_piece() {
        let mut pieces = Vec::new();
        let area = Area::map_in_pieces(HUGE_PAGE, 3 * PAGE, |words| {
            words[0] = 7;
            pieces.push(words.len() * 8);
        });
        let area = area.unwrap();
        assert_eq!(pieces.iter().sum::<usize>(), HUGE_PAGE);
        assert_eq!(pieces[0], 3 * PAGE);
        assert_eq!(area.words()[3 * WORDS_PER_PAGE], 7);
        assert!(Area::map_in_pieces(HUGE_PAGE, PAGE + 1, |_| ()).is_err());
    }

    #[test]
    fn a_timed_store_stores() {
        let mut area = Area::map(HUGE_PAGE).unwrap();
        area.timed_store(512, 7);
        assert_eq!(area.words()[512], 7);
        area.give_back().unwrap();
        assert_eq!(area.words()[512], 0);
    }

    #[test]
    fn some_pages_are_given_back_and_no_others() {
        let mut area = Area::map(HUGE_PAGE).unwrap();
        area.advise_base().unwrap();
        for page in 0..area.pages() {
            area.words_mut()[page * WORDS_PER_PAGE] = 7;
        }
        area.give_back_pages(2..4).unwrap();
        area.give_back_pages(510..1000).unwrap();
        let zero: Vec<usize> = (0..area.pages())
            .filter(|page| area.words()[page * WORDS_PER_PAGE] == 0)
            .collect();
        assert_eq!(zero, [2, 3, 510, 511]);
    }

    #[test]
    fn our_own_cpu_time_grows() {
        let before = cpu_time_of(std::process::id()).unwrap();
        while cpu_time_of(std::process::id()).unwrap() == before {
            std::hint::spin_loop();
        }
        assert!(cpu_time_of(u32::MAX).is_err());
    }

    #[test]
    fn a_file_in_base_pages_or_of_no_whole_huge_pages_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(HUGE_PAGE as u64).unwrap();
        for bytes in [0, PAGE, HUGE_PAGE + 1] {
            assert!(Area::map_file(&file, 0, bytes).is_err(), "{bytes}");
        }
    }

    #[test]
    fn no_bytes_and_too_many_are_refused() {
        assert!(Area::map(0).is_err());
        assert!(Area::map(usize::MAX).is_err());
    }
}
