//! Finds hzmem's mount points in `/proc/self/mountinfo`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::kernel::Kernel;

/// The type of the filesystem.
pub const FILESYSTEM: &str = "hzmem";

/// Every place at which a filesystem of this type is mounted, by its device number ("0:45").
pub type MountPoints = BTreeMap<String, Vec<PathBuf>>;

/// Reads where hzmem is mounted, as this process sees it.
///
/// # Errors
/// [`Error::Io`].
pub fn read(kernel: &dyn Kernel) -> Result<MountPoints, Error> {
    let path = Path::new("/proc/self/mountinfo");
    let text = kernel.read(path).map_err(Error::io("read", path))?;
    Ok(parse(&text, FILESYSTEM))
}

/// The mount points of filesystems of the type `filesystem` in the text of `/proc/self/mountinfo`. Skips lines of
/// another form.
#[must_use]
pub fn parse(text: &[u8], filesystem: &str) -> MountPoints {
    let mut points = MountPoints::new();
    for line in text.split(|&byte| byte == b'\n') {
        if let Some((device, point)) = parse_line(line, filesystem) {
            points.entry(device).or_default().push(point);
        }
    }
    points
}

/// `36 35 0:45 / /mnt rw,noatime shared:1 - hzmem none rw`: id, parent, device, root, mount point, options, any number
/// of optional fields, a dash, type, source, options.
fn parse_line(line: &[u8], filesystem: &str) -> Option<(String, PathBuf)> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let dash = fields.iter().position(|&field| field == b"-")?;
    if fields.get(dash + 1)? != &filesystem.as_bytes() {
        return None;
    }
    let device = std::str::from_utf8(fields.get(2)?).ok()?;
    // The dash stands after the sixth field at the earliest; one before it is a name.
    let point = fields.get(4).filter(|_| dash >= 6)?;
    Some((
        device.to_owned(),
        PathBuf::from(OsString::from_vec(unescape(point))),
    ))
}

/// Space, tab, newline and backslash are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        match (first, octal(after)) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

/// The byte that three octal digits stand for.
fn octal(digits: &[u8]) -> Option<u8> {
    digits.get(..3)?.iter().try_fold(0u8, |value, &digit| {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 8)?;
        value.checked_mul(8)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &[u8] = b"22 1 0:20 / /sys rw shared:2 - sysfs sysfs rw\n\
        36 22 0:45 / /mnt/huge rw,relatime shared:9 master:1 - hzmem none rw,size=512M\n\
        37 22 0:46 / /mnt/with\\040space\\134 rw - hzmem none rw\n\
        38 22 0:45 /sub /elsewhere rw - hzmem none rw\n\
        39 22 0:47 / /hzmem rw - tmpfs hzmem rw\n";

    #[test]
    fn mount_points_are_found_by_their_type_and_device() {
        let points = parse(TEXT, FILESYSTEM);
        let expected = [
            (
                "0:45".to_owned(),
                vec!["/mnt/huge".into(), "/elsewhere".into()],
            ),
            ("0:46".to_owned(), vec!["/mnt/with space\\".into()]),
        ];
        assert_eq!(points, MountPoints::from(expected));
    }

    #[test]
    fn an_escape_that_is_none_is_left_as_it_stands() {
        assert_eq!(unescape(b"a\\04"), b"a\\04");
        assert_eq!(unescape(b"\\400\\089"), b"\\400\\089");
        assert_eq!(unescape(b"\\011"), b"\t");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), words in "([-a-z0-9:/\\\\]{0,5} ?){0,14}") {
            let _ = parse(&bytes, FILESYSTEM);
            let _ = parse(words.as_bytes(), FILESYSTEM);
            let _ = parse(format!("{words} - hzmem none rw").as_bytes(), FILESYSTEM);
        }

        #[test]
        fn any_name_comes_back(name in proptest::collection::vec(1u8.., 1..30)) {
            let mut escaped = Vec::new();
            for &byte in &name {
                match byte {
                    b' ' | b'\t' | b'\n' | b'\\' => escaped.extend(format!("\\{byte:03o}").bytes()),
                    _ => escaped.push(byte),
                }
            }
            prop_assert_eq!(unescape(&escaped), name);
        }
    }
}
