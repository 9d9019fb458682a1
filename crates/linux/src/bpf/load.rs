//! Loads a compiled BPF program. If the kernel refuses it, says why.

use std::sync::Mutex;

use libbpf_rs::{ErrorKind, Object, ObjectBuilder, PrintLevel};

/// Lines of libbpf's log kept in an error: the reason is in its last lines.
const LOG_LINES: usize = 12;

/// Why a program could not be loaded.
#[derive(Debug)]
pub(crate) enum LoadError {
    NotPermitted,
    Rejected { reason: String },
}

/// Loads what clang made of a program (`object`, an ELF file) into the kernel.
///
/// # Errors
/// Not permitted, or refused with the reason libbpf logged.
pub(crate) fn load(object: &[u8]) -> Result<Object, LoadError> {
    load_some(object, |_| true)
}

/// The same of the programs with these names alone.
///
/// # Errors
/// As [`load`].
pub(crate) fn load_some(
    object: &[u8],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Object, LoadError> {
    let (loaded, log) = captured(|| {
        let mut object = ObjectBuilder::default().open_memory(object)?;
        for mut program in object.progs_mut() {
            let wanted = program.name().to_str().is_some_and(&is_wanted);
            program.set_autoload(wanted);
        }
        object.load()
    });
    loaded.map_err(|error: libbpf_rs::Error| match error.kind() {
        ErrorKind::PermissionDenied => LoadError::NotPermitted,
        _ => LoadError::Rejected {
            reason: reason(&error, &log),
        },
    })
}

/// libbpf's log while a [`captured`] call runs.
static LOG: Mutex<String> = Mutex::new(String::new());
/// Held during a [`captured`] call: libbpf has one log for the whole process.
static CAPTURING: Mutex<()> = Mutex::new(());

/// Runs `call` with libbpf's log captured instead of printed, and leaves libbpf silent.
fn captured<T>(call: impl FnOnce() -> T) -> (T, String) {
    let _one_at_a_time = CAPTURING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    libbpf_rs::set_print(Some((PrintLevel::Info, |_, line| {
        log(|text| text.push_str(&line))
    })));
    log(String::clear);
    let result = call();
    libbpf_rs::set_print(None);
    let mut captured = String::new();
    log(|text| captured = std::mem::take(text));
    (result, captured)
}

fn log(change: impl FnOnce(&mut String)) {
    change(
        &mut LOG
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner),
    );
}

/// The error and the last lines of the log, which hold the verifier's complaint.
fn reason(error: &libbpf_rs::Error, log: &str) -> String {
    let lines: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let tail = lines
        .get(lines.len().saturating_sub(LOG_LINES)..)
        .unwrap_or_default()
        .join("; ");
    if tail.is_empty() {
        error.to_string()
    } else {
        format!("{error} ({tail})")
    }
}
