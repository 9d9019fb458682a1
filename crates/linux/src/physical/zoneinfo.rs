//! `/proc/zoneinfo`: where each zone lies and what the kernel keeps free in it.

use std::path::Path;

use mega_core::compaction::ZoneKind;

use super::buddyinfo::node_and_zone;
use crate::Error;
use crate::kernel::Kernel;

/// Where a zone lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneSpan {
    /// Its NUMA node.
    pub node: u32,
    /// Which zone.
    pub kind: ZoneKind,
    /// Its first frame.
    pub start_pfn: u64,
    /// Frames from first to last, holes included; never 0.
    pub spanned: u64,
    /// The high watermark, in base pages.
    pub high: u64,
}

/// Reads the spans of all zones that have frames.
///
/// # Errors
/// [`Error::Io`]; [`Error::Malformed`] where no zone is understood.
pub fn read(kernel: &dyn Kernel) -> Result<Vec<ZoneSpan>, Error> {
    let path = Path::new("/proc/zoneinfo");
    let text = kernel.read(path).map_err(Error::io("read", path))?;
    let spans = parse(&String::from_utf8_lossy(&text));
    if spans.is_empty() {
        return Err(Error::Malformed {
            path: path.to_owned(),
            reason: "has no zone with `spanned` and `start_pfn`".to_owned(),
        });
    }
    Ok(spans)
}

/// The spans in the text of `/proc/zoneinfo`, in its order. It leaves out zones without frames and zones whose
/// description is not whole.
#[must_use]
pub fn parse(text: &str) -> Vec<ZoneSpan> {
    let mut spans = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((node, kind, _)) = node_and_zone(line) else {
            continue;
        };
        let (mut high, mut spanned, mut start_pfn) = (0, None, None);
        while let Some(line) = lines.next_if(|line| !line.starts_with("Node")) {
            let mut words = line.split_ascii_whitespace();
            // The per-CPU lists have a `high:` of their own, with a colon.
            match (
                words.next(),
                words.next().and_then(|value| value.parse::<u64>().ok()),
            ) {
                (Some("high"), Some(value)) => high = value,
                (Some("spanned"), value) => spanned = value,
                (Some("start_pfn:"), value) => start_pfn = value,
                _ => {}
            }
        }
        if let (Some(start_pfn), Some(spanned @ 1..)) = (start_pfn, spanned) {
            spans.push(ZoneSpan {
                node,
                kind,
                start_pfn,
                spanned,
                high,
            });
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
Node 0, zone   Normal
  per-node stats
      nr_inactive_anon 1
  pages free     819200
        boost    0
        min      8672
        low      10840
        high     13008
        spanned  5505024
        present  5505024
        managed  819200
        cma      0
  pagesets
    cpu: 0
              count:    1
              high:     4000
              batch:    63
  node_unreclaimable:  0
  start_pfn:           1048576
Node 0, zone  Movable
  pages free     0
        high     32
        spanned  0
  start_pfn:           0
";

    #[test]
    fn the_span_is_found_among_all_else_and_an_empty_zone_is_left_out() {
        let normal = ZoneSpan {
            node: 0,
            kind: ZoneKind::Normal,
            start_pfn: 1_048_576,
            spanned: 5_505_024,
            high: 13_008,
        };
        assert_eq!(parse(TEXT), [normal]);
    }

    #[test]
    fn a_text_cut_short_loses_the_zone_it_was_cut_in() {
        for end in 0..TEXT.find("start_pfn:").expect("it is there") {
            assert_eq!(parse(&TEXT[..end]), []);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*|(Node 0, zone Normal\n( *(spanned|start_pfn:|high)[ 0-9]*\n)*)*") {
            let _ = parse(&text);
        }
    }
}
