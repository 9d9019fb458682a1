//! Numbers in few characters.

use super::theme::Theme;

/// A number of bytes in at most six characters: "1.25G".
pub(super) fn short(bytes: u64) -> String {
    const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    #[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = match value {
        _ if value.fract() == 0.0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{}", UNITS[unit])
}

/// A count in at most five characters: "12345", "123K".
pub(super) fn count(number: u64) -> String {
    match number {
        0..100_000 => number.to_string(),
        100_000..100_000_000 => format!("{}K", number / 1000),
        100_000_000..100_000_000_000 => format!("{}M", number / 1_000_000),
        _ => format!("{}G", (number / 1_000_000_000).min(9999)),
    }
}

/// A time in seconds as people say it: "45s", "12m", "3h 20m", "5d 3h".
pub(super) fn duration(seconds: f64) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it saturates"
    )]
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Text cut to a number of characters, with a sign that it was.
pub(super) fn cut(text: &str, width: usize, theme: Theme) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain((width > 0).then(|| theme.ellipsis())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, expected) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1K"),
            (1536, "1.50K"),
            (1 << 30, "1G"),
            ((1 << 30) + (1 << 28), "1.25G"),
            (100 << 30, "100G"),
            (1023 << 20, "1023M"),
        ] {
            assert_eq!(short(bytes), expected);
        }
        assert_eq!(duration(3.5 * 3600.0), "3h 30m");
        assert_eq!(duration(f64::NAN), "0s");
    }

    proptest! {
        #[test]
        fn everything_is_short(number: u64, seconds in -1.0..1e12) {
            prop_assert!(short(number).len() <= 6, "{}", short(number));
            prop_assert!(count(number).len() <= 6);
            prop_assert!(duration(seconds).len() <= 14);
        }

        #[test]
        fn cut_text_fits(text in "\\PC*", width in 0_usize..40, unicode: bool) {
            let theme = Theme { colours: false, unicode };
            prop_assert!(cut(&text, width, theme).chars().count() <= width);
        }
    }
}
