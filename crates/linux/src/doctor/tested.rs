//! Says of a kernel module that its tests were not seen to pass on such a kernel.

/// What to say where the tests were seen to pass on the series `tested`, and `release` is of none of these.
pub(super) fn untested(release: &str, tested: &[&str]) -> Option<String> {
    let series = series(release)?;
    (!tested.contains(&series.as_str())).then(|| {
        format!(
            "untested on Linux {series}: its tests were seen to pass on {}",
            tested.join(", ")
        )
    })
}

/// The first two numbers of a release: `6.12` of `6.12.117+deb12-cloud-amd64`.
fn series(release: &str) -> Option<String> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let version = numbers.next().filter(|number| !number.is_empty())?;
    let patchlevel = numbers.next().filter(|number| !number.is_empty())?;
    Some(format!("{version}.{patchlevel}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_two_numbers() {
        assert_eq!(
            series("6.12.117+deb12-cloud-amd64").as_deref(),
            Some("6.12")
        );
        assert_eq!(series("7.3-rc1").as_deref(), Some("7.3"));
        assert_eq!(series("6.1").as_deref(), Some("6.1"));
        for strange in ["", "6", "6.", "x.1", "."] {
            assert_eq!(series(strange), None, "{strange}");
        }
    }

    #[test]
    fn a_series_that_is_not_named_is_untested() {
        for release in ["6.12.117+deb12-cloud-amd64", "7.3.4"] {
            assert_eq!(untested(release, &["6.12", "7.3"]), None, "{release}");
        }
        for release in ["6.1.192", "6.18.1", "7.30.1"] {
            assert!(untested(release, &["6.12", "7.3"]).is_some(), "{release}");
        }
    }
}
