//! Numbers of bytes as people write them.

const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Parses a number of bytes: digits with an optional `K`, `M`, `G`, `KiB`, `MiB` or `GiB` (powers of 1024).
///
/// # Errors
/// One line saying what was expected.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => {
            return Err(format!(
                "`{text}` is not a size; write it as 64MiB, 2GiB or in bytes"
            ));
        }
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("`{text}` is not a size; write it as 64MiB, 2GiB or in bytes"))?;
    number
        .checked_mul(factor)
        .ok_or_else(|| format!("`{text}` is more bytes than 64 bits can count"))
}

/// Writes a number of bytes in the largest unit that leaves at least one of it.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn format(bytes: u64) -> String {
    for (unit, factor) in UNITS {
        if bytes >= factor {
            let value = bytes as f64 / factor as f64;
            let decimals = if bytes.is_multiple_of(factor) || value >= 100.0 {
                0
            } else {
                2
            };
            return format!("{value:.decimals$} {unit}");
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_and_without_unit() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("64MiB"), Ok(64 << 20));
        assert_eq!(parse("2G"), Ok(2 << 30));
        for bad in ["", "MiB", "1.5GiB", "-1", "1TB", "99999999999G"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_written_short() {
        assert_eq!(format(0), "0 B");
        assert_eq!(format(2 << 30), "2 GiB");
        assert_eq!(format((2 << 30) + (256 << 20)), "2.25 GiB");
        assert_eq!(format((130 << 20) + 4096), "130 MiB");
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(text: String) {
            let _ = parse(&text);
        }
    }
}
