//! Redis that saves again and again: a fork, and a child that reads all of its memory while the server goes on.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::live::run::Run;
use crate::live::server::redis_client::RedisClient;
use crate::live::server::resp::Reply;

/// Between the end of one save and the next.
const PAUSE: Duration = Duration::from_secs(2);
/// Between two looks at whether it is over.
const LOOK: Duration = Duration::from_millis(100);

/// Has a server save until the time that is measured is over, and says how often it did.
///
/// # Errors
/// When the server cannot be reached, or a save fails; and when interrupted.
pub(super) fn save_again_and_again(run: &Run<'_>, port: u16) -> Result<u32, Error> {
    let mut client = RedisClient::connect(port)?;
    let started = Instant::now();
    let mut saves = 0;
    while started.elapsed() < run.measured {
        client.call(&[b"BGSAVE"], |_| Ok(()))?;
        while is_saving(&mut client)? {
            run.sleep(LOOK)?;
        }
        saves += 1;
        run.sleep(PAUSE)?;
    }
    Ok(saves)
}

/// Whether it still saves.
fn is_saving(client: &mut RedisClient) -> Result<bool, Error> {
    client.call(&[&b"INFO"[..], b"persistence"], |reply| {
        let text = match reply {
            Reply::String(text) => String::from_utf8_lossy(text).into_owned(),
            other => {
                return Err(Error::Failed(format!("Redis answered INFO with {other:?}")));
            }
        };
        let has = |line: &str| text.lines().any(|found| found.trim() == line);
        if has("rdb_bgsave_in_progress:1") {
            Ok(true)
        } else if has("rdb_last_bgsave_status:ok") {
            Ok(false)
        } else {
            Err(Error::Failed(
                "Redis could not save; its log says why".into(),
            ))
        }
    })
}
