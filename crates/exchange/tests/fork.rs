//! A child shares all memory of this process, so this test is alone in its program.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    missing_docs,
    unreachable_pub
)]

mod guest;

use guest::{Guest, Kind, exchanger, pair};
use mega_exchange::Refusal;

#[test]
fn what_a_child_shares_is_refused_until_it_is_written() {
    for kind in [Kind::Huge, Kind::Base] {
        let guest = Guest::filled(2, kind);
        let Some(exchanger) = exchanger(vec![guest.range()], "a child") else {
            return;
        };
        // SAFETY: the child calls nothing but pause and _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: async-signal-safe.
            unsafe { libc::pause() };
            // SAFETY: async-signal-safe.
            unsafe { libc::_exit(0) };
        }
        assert!(child > 0);
        assert_eq!(exchanger.exchange(&[pair(0, 1)]), [Err(Refusal::Busy)]);
        // SAFETY: it is our child, not yet waited for.
        unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        (0..2).for_each(|block| guest.assert_holds(block, block));
        guest.fill_all();
        assert_eq!(exchanger.exchange(&[pair(0, 1)]), [Ok(())]);
        guest.assert_holds(0, 1);
        guest.assert_holds(1, 0);
    }
}
