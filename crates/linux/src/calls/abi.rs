//! The bytes that come from `calls.bpf.c`.

use std::time::Duration;

use mega_core::{BASE_PAGE_SIZE, Call, CallKind, ProcessId};

use crate::process::TICK;

/// `sizeof(struct call)`.
const CALL_BYTES: usize = 48;

/// One call; `None` for bytes that `calls.bpf.c` does not write. Addresses are in whole base pages.
pub(super) fn decode(bytes: &[u8]) -> Option<Call> {
    if bytes.len() != CALL_BYTES {
        return None;
    }
    let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let int = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (start, length) = (long(16)?, long(24)?);
    let range = || {
        let end = start
            .checked_add(length)?
            .checked_next_multiple_of(BASE_PAGE_SIZE)?;
        Some(start / BASE_PAGE_SIZE * BASE_PAGE_SIZE..end)
    };
    let kind = match int(36)? {
        1 => CallKind::Mapped(range()?),
        2 => CallKind::Unmapped(range()?),
        3 => CallKind::Discarded(range()?),
        4 => CallKind::Forked(ProcessId {
            pid: int(40)?,
            start_time: start / TICK,
        }),
        _ => return None,
    };
    Some(Call {
        at: Duration::from_nanos(long(0)?),
        process: ProcessId {
            pid: int(32)?,
            start_time: long(8)?,
        },
        kind,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(kind: u32, start: u64, length: u64) -> Vec<u8> {
        let longs = [5_000_000_007_u64, 70, start, length];
        let mut bytes: Vec<u8> = longs.iter().flat_map(|long| long.to_ne_bytes()).collect();
        bytes.extend(
            [7, kind, 9, 0]
                .iter()
                .flat_map(|int: &u32| int.to_ne_bytes()),
        );
        bytes
    }

    #[test]
    fn each_kind_is_decoded() {
        let kind = |kind, start, length| decode(&bytes(kind, start, length)).unwrap().kind;
        assert_eq!(kind(1, 8192, 4096), CallKind::Mapped(8192..12288));
        assert_eq!(kind(2, 8192, 1), CallKind::Unmapped(8192..12288));
        assert_eq!(kind(3, 8192, 8192), CallKind::Discarded(8192..16384));
        let child = ProcessId {
            pid: 9,
            start_time: 71,
        };
        assert_eq!(kind(4, 71 * TICK + 5, 0), CallKind::Forked(child));
        let call = decode(&bytes(1, 0, 4096)).unwrap();
        assert_eq!((call.process.pid, call.process.start_time), (7, 70));
        assert_eq!(call.at, Duration::from_nanos(5_000_000_007));
        assert_eq!(decode(&bytes(5, 0, 4096)), None);
        assert_eq!(decode(&bytes(1, u64::MAX, 4096)), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
        }
    }
}
