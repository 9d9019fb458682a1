//! Keeps a device that comes after the machine's start from answering before its addresses are set.
//!
//! QEMU resets its devices at the start. One that is added later comes as it was made, and ivshmem is made with its decoding of
//! addresses switched on. The firmware that finds it (SeaBIOS) asks for the size of its memory by writing ones into its address, and
//! QEMU maps it there for that moment, at 0xffffffff00000000. KVM refuses memory beyond what the host's processor can address (seen
//! with Linux 6.12), and then QEMU aborts. So we switch the decoding off, as a reset would have done.

use serde_json::{Value, json};

use crate::Error;
use crate::qmp::Qmp;

/// The ports through which a processor of a PC reaches a PCI device's configuration: which register, and what is in it.
const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;
/// Of the former: that there is an access at all.
const ENABLE: u32 = 1 << 31;
/// The register with the decoding, PCI_COMMAND.
const COMMAND: u32 = 4;

/// Adds a device that decodes nothing yet, where that matters: with KVM, on a PC's own bus. Below a bridge nothing is seen before
/// the bridge is set up. The guest stands still meanwhile, so that it neither finds the device too early nor uses the ports.
pub(crate) fn add(qmp: &mut Qmp, device: &Value) -> Result<(), Error> {
    let has_kvm = qmp.execute("query-kvm", &json!({}))?["enabled"] == true;
    if !has_kvm {
        return qmp.execute("device_add", device).map(|_| ());
    }
    let was_running = qmp.execute("query-status", &json!({}))?["running"] == true;
    if was_running {
        qmp.execute("stop", &json!({}))?;
    }
    let added = add_and_switch_off(qmp, device);
    if was_running {
        qmp.execute("cont", &json!({}))?;
    }
    added
}

fn add_and_switch_off(qmp: &mut Qmp, device: &Value) -> Result<(), Error> {
    qmp.execute("device_add", device)?;
    let buses = qmp.execute("query-pci", &json!({}))?;
    let Some(place) = place_of(&buses, &device["id"]) else {
        return Ok(());
    };
    let before = read(qmp)?;
    write(qmp, "w", ADDRESS, ENABLE | place | COMMAND)?;
    write(qmp, "h", DATA, 0)?;
    write(qmp, "w", ADDRESS, before)
}

/// Where the device is on the machine's first bus, as the port takes it. `None` if it is not there.
fn place_of(buses: &Value, id: &Value) -> Option<u32> {
    let first = buses.as_array()?.iter().find(|bus| bus["bus"] == 0)?;
    let mut devices = first["devices"].as_array()?.iter();
    let device = devices.find(|device| device["qdev_id"] == *id)?;
    let number = |name: &str| u32::try_from(device[name].as_u64()?).ok();
    Some(number("slot")? << 11 | number("function")? << 8)
}

/// `portl[0x0cf8] = 0x80000000`
fn read(qmp: &mut Qmp) -> Result<u32, Error> {
    let command = format!("i /w {ADDRESS:#x}");
    let answer = qmp.human(&command)?;
    answer
        .trim()
        .rsplit_once(" = 0x")
        .and_then(|(_, value)| u32::from_str_radix(value, 16).ok())
        .ok_or(Error::Answer { command, answer })
}

/// Size `h` is 2 bytes, and `w` 4.
fn write(qmp: &mut Qmp, size: &str, port: u16, value: u32) -> Result<(), Error> {
    let command = format!("o /{size} {port:#x} {value:#x}");
    let answer = qmp.human(&command)?;
    if answer.is_empty() {
        Ok(())
    } else {
        Err(Error::Answer { command, answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_on_the_first_bus_alone() {
        let buses = json!([{ "bus": 0, "devices": [
            { "bus": 0, "slot": 1, "function": 0, "qdev_id": "" },
            { "bus": 0, "slot": 5, "function": 2, "qdev_id": "mine" },
            { "bus": 0, "slot": 6, "function": 0, "qdev_id": "bridge", "pci_bridge": { "devices": [
                { "bus": 1, "slot": 3, "function": 0, "qdev_id": "below" }] } }] },
            { "bus": 64, "devices": [{ "bus": 64, "slot": 0, "function": 0, "qdev_id": "other" }] }]);
        assert_eq!(place_of(&buses, &json!("mine")), Some(0x2a00));
        assert_eq!(place_of(&buses, &json!("below")), None);
        assert_eq!(place_of(&buses, &json!("other")), None);
    }
}
