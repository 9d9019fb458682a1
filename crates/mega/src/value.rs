//! Durations, shares and address ranges as people write them. (Sizes are in `mega_core::bytes`.)

use mega_linux::process::Chosen;
use std::ops::Range;
use std::time::Duration;

use mega_core::engine::Interval;

/// Parses a duration as people write it: `500ms`, `5s`, `1m 30s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| format!("'{text}' is not a duration; write it as 500ms, 5s or 1m"))
}

/// Parses a duration between `least` and `most`.
fn bounded(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let value = duration(text)?;
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(format!(
            "'{text}' is out of range: from {} to {}",
            format_duration(least),
            format_duration(most)
        ))
    }
}

/// Parses an interval between two observations: 10 ms to 1 h.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    bounded(text, Duration::from_millis(10), Duration::from_secs(3600))
}

/// Parses an interval between two observations, or `auto`.
pub(crate) fn interval_or_auto(text: &str) -> Result<Interval, String> {
    match text {
        "auto" => Ok(Interval::Auto),
        _ => interval(text).map(Interval::Fixed),
    }
}

/// Parses a bound on how long a target's mmap lock may be held: 100 us to 10 s.
pub(crate) fn lock_bound(text: &str) -> Result<Duration, String> {
    bounded(text, Duration::from_micros(100), Duration::from_secs(10))
}

/// Parses a number of seconds: 0.1 to 3600.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "'{text}' is not a number of seconds from 0.1 to 3600"
        )),
    }
}

/// Parses a share of one core: above 0 % to 100 %.
pub(crate) fn cpu_share(text: &str) -> Result<f64, String> {
    share(text, 0.001).ok_or_else(|| {
        format!("'{text}' is not a share of one core; write it as 25%, from 0.001% to 100%")
    })
}

/// Parses the share of its time that a program may stand still: 0.1 % to 100 %, which is no bound.
pub(crate) fn standstill(text: &str) -> Result<f64, String> {
    share(text, 0.1).ok_or_else(|| {
        format!("'{text}' is not a share of a program's time; write it as 50%, from 0.1% to 100%")
    })
}

/// Parses a share from `least_percent` to 100 %.
fn share(text: &str, least_percent: f64) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    (least_percent..=100.0)
        .contains(&percent)
        .then_some(percent / 100.0)
}

/// Parses a part of some memory: 0 % to 100 %.
pub(crate) fn part(text: &str) -> Result<f64, String> {
    let refused = || format!("'{text}' is not a part; write it as 95%, from 0% to 100%");
    let number = text.strip_suffix('%').ok_or_else(refused)?;
    let percent: f64 = number.trim().parse().map_err(|_| refused())?;
    if (0.0..=100.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err(refused())
    }
}

/// Parses a part: 0 % to 100 %, or 0 to 1.
pub(crate) fn part_or_number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => part(text),
    }
}

/// Parses which memory is meant: words with commas between them.
pub(crate) fn chosen(text: &str) -> Result<Chosen, String> {
    Chosen::parse(text.split(',').map(str::trim))
}

/// Parses how long to wait: 0 s to 1 day.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    bounded(text, Duration::ZERO, Duration::from_secs(86_400))
}

/// Parses how long to record: 10 ms to 30 days.
pub(crate) fn recorded_time(text: &str) -> Result<Duration, String> {
    bounded(
        text,
        Duration::from_millis(10),
        Duration::from_secs(30 * 86_400),
    )
}

/// Parses bytes per second: a size, with or without `/s`.
pub(crate) fn bytes_per_second(text: &str) -> Result<u64, String> {
    mega_core::bytes::parse(text.strip_suffix("/s").unwrap_or(text))
}

/// Parses a number of bytes, at least one.
pub(crate) fn some_bytes(text: &str) -> Result<u64, String> {
    match mega_core::bytes::parse(text)? {
        0 => Err(format!("'{text}' is nothing; say how much, as 512MiB")),
        bytes => Ok(bytes),
    }
}

/// The smallest bound of a recording: a look at a large program can take some of it.
const LEAST_RECORDING: u64 = 1 << 20;

/// Parses how much a recording may take.
pub(crate) fn recording_bytes(text: &str) -> Result<u64, String> {
    match mega_core::bytes::parse(text)? {
        bytes if bytes < LEAST_RECORDING => Err(format!(
            "'{text}' is too little for a recording; 1MiB is the least"
        )),
        bytes => Ok(bytes),
    }
}

/// Which memory of hzmem's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HzRange {
    /// All that hzmem got at run time.
    All,
    /// The range that begins at this address.
    At(u64),
}

/// Parses which of hzmem's memory is meant: `all`, or the physical address of a range, in hexadecimal.
pub(crate) fn hz_range(text: &str) -> Result<HzRange, String> {
    if text == "all" {
        return Ok(HzRange::All);
    }
    address(text)
        .map(HzRange::At)
        .ok_or_else(|| format!("'{text}' is neither `all` nor an address, as 0x138000000"))
}

/// Parses a range of addresses: `START-END` in hexadecimal, or `START+LENGTH` with a length as 64MiB.
pub(crate) fn address_range(text: &str) -> Result<Range<u64>, String> {
    let refused = || {
        format!(
            "'{text}' is not a range of addresses; write it as 7f0000000000-7f0040000000 or 7f0000000000+1GiB"
        )
    };
    let range = if let Some((start, end)) = text.split_once('-') {
        address(start)
            .zip(address(end))
            .map(|(start, end)| start..end)
    } else if let Some((start, length)) = text.split_once('+') {
        let length = mega_core::bytes::parse(length).ok();
        address(start)
            .zip(length)
            .and_then(|(start, length)| Some(start..start.checked_add(length)?))
    } else {
        None
    };
    let range = range.ok_or_else(refused)?;
    if range.is_empty() {
        return Err(format!(
            "'{text}' is empty: its start must lie below its end"
        ));
    }
    Ok(range)
}

fn address(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    // `from_str_radix` would take a sign.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Parses `KEY=VALUE`, a parameter of a policy.
pub(crate) fn parameter(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| format!("'{text}' is not of the form KEY=VALUE"))?;
    let value = value
        .parse::<f64>()
        .map_err(|_| format!("the value of '{name}' is not a number: '{value}'"))?;
    Ok((name.to_owned(), value))
}

/// Writes a duration as [`duration`] reads it, to within 5 %: in seconds, below ten of them in milliseconds, below ten of those
/// in microseconds.
pub(crate) fn format_duration(duration: Duration) -> String {
    let unit = if duration >= Duration::from_secs(10) {
        Duration::from_secs(1)
    } else if duration >= Duration::from_millis(10) {
        Duration::from_millis(1)
    } else {
        Duration::from_micros(1)
    };
    let whole = (duration.as_secs_f64() / unit.as_secs_f64()).round();
    humantime::format_duration(unit.mul_f64(whole)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_with_every_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        for bad in [
            "",
            "5",
            "s",
            "-5s",
            "5 parsecs",
            "NaNs",
            "infs",
            "1e400s",
            "5ss",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn intervals_and_lock_bounds_have_limits() {
        for bad in ["0s", "1ms", "2h"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
        assert_eq!(interval("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(
            lock_bound("1us"),
            Err("'1us' is out of range: from 100us to 10s".to_owned())
        );
    }

    #[test]
    fn a_part_is_a_percentage_or_a_number_up_to_one() {
        assert_eq!(part_or_number("80%"), Ok(0.8));
        assert_eq!(part_or_number("0.8"), Ok(0.8));
        for bad in ["80", "1.1", "-0.1", "101%", "NaN", ""] {
            assert!(part_or_number(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_are_percentages_of_one_core() {
        assert_eq!(cpu_share("25%"), Ok(0.25));
        assert_eq!(cpu_share("100 %"), Ok(1.0));
        for bad in ["25", "0%", "-1%", "101%", "NaN%", "%", ""] {
            assert!(cpu_share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_are_percentages() {
        assert_eq!(part("95%"), Ok(0.95));
        assert_eq!((part("0%"), part("100 %")), (Ok(0.0), Ok(1.0)));
        for bad in ["95", "0.95", "-1%", "101%", "NaN%", "%", ""] {
            assert!(part(bad).is_err(), "{bad}");
        }
        assert_eq!(wait("0s"), Ok(Duration::ZERO));
        assert!(wait("25h").is_err());
    }

    #[test]
    fn ranges_in_both_forms() {
        assert_eq!(address_range("1000-3000"), Ok(0x1000..0x3000));
        assert_eq!(address_range("0x1000-0x3000"), Ok(0x1000..0x3000));
        assert_eq!(address_range("0x200000+4MiB"), Ok(0x20_0000..0x60_0000));
        for bad in [
            "",
            "1000",
            "3000-1000",
            "1000-1000",
            "x-y",
            "-1-5",
            "+5-+9",
            "ffffffffffffffff+1MiB",
            "1000+0",
        ] {
            assert!(address_range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn memory_of_hzmem_is_all_or_an_address() {
        assert_eq!(hz_range("all"), Ok(HzRange::All));
        assert_eq!(hz_range("0x138000000"), Ok(HzRange::At(0x1_3800_0000)));
        assert_eq!(some_bytes("2MiB"), Ok(2 << 20));
        for bad in ["", "ALL", "-1", "0x", "1 2"] {
            assert!(hz_range(bad).is_err(), "{bad}");
        }
        for bad in ["0", "", "0MiB", "-1"] {
            assert!(some_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parameters_are_names_with_numbers() {
        assert_eq!(parameter("scans=10"), Ok(("scans".to_owned(), 10.0)));
        for bad in ["scans", "=5", "scans=many", "scans="] {
            assert!(parameter(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_written_short() {
        assert_eq!(format_duration(Duration::from_millis(10)), "10ms");
        assert_eq!(format_duration(Duration::from_secs(5)), "5s");
        assert_eq!(format_duration(Duration::from_secs(90)), "1m 30s");
        assert_eq!(format_duration(Duration::from_micros(9_500)), "9ms 500us");
        assert_eq!(format_duration(Duration::ZERO), "0s");
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in ".*") {
            let _ = (duration(&text), interval(&text), lock_bound(&text), cpu_share(&text), part(&text));
            let _ = (address_range(&text), parameter(&text), bytes_per_second(&text), hz_range(&text));
        }

        #[test]
        fn what_is_written_is_read_again(millis in 1u64..3_600_000) {
            let duration_ = Duration::from_millis(millis);
            let read = duration(&format_duration(duration_)).expect("a duration");
            let error = (read.as_secs_f64() - duration_.as_secs_f64()).abs();
            prop_assert!(error <= duration_.as_secs_f64() * 0.05);
        }
    }
}
