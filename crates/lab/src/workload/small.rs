//! `small`: as `random`, but within the TLB's reach, so huge pages gain nothing.

use super::arguments::Common;
use super::random;
use super::report::{Done, Reporter};
use super::stop::Stop;
use crate::error::Error;

/// 1024 base pages: fewer than the second-level TLB of any x86-64 server CPU since 2013 holds (1024 in
/// Haswell, 1536 in Skylake, 2048 in Ice Lake and Zen 2).
const SIZE: usize = 4 << 20;

pub(super) fn run(
    common: &Common,
    reporter: &mut Reporter,
    stop: &mut Stop,
) -> Result<Done, Error> {
    random::run_over(common.size_or(SIZE), common, 1, reporter, stop)
}
