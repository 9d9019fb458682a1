//! Priority over the program that memory is made ready for.

/// Levels of nice(2) by which the thread goes before its program: it gets nine in ten of a CPU that both want (weights of
/// kernel/sched/core.c).
const LEVELS: i32 = 10;

/// Has the calling thread go before the program that this process started. What it does while the program fills its memory the
/// program would do itself, and slower, by page faults; and it has to be faster than the program. Where that is refused it goes
/// as the program does.
pub fn hurry() {
    if let Ok(nice) = rustix::process::getpriority_process(None) {
        let _ = rustix::process::setpriority_process(None, nice - LEVELS);
    }
}
