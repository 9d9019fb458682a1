//! The interface for C, as `include/mega_exchange.h` declares it.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};

use crate::daemon::Connection;
use crate::{Error, Exchanger, Pair, Range, Refusal, Server};

/// `struct mega_exchange_range`.
#[repr(C)]
#[derive(Debug)]
pub struct CRange {
    guest: u64,
    bytes: u64,
    host: *mut c_void,
}

/// `struct mega_exchange_blocks`.
#[repr(C)]
#[derive(Debug)]
pub struct CBlocks {
    source: u64,
    target: u64,
}

/// `struct mega_exchanger`: it is shared with the threads of its servers.
#[derive(Debug)]
pub struct CExchanger(Arc<Exchanger>);

/// `struct mega_exchange_server`: it is shared with its thread or its connection.
#[derive(Debug)]
pub struct CServer {
    server: Arc<Server>,
    /// `None`: the daemon is to serve it.
    serving: Option<Serving>,
}

/// A thread of this process that serves a page.
#[derive(Debug)]
struct Serving {
    stop: OwnedFd,
    thread: JoinHandle<()>,
}

/// `struct mega_exchange_connection`.
#[derive(Debug)]
pub struct CConnection {
    connection: Connection,
    server: Arc<Server>,
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// `ranges` has `count` elements; the memory is the guest's and stays mapped until the exchanger is freed; `why` is NULL or has
/// `why_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchanger_new(
    ranges: *const CRange,
    count: usize,
    exchanger: *mut *mut CExchanger,
    why: *mut c_char,
    why_bytes: usize,
) -> c_int {
    // SAFETY: the caller vouches for the array and the memory.
    let ranges = unsafe { ranges_of(ranges, count) };
    let made = Exchanger::new(ranges).map(|made| CExchanger(Arc::new(made)));
    // SAFETY: the caller vouches for `exchanger` and `why`.
    unsafe { hand_over(made, exchanger, why, why_bytes) }
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// `pairs` and `results` have `count` elements; the exchanger was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchanger_exchange(
    exchanger: *const CExchanger,
    pairs: *const CBlocks,
    count: usize,
    results: *mut i32,
) -> usize {
    // SAFETY: the caller vouches for the exchanger.
    let exchanger = unsafe { &*exchanger };
    // SAFETY: the caller vouches for the array.
    let pairs: Vec<Pair> = unsafe { array(pairs, count) }
        .iter()
        .map(|pair| Pair {
            source: pair.source,
            target: pair.target,
        })
        .collect();
    let mut exchanged = 0;
    for (index, result) in exchanger.0.exchange(&pairs).into_iter().enumerate() {
        exchanged += usize::from(result.is_ok());
        // SAFETY: there is one result for each pair, and the caller vouches for `count` elements.
        let slot = unsafe { results.add(index) };
        // SAFETY: as above.
        unsafe { slot.write(result.err().map_or(0, Refusal::code)) };
    }
    exchanged
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// The exchanger was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchanger_pause(exchanger: *const CExchanger) {
    // SAFETY: the caller vouches for the exchanger.
    unsafe { &*exchanger }.0.pause();
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// The exchanger was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchanger_resume(exchanger: *const CExchanger) -> c_int {
    // SAFETY: the caller vouches for the exchanger.
    match unsafe { &*exchanger }.0.resume() {
        Ok(()) => 0,
        Err(error) => -error.errno(),
    }
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// The exchanger is NULL, or was not freed and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchanger_free(exchanger: *mut CExchanger) {
    if !exchanger.is_null() {
        // SAFETY: it was made by mega_exchanger_new, and the caller uses it no more.
        drop(unsafe { Box::from_raw(exchanger) });
    }
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// The exchanger was not freed; `why` is NULL or has `why_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchange_server_start(
    exchanger: *const CExchanger,
    server: *mut *mut CServer,
    why: *mut c_char,
    why_bytes: usize,
) -> c_int {
    // SAFETY: the caller vouches for the exchanger.
    let started = start(Arc::clone(unsafe { &(*exchanger).0 }));
    // SAFETY: the caller vouches for `server` and `why`.
    unsafe { hand_over(started, server, why, why_bytes) }
}

fn start(exchanger: Arc<Exchanger>) -> Result<CServer, Error> {
    let server = Arc::new(Server::new()?);
    let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(Error::system("make an eventfd"))?;
    let stopped = stop.try_clone().map_err(Error::system("copy an eventfd"))?;
    let serving = Arc::clone(&server);
    let thread = thread::Builder::new()
        .name("mega-exchange".into())
        .spawn(move || {
            // If waiting fails nobody serves any more, and the page has to say so.
            if serving.run(exchanger.as_ref(), stopped.as_fd()).is_err() {
                serving.withdraw();
            }
        })
        .map_err(Error::system("start a thread"))?;
    Ok(CServer {
        server,
        serving: Some(Serving { stop, thread }),
    })
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// `server` may be written; `why` is NULL or has `why_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchange_server_new(
    server: *mut *mut CServer,
    why: *mut c_char,
    why_bytes: usize,
) -> c_int {
    let made = Server::new().map(|made| {
        // Nobody does until the daemon offers it.
        made.withdraw();
        CServer {
            server: Arc::new(made),
            serving: None,
        }
    });
    // SAFETY: the caller vouches for `server` and `why`.
    unsafe { hand_over(made, server, why, why_bytes) }
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// The server was not stopped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchange_server_memory(server: *const CServer) -> c_int {
    // SAFETY: the caller vouches for the server.
    unsafe { &(*server).server }.memory().as_raw_fd()
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// The server was not stopped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchange_server_doorbell(server: *const CServer) -> c_int {
    // SAFETY: the caller vouches for the server.
    unsafe { &(*server).server }.doorbell().as_raw_fd()
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// The server is NULL, or was not stopped and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchange_server_stop(server: *mut CServer) {
    if !server.is_null() {
        // SAFETY: it was made by mega_exchange_server_start or _new, and the caller uses it no more.
        drop(unsafe { Box::from_raw(server) });
    }
}

impl Drop for CServer {
    fn drop(&mut self) {
        self.server.withdraw();
        if let Some(Serving { stop, thread }) = self.serving.take() {
            // An eventfd takes a 1 unless its counter is full, and then it is readable anyway.
            let _ = rustix::io::write(&stop, &1_u64.to_ne_bytes());
            let _ = thread.join();
        }
    }
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// `path` is a string; the server was not stopped; `ranges` has `count` elements; the memory is the guest's and stays mapped until
/// the connection is ended; `connection` may be written; `why` is NULL or has `why_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchange_connect(
    path: *const c_char,
    server: *const CServer,
    ranges: *const CRange,
    count: usize,
    connection: *mut *mut CConnection,
    why: *mut c_char,
    why_bytes: usize,
) -> c_int {
    // SAFETY: the caller vouches for the string.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    // SAFETY: the caller vouches for the server.
    let server = unsafe { &*server };
    // SAFETY: the caller vouches for the array and the memory.
    let ranges = unsafe { ranges_of(ranges, count) };
    let connected = connect(Path::new(path), server, &ranges);
    // SAFETY: the caller vouches for `connection` and `why`.
    unsafe { hand_over(connected, connection, why, why_bytes) }
}

fn connect(path: &Path, server: &CServer, ranges: &[Range]) -> Result<CConnection, Error> {
    if server.serving.is_some() {
        return Err(Error::NotShared(
            "a thread of this process serves it; make the server by mega_exchange_server_new",
        ));
    }
    Ok(CConnection {
        connection: Connection::open(path, &server.server, ranges)?,
        server: Arc::clone(&server.server),
    })
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// The connection was not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchange_connection_ended(connection: *const CConnection) -> c_int {
    // SAFETY: the caller vouches for the connection.
    unsafe { &(*connection).connection }.as_fd().as_raw_fd()
}

/// See `include/mega_exchange.h`.
///
/// # Safety
///
/// The connection is NULL, or was not ended and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mega_exchange_connection_end(connection: *mut CConnection) {
    if connection.is_null() {
        return;
    }
    // SAFETY: it was made by mega_exchange_connect, and the caller uses it no more.
    let CConnection { connection, server } = *unsafe { Box::from_raw(connection) };
    connection.end();
    // A daemon that was killed could neither say so in the page nor end its request.
    server.withdraw();
    server.end_request();
    server.answer();
}

/// # Safety
///
/// `ranges` has `count` elements; the memory is the guest's, and stays mapped as long as what is made of them lives.
unsafe fn ranges_of(ranges: *const CRange, count: usize) -> Vec<Range> {
    // SAFETY: the caller vouches for the array.
    unsafe { array(ranges, count) }
        .iter()
        // SAFETY: the caller vouches for the memory.
        .map(|range| unsafe { Range::new(range.guest, range.bytes, range.host.addr()) })
        .collect()
}

/// # Safety
///
/// `first` has `count` elements, or `count` is 0.
unsafe fn array<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for the array.
    unsafe { slice::from_raw_parts(first, count) }
}

/// Gives the caller the object, or the reason why there is none.
///
/// # Safety
///
/// `place` may be written; `why` is NULL or has `why_bytes` bytes.
unsafe fn hand_over<T>(
    made: Result<T, Error>,
    place: *mut *mut T,
    why: *mut c_char,
    why_bytes: usize,
) -> c_int {
    match made {
        Ok(object) => {
            // SAFETY: the caller vouches for the place.
            unsafe { place.write(Box::into_raw(Box::new(object))) };
            0
        }
        Err(error) => {
            // SAFETY: the caller vouches for `why`.
            unsafe { tell(&error.to_string(), why, why_bytes) };
            -error.errno()
        }
    }
}

/// # Safety
///
/// `why` is NULL or has `why_bytes` bytes.
unsafe fn tell(reason: &str, why: *mut c_char, why_bytes: usize) {
    if why.is_null() || why_bytes == 0 {
        return;
    }
    let length = reason.len().min(why_bytes - 1);
    // SAFETY: length is less than why_bytes, and at most that of the reason.
    unsafe { why.copy_from_nonoverlapping(reason.as_ptr().cast(), length) };
    // SAFETY: length is less than why_bytes.
    let end = unsafe { why.add(length) };
    // SAFETY: as above.
    unsafe { end.write(0) };
}
