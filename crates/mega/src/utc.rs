//! A moment as people read it, in UTC.

/// Days, hours and so on of a moment.
struct Moment {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

/// `seconds` are those since 1970. The calendar is counted in eras of 400 years that begin on the first of March (Howard
/// Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn moment(seconds: u64) -> Moment {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    Moment {
        year: year_of_era + era * 400 + u64::from(month <= 2),
        month,
        day: day_of_year - (153 * from_march + 2) / 5 + 1,
        second_of_day: seconds % 86_400,
    }
}

/// As "2026-11-24 14:05:09 UTC".
pub(crate) fn in_words(seconds: u64) -> String {
    let moment = moment(seconds);
    format!(
        "{:04}-{:02}-{:02} {} UTC",
        moment.year,
        moment.month,
        moment.day,
        time_of_day(seconds)
    )
}

/// As "14:05:09".
pub(crate) fn time_of_day(seconds: u64) -> String {
    let second = moment(seconds).second_of_day;
    format!(
        "{:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// As "20261124T140509Z", for the name of a file.
pub(crate) fn for_file_name(seconds: u64) -> String {
    let moment = moment(seconds);
    format!(
        "{:04}{:02}{:02}T{}Z",
        moment.year,
        moment.month,
        moment.day,
        time_of_day(seconds).replace(':', "")
    )
}

/// As "2026-11-24T14:05:09Z" (RFC 3339).
pub(crate) fn in_rfc_3339(seconds: u64) -> String {
    let moment = moment(seconds);
    format!(
        "{:04}-{:02}-{:02}T{}Z",
        moment.year,
        moment.month,
        moment.day,
        time_of_day(seconds)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_that_date_prints() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (1_795_529_109, "2026-11-24 14:05:09 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(in_words(seconds), expected);
        }
        assert_eq!(for_file_name(1_795_529_109), "20261124T140509Z");
        assert_eq!(in_rfc_3339(1_795_529_109), "2026-11-24T14:05:09Z");
    }

    proptest::proptest! {
        #[test]
        fn any_moment_is_survived(seconds in 0..u64::MAX / 2) {
            let _ = (in_words(seconds), for_file_name(seconds));
        }
    }
}
