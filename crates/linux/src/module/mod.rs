//! `mega.ko` as user space sees it: its interface, the requests, and the device that takes them.

pub mod device;
pub mod interface;
pub(crate) mod ioctl;
pub mod request;

pub use device::Device;
pub use request::ModuleRequest;
