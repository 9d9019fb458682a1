//! `mega.ko` as user space sees it: its interface, and the device through which it is asked.

pub mod device;
pub mod interface;
mod ioctl;
