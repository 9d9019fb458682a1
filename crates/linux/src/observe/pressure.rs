//! How long tasks waited for memory: the kernel's pressure stall information (PSI).

use std::path::Path;

use crate::Error;
use crate::kernel::Kernel;

/// The share of the last ten seconds in which tasks waited for memory, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one task waited.
    pub some: f64,
    /// All tasks waited that were not idle.
    pub full: f64,
}

/// Reads `/proc/pressure/memory`.
///
/// # Errors
/// [`Error::Io`], also where the kernel has no PSI (`CONFIG_PSI`, `psi=1`); [`Error::Malformed`].
pub fn memory(kernel: &dyn Kernel) -> Result<Pressure, Error> {
    let path = Path::new("/proc/pressure/memory");
    let text = kernel.read(path).map_err(Error::io("read", path))?;
    parse(&String::from_utf8_lossy(&text)).ok_or_else(|| Error::Malformed {
        path: path.to_owned(),
        reason: "has no lines `some avg10=N ...` and `full avg10=N ...`".to_owned(),
    })
}

/// "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", and the same with "full".
fn parse(text: &str) -> Option<Pressure> {
    let share = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        let mut words = line.split_ascii_whitespace();
        let percent: f64 = words
            .find_map(|word| word.strip_prefix("avg10="))?
            .parse()
            .ok()?;
        (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
    };
    Some(Pressure {
        some: share("some ")?,
        full: share("full ")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_those_of_ten_seconds() {
        let text = "some avg10=12.50 avg60=1.00 avg300=0.10 total=99\nfull avg10=2.00 avg60=0.00 avg300=0.00 total=9\n";
        let pressure = Pressure {
            some: 0.125,
            full: 0.02,
        };
        assert_eq!(parse(text), Some(pressure));
        for wrong in [
            "",
            "some avg10=1.00\n",
            "some avg10=x\nfull avg10=0\n",
            "some avg10=NaN\nfull avg10=0\n",
            "some avg10=101\nfull avg10=0\n",
            "some\nfull\n",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC*|((some|full) avg10=[0-9.]* ?\n)*") {
            let _ = parse(&text);
        }
    }
}
