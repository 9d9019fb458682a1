//! Which machine this is.

use std::path::Path;

use mega_core::worth::{METHOD, Validity};

use crate::Error;
use crate::guest;
use crate::kernel::Kernel;
use crate::observe::memory;

/// What a calibration that is made now is valid for.
///
/// # Errors
/// [`Error::Io`] and [`Error::Malformed`], where `/proc` does not say.
pub fn validity(kernel: &dyn Kernel) -> Result<Validity, Error> {
    let cpuinfo = read(kernel, "/proc/cpuinfo")?;
    let field = |name: &str| {
        let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let mut values = lines.filter(|(key, _)| key.trim() == name);
        values.next().map(|(_, value)| value.trim().to_owned())
    };
    Ok(Validity {
        processor: processor(field),
        kernel: read(kernel, "/proc/sys/kernel/osrelease")?
            .trim()
            .to_owned(),
        hypervisor: guest::is_guest(kernel).then(|| hypervisor(kernel)),
        memory: memory::observe(kernel)?.total,
        method: METHOD,
    })
}

/// The model's name is not enough in a virtual machine: hypervisors give several processors one name.
fn processor(field: impl Fn(&str) -> Option<String>) -> String {
    let numbers = ["cpu family", "model", "stepping"].map(|name| field(name).unwrap_or_default());
    let name = field("model name").unwrap_or_else(|| "unknown".to_owned());
    format!("{name} ({})", numbers.join("/"))
}

/// What the machine calls itself, as far as its hypervisor says.
fn hypervisor(kernel: &dyn Kernel) -> String {
    let names = [
        "/sys/hypervisor/type",
        "/sys/class/dmi/id/sys_vendor",
        "/sys/class/dmi/id/product_name",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ];
    let said: Vec<String> = names
        .iter()
        .filter_map(|path| read(kernel, path).ok())
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect();
    if said.is_empty() {
        "one that does not say its name".to_owned()
    } else {
        said.join(", ")
    }
}

fn read(kernel: &dyn Kernel, path: &str) -> Result<String, Error> {
    let path = Path::new(path);
    let text = kernel.read(path).map_err(Error::io("read", path))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
