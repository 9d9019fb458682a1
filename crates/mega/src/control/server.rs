//! The answering side.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mega_linux::run_dir::RunDir;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::feed::Feeds;
use super::{Command, Request, Response, folder};
use crate::exit::Failure;
use crate::published::Published;
use crate::report::VERSION;

/// How long a peer may take to ask, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest question.
const LONGEST_REQUEST: u64 = 4096;

/// Answers on the control socket for as long as it lives.
pub(crate) struct Server {
    path: PathBuf,
}

impl Server {
    /// Listens in `run_dir`. Members of `group` may ask too.
    ///
    /// # Errors
    /// Where the socket cannot be made, or not be given to the group.
    pub(crate) fn start(
        run_dir: &RunDir,
        published: Published,
        group: Option<u32>,
    ) -> Result<Self, Failure> {
        let folder = RunDir::at(&folder(run_dir.path()))?;
        let path = folder.path().join(format!("{}.sock", std::process::id()));
        let refused =
            |error| Failure::Failed(format!("cannot listen on {}: {error}", path.display()));
        remove_stale(folder.path());
        let listener = UnixListener::bind(&path).map_err(refused)?;
        match group {
            None => restrict(&path, 0o600).map_err(refused)?,
            Some(group) => admit(run_dir, folder.path(), &path, group)?,
        }
        std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || answer_all(&listener, &published, group.is_some()))
            .map_err(refused)?;
        Ok(Server { path })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The thread ends with the process. The next manager removes a file that stays.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes the sockets of killed megas, one with this process's own pid included.
fn remove_stale(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let pid = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.parse::<u32>().ok());
        let lives = |pid| pid != std::process::id() && Path::new(&format!("/proc/{pid}")).exists();
        if pid.is_some_and(|pid| !lives(pid)) {
            // Where it stays, `mega status` tries it in vain and goes on.
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn restrict(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Lets members of `group` connect to the socket at `path`, and list the folder that it is in.
fn admit(run_dir: &RunDir, folder: &Path, path: &Path, group: u32) -> Result<(), Failure> {
    let give = |path: &Path, mode| {
        let given = chown(path, None, Some(group)).and_then(|()| restrict(path, mode));
        given.map_err(|error| {
            let path = path.display();
            Failure::Failed(format!("cannot open {path} to group {group}: {error}"))
        })
    };
    // The socket first: until all three are open, nobody gets to it.
    give(path, 0o660)?;
    give(folder, 0o750)?;
    Ok(run_dir.let_through(group)?)
}

fn answer_all(listener: &UnixListener, published: &Published, has_group: bool) {
    let feeds = Feeds::default();
    loop {
        match listener.accept() {
            // A peer that goes away or is too slow gets no answer.
            Ok((stream, _)) => drop(answer(stream, published, &feeds, has_group)),
            // Perhaps too many files are open: wait before the next try.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Answers one question. Where the socket is a group's, the kernel has let nobody but members connect.
fn answer(
    stream: UnixStream,
    published: &Published,
    feeds: &Feeds,
    has_group: bool,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = socket_peercred(&stream)?.uid;
    if !(has_group || peer.is_root() || peer == geteuid()) {
        return send(&stream, &refuse("only root may ask"));
    }
    let mut line = String::new();
    BufReader::new((&stream).take(LONGEST_REQUEST)).read_line(&mut line)?;
    match respond(&line, published) {
        Answer::One(response) => send(&stream, &response),
        Answer::Events { after, follow } => {
            match feeds.start(
                stream.try_clone()?,
                published.events().clone(),
                after,
                follow,
            ) {
                Ok(()) => Ok(()),
                Err(why) => send(&stream, &refuse(&why)),
            }
        }
    }
}

/// Sends one line.
pub(super) fn send(mut stream: &UnixStream, response: &Response) -> std::io::Result<()> {
    let mut text = serde_json::to_string(response)?;
    text.push('\n');
    stream.write_all(text.as_bytes())
}

/// What is sent.
enum Answer {
    One(Box<Response>),
    /// Events after the one with this sequence number, also those to come if `follow`.
    Events {
        after: u64,
        follow: bool,
    },
}

fn respond(line: &str, published: &Published) -> Answer {
    let response = match serde_json::from_str::<Request>(line) {
        Err(error) => refuse(&format!("not a request: {error}")),
        Ok(request) if request.version != VERSION => refuse(&format!(
            "version {} is not spoken here, {VERSION} is",
            request.version
        )),
        Ok(Request {
            command: Command::Events,
            after,
            follow,
            ..
        }) => {
            let after = after.unwrap_or(0);
            return Answer::Events { after, follow };
        }
        Ok(Request {
            command: Command::Status,
            ..
        }) => Response {
            version: VERSION,
            status: Some(published.status()),
            ..Response::default()
        },
        Ok(Request {
            command: Command::History,
            ..
        }) => match published.day() {
            Some(day) => Response {
                version: VERSION,
                history: Some(day),
                ..Response::default()
            },
            None => refuse("no history is kept here: only `mega daemon` keeps one"),
        },
        Ok(Request {
            command: Command::Process,
            pid: None,
            ..
        }) => refuse("the command `process` needs a `pid`"),
        Ok(Request {
            command: Command::Process,
            pid: Some(pid),
            ..
        }) => match published.process(pid) {
            Ok(process) => Response {
                version: VERSION,
                process: Some(process),
                ..Response::default()
            },
            Err(reason) => refuse(&reason),
        },
    };
    Answer::One(Box::new(response))
}

fn refuse(reason: &str) -> Response {
    Response {
        version: VERSION,
        error: Some(reason.to_owned()),
        ..Response::default()
    }
}
