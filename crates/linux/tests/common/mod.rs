//! What the live tests share: a subject process that knows its own memory, and a way to say "cannot run here".

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

pub(crate) mod subject;

use std::io::Write;

/// Ends a test that cannot run here, by name and with its reason. In CI that is a failure.
pub(crate) fn skip(test: &str, reason: &str) {
    assert!(
        std::env::var_os("CI").is_none_or(|value| value != "true"),
        "{test} could not run: {reason}"
    );
    // Not by eprintln!, which the test runner hides where a test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}
