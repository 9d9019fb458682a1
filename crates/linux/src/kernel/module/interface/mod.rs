//! The interface of `/dev/mega`, version 1: `kernel/module/mega_ioctl.h`, whose comments say what each member
//! means. There is one file for each request. A test compiles the header and compares every size, offset
//! and number.

/// A request with its size filled in and its other members as given.
macro_rules! sized_default {
    ($name:ident { $($member:ident: $value:expr),+ $(,)? }) => {
        impl Default for $name {
            #[allow(clippy::cast_possible_truncation)] // a request has some hundred bytes
            fn default() -> Self {
                $name { size: size_of::<$name>() as u32, $($member: $value),+ }
            }
        }
    };
}

mod compact;
mod demote;
mod exchange;
mod free_zero;
mod info;
mod promote;
mod scan_blocks;
mod scan_task;

pub use compact::*;
pub use demote::*;
pub use exchange::*;
pub use free_zero::*;
pub use info::*;
pub use promote::*;
pub use scan_blocks::*;
pub use scan_task::*;

/// `MEGA_DEVICE`
pub const DEVICE: &str = "/dev/mega";
/// `MEGA_INTERFACE_VERSION`
pub const VERSION: u32 = 1;

/// A structure that one request takes.
///
/// # Safety
///
/// The type is `repr(C)`, has exactly the layout of the structure that request number [`Request::NUMBER`]
/// takes, without padding, and any bytes are a valid value of it. Where it holds a pointer, its documentation
/// says what that must point to.
pub unsafe trait Request {
    /// The request's number in its ioctl type.
    const NUMBER: u8;
}

/// The ioctl request number of `T`: `_IOWR(MEGA_IOCTL_TYPE, T::NUMBER, T)`.
#[must_use]
pub const fn request<T: Request>() -> u64 {
    const TYPE: u64 = 0xB6;
    (3 << 30) | ((size_of::<T>() as u64) << 16) | (TYPE << 8) | T::NUMBER as u64
}

#[cfg(test)]
mod tests;
