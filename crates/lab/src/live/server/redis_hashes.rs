//! Objects of 4 KiB in Redis, as fields of hashes.

use std::ops::Range;

use super::redis_client::RedisClient;
use super::resp::Reply;
use super::value::{is_value, key, value};
use crate::error::Error;

/// Bytes of an object.
const OBJECT: usize = 4 << 10;
/// Fields of a hash: a reply with all of them has a MiB.
const FIELDS: usize = 256;
/// Commands that are sent before their replies are read.
const AHEAD: usize = 64;

/// Objects in hashes of 256, and which of them are still there.
pub(crate) struct Hashes {
    client: RedisClient,
    there: Vec<bool>,
}

impl Hashes {
    /// Stores objects.
    ///
    /// # Errors
    /// When the server cannot be reached or complains.
    pub(crate) fn store(port: u16, objects: usize) -> Result<Self, Error> {
        let mut hashes = Hashes {
            client: RedisClient::connect(port)?,
            there: vec![true; objects],
        };
        let all: Vec<usize> = (0..objects).collect();
        hashes.each(&all, |client, object| {
            let (hash, field) = (hash_of(object), key(object as u64));
            let value = value(object as u64, OBJECT);
            client.queue(&[b"HSET", hash.as_bytes(), field.as_bytes(), &value]);
        })?;
        Ok(hashes)
    }

    /// Removes objects.
    ///
    /// # Errors
    /// When the server cannot be reached or does not have one of them.
    pub(crate) fn remove(&mut self, objects: &[usize]) -> Result<(), Error> {
        self.each(objects, |client, object| {
            let (hash, field) = (hash_of(object), key(object as u64));
            client.queue(&[b"HDEL", hash.as_bytes(), field.as_bytes()]);
        })?;
        for object in objects {
            self.there[*object] = false;
        }
        Ok(())
    }

    /// Has Redis's allocator give back to the kernel at once what it would give back within ten seconds.
    ///
    /// # Errors
    /// When the server cannot be reached or complains.
    pub(crate) fn purge(&mut self) -> Result<(), Error> {
        self.client.call(&[b"MEMORY", b"PURGE"], |_| Ok(()))
    }

    /// Hashes there are, some of which may be empty.
    pub(crate) fn count(&self) -> usize {
        self.there.len().div_ceil(FIELDS)
    }

    /// Retrieves all objects of one hash and checks them; returns how many those were.
    ///
    /// # Errors
    /// When the server cannot be reached, or what it has is not what was stored.
    pub(crate) fn retrieve(&mut self, hash: usize) -> Result<u64, Error> {
        let objects = hash * FIELDS..((hash + 1) * FIELDS).min(self.there.len());
        let name = hash_of(objects.start);
        let there = &self.there;
        self.client.call(&[b"HGETALL", name.as_bytes()], |reply| {
            let found = match &reply {
                Reply::Array(found) => found.as_slice(),
                _ => &[],
            };
            check(found, objects, there).ok_or_else(|| {
                Error::Failed(format!(
                    "data was lost: {name} in Redis does not hold what was stored there"
                ))
            })
        })
    }

    /// Sends a command for each object, many at a time; each must be answered with 1: one object more, or less.
    fn each(
        &mut self,
        objects: &[usize],
        mut queue: impl FnMut(&mut RedisClient, usize),
    ) -> Result<(), Error> {
        for some in objects.chunks(AHEAD) {
            for object in some {
                queue(&mut self.client, *object);
            }
            self.client.send()?;
            for object in some {
                self.client.receive(|reply| match reply {
                    Reply::Integer(1) => Ok(()),
                    other => Err(Error::Failed(format!(
                        "storing or removing object {object} in Redis was answered with {other:?}, not with 1"
                    ))),
                })?;
            }
        }
        Ok(())
    }
}

/// The hash that an object is in.
fn hash_of(object: usize) -> String {
    format!("hash:{}", object / FIELDS)
}

/// How many objects a reply has, if they are those of `objects` that are there.
fn check(found: &[Reply<'_>], objects: Range<usize>, there: &[bool]) -> Option<u64> {
    let (pairs, rest) = found.as_chunks::<2>();
    let expected = objects.clone().filter(|object| there[*object]).count();
    let is_right = |pair: &[Reply<'_>; 2]| {
        let [Reply::String(field), Reply::String(value)] = pair else {
            return false;
        };
        number(field).is_some_and(|object| {
            objects.contains(&object) && there[object] && is_value(value, object as u64, OBJECT)
        })
    };
    let right = rest.is_empty() && pairs.len() == expected && pairs.iter().all(is_right);
    right.then_some(expected as u64)
}

/// The number of an object by its field.
fn number(field: &[u8]) -> Option<usize> {
    std::str::from_utf8(field)
        .ok()?
        .strip_prefix("key:")?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_must_hold_just_what_is_there() {
        let keys: Vec<String> = (0..4).map(key).collect();
        let values: Vec<Vec<u8>> = (0..4).map(|object| value(object, OBJECT)).collect();
        let pair = |object: usize, value: usize| {
            [
                Reply::String(keys[object].as_bytes()),
                Reply::String(&values[value]),
            ]
        };
        let there = [true, false, true, true];
        let reply = |pairs: &[(usize, usize)]| {
            let pairs = pairs
                .iter()
                .flat_map(|(object, value)| pair(*object, *value));
            check(&pairs.collect::<Vec<_>>(), 0..3, &there)
        };
        assert_eq!(reply(&[(2, 2), (0, 0)]), Some(2));
        assert_eq!(reply(&[(0, 0)]), None);
        assert_eq!(reply(&[(0, 0), (1, 1)]), None);
        assert_eq!(reply(&[(0, 0), (2, 0)]), None);
        assert_eq!(reply(&[(0, 0), (3, 3)]), None);
    }
}
