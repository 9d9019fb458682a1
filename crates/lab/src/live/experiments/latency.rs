//! Latencies, as the experiments with servers report them.

use crate::live::metric::{Metric, Sample};
use crate::live::server::load::Loaded;

pub(super) const P50: Metric = Metric::latency("p50_ns", "median latency");
pub(super) const P99: Metric = Metric::latency("p99_ns", "99 % of latencies below");
pub(super) const P99_9: Metric = Metric::latency("p99_9_ns", "99.9 % of latencies below");
pub(super) const P99_99: Metric = Metric::latency("p99_99_ns", "99.99 % of latencies below");

/// A sample with a load's latencies.
pub(super) fn with_latencies(sample: Sample, loaded: &Loaded) -> Sample {
    [(P50, 50.0), (P99, 99.0), (P99_9, 99.9), (P99_99, 99.99)]
        .into_iter()
        .fold(sample, |sample, (metric, percentile)| {
            sample.with(metric, loaded.latency_at(percentile))
        })
}
