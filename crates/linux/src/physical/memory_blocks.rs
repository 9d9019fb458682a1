//! `/sys/devices/system/memory`: the pieces in which memory is taken offline and put online.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::kernel::Kernel;

const ROOT: &str = "/sys/devices/system/memory";

/// Bytes in a memory block: a power of two, 128 MiB on most machines, up to 2 GiB on those with much memory.
///
/// # Errors
/// [`Error::Missing`] where the kernel has no memory hotplug; [`Error::Io`], [`Error::Malformed`].
pub fn size(kernel: &dyn Kernel) -> Result<u64, Error> {
    let path = Path::new(ROOT).join("block_size_bytes");
    let text = kernel
        .read(&path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT) => Error::Missing {
                feature: format!("memory hotplug ({})", path.display()),
                remedy: "boot a kernel built with CONFIG_MEMORY_HOTPLUG=y and CONFIG_MEMORY_HOTREMOVE=y, \
                         as Debian's are"
                    .to_owned(),
            },
            _ => Error::io("read", &path)(error),
        })?;
    parse_size(&text).ok_or_else(|| Error::Malformed {
        path,
        reason: "does not hold a power of two of at least 2 MiB, in hexadecimal".to_owned(),
    })
}

/// The number in the text of `block_size_bytes`, where it is one that the kernel can have.
#[must_use]
pub fn parse_size(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    // `from_str_radix` would take a sign.
    if !text.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let size = u64::from_str_radix(text, 16).ok()?;
    (size.is_power_of_two() && size >= mega_core::HUGE_PAGE_SIZE).then_some(size)
}

/// Whether the memory blocks of `range` are online: `None` where there is no such block.
///
/// # Errors
/// As [`size`].
pub fn is_online(kernel: &dyn Kernel, range: &Range<u64>) -> Result<Option<bool>, Error> {
    let mut all = None;
    for block in blocks(range, size(kernel)?) {
        let path = state_file(block);
        match kernel.read(&path) {
            Ok(state) => {
                let online = state.trim_ascii() == b"online";
                all = Some(online && all.unwrap_or(true));
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(Error::io("read", &path)(error)),
        }
    }
    Ok(all)
}

/// Puts every memory block of `range` online that is offline. Returns how many bytes those are.
///
/// # Errors
/// [`Error::Missing`] where the privilege is missing; [`Error::Io`]; as [`size`].
pub fn put_online(kernel: &dyn Kernel, range: &Range<u64>) -> Result<u64, Error> {
    let size = size(kernel)?;
    let mut put = 0;
    for block in blocks(range, size) {
        let path = state_file(block);
        let state = kernel.read(&path).map_err(Error::io("read", &path))?;
        // A kernel may be set up to put new memory online by itself, and refuses to do it twice.
        if state.trim_ascii() == b"online" {
            continue;
        }
        kernel
            .write(&path, b"online")
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => Error::Missing {
                    feature: format!("the privilege to write {}", path.display()),
                    remedy: "run as root".to_owned(),
                },
                _ => Error::io("put memory online by writing", &path)(error),
            })?;
        put += size;
    }
    Ok(put)
}

/// The numbers of the memory blocks that `range` has a part of.
fn blocks(range: &Range<u64>, size: u64) -> Range<u64> {
    range.start / size..range.end.div_ceil(size)
}

fn state_file(block: u64) -> PathBuf {
    Path::new(ROOT).join(format!("memory{block}/state"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;
    use proptest::prelude::*;

    const BLOCK: u64 = 128 << 20;

    fn kernel(states: &[(u64, &str)]) -> FakeKernel {
        let kernel = FakeKernel::new();
        let mut files = kernel.state();
        files.files.insert(
            Path::new(ROOT).join("block_size_bytes"),
            b"8000000\n".to_vec(),
        );
        for (block, state) in states {
            files
                .files
                .insert(state_file(*block), format!("{state}\n").into_bytes());
        }
        drop(files);
        kernel
    }

    #[test]
    fn only_what_is_offline_is_put_online() {
        let kernel = kernel(&[(8, "online"), (9, "offline"), (10, "offline")]);
        let range = 8 * BLOCK..10 * BLOCK;
        assert_eq!(is_online(&kernel, &range).expect("read"), Some(false));
        assert_eq!(put_online(&kernel, &range).expect("put"), BLOCK);
        assert_eq!(kernel.state().written, [state_file(9)]);
        assert_eq!(is_online(&kernel, &range).expect("read"), Some(true));
        assert_eq!(is_online(&kernel, &(0..BLOCK)).expect("read"), None);
        assert!(put_online(&kernel, &(0..BLOCK)).is_err(), "there is none");
    }

    #[test]
    fn a_kernel_without_memory_hotplug_is_told() {
        let error = size(&FakeKernel::new()).expect_err("there is no such file");
        assert_eq!(
            error.exit_kind(),
            crate::error::ExitKind::Missing,
            "{error}"
        );
    }

    #[test]
    fn sizes_are_powers_of_two() {
        assert_eq!(parse_size(b"8000000\n"), Some(BLOCK));
        for bad in [b"" as &[u8], b"+8000000", b"8000001", b"0", b"1000", b"zz"] {
            assert_eq!(parse_size(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = parse_size(&bytes);
        }
    }
}
