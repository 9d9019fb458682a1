//! What QEMU looks for in a plugin.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write as _;
use std::thread;

use crate::Error;
use crate::service::{Options, Service};

/// The plugin interface's version that QEMU 7.2 has. We use none of its functions.
#[unsafe(no_mangle)]
pub(crate) static qemu_plugin_version: c_int = 1;

/// QEMU calls it once, before the machine is made.
///
/// # Safety
///
/// `argv` has `argc` strings.
#[unsafe(no_mangle)]
unsafe extern "C" fn qemu_plugin_install(
    _id: u64,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let count = usize::try_from(argc).unwrap_or(0);
    let arguments = (0..count)
        .map(|index| {
            // SAFETY: QEMU passes argc strings.
            let argument = unsafe { argv.add(index) };
            // SAFETY: as above.
            let argument = unsafe { *argument };
            // SAFETY: as above; they are ended by a 0.
            unsafe { CStr::from_ptr(argument) }
                .to_string_lossy()
                .into_owned()
        })
        .collect::<Vec<_>>();
    match start(&arguments) {
        Ok(()) => 0,
        Err(error) => {
            say(&error.to_string());
            -1
        }
    }
}

/// What comes to pass later does not end QEMU: the guest copies then.
fn start(arguments: &[String]) -> Result<(), Error> {
    let options = Options::parse(arguments)?;
    thread::Builder::new()
        .name("mega-exchange".into())
        .spawn(move || {
            if let Err(error) = Service::start(&options).and_then(Service::run) {
                say(&format!("{error}; the guest copies instead"));
            }
        })
        .map_err(Error::system("start a thread"))?;
    Ok(())
}

/// One whole line on standard error, where QEMU's own messages go, too. Nobody hears it if that is closed.
pub(crate) fn say(text: &str) {
    let line = format!("mega-exchange: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
