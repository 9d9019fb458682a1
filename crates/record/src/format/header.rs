//! The header as it is written.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::look::Header;

/// The oldest version whose header says which one it is. What lies before the header has no checksum: a bit that flips there would
/// make a file one of another version, whose looks lie otherwise.
const SAYS_VERSION: u32 = 5;

/// The header, and the version of the format once more.
#[derive(Serialize, Deserialize)]
pub(crate) struct WireHeader<'h> {
    /// 0 before version 5.
    #[serde(default)]
    format: u32,
    #[serde(flatten)]
    header: Cow<'h, Header>,
}

impl<'h> WireHeader<'h> {
    /// Of a recording of the version that this program writes.
    pub(crate) fn new(header: &'h Header) -> Self {
        WireHeader {
            format: super::VERSION,
            header: Cow::Borrowed(header),
        }
    }

    /// The header of a file that begins with this version. `None` where it belongs to another.
    pub(crate) fn of_version(self, version: u32) -> Option<Header> {
        let said = if version < SAYS_VERSION { 0 } else { version };
        (self.format == said).then(|| self.header.into_owned())
    }
}
