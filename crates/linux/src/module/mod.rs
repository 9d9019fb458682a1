//! `mega.ko` as user space sees it: its interface, what it can be asked, and the device through which it is asked.

pub mod device;
pub mod interface;
pub(crate) mod ioctl;
pub mod request;

pub use device::Device;
pub use request::ModuleRequest;
