//! Real servers while they run, and their loads.

mod connection;
mod lane;
pub(crate) mod load;
pub(crate) mod mariadb;
pub(crate) mod memcached;
pub(crate) mod memcached_text;
pub(crate) mod protocol;
pub(crate) mod redis;
pub(crate) mod redis_client;
pub(crate) mod redis_hashes;
pub(crate) mod requests;
pub(crate) mod resp;
mod running;
pub(crate) mod settling;
pub(crate) mod sysbench;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use running::Server;
