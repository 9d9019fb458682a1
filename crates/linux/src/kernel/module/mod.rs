//! How the boundary asks `mega.ko`: the interface of its device, the requests, and the one place that passes them on.

pub mod interface;
pub(crate) mod ioctl;
mod request;

pub use request::ModuleRequest;
