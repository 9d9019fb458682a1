//! Says of a kernel module that its tests were not seen to pass on such a kernel.
//!
//! Which kernel it is says its release alone (`uname -r`). A distribution puts what it likes under a version (RHEL's 6.12.0 has parts of
//! far newer ones), and whoever builds a kernel chooses its options. The tests run on Debian's, so others are untested, whatever their
//! version.

/// How the release ends of a kernel with the series of `kernel/linux-6.12` (`make kernel-deb`).
const ANON_PUD: &str = "-anon-pud";

/// What to say where the tests were seen to pass on the kernels `tested`, and `release` is none of these. `tested` has Debian's by their
/// series (`6.12`), and `6.12-anon-pud`.
pub(super) fn untested(release: &str, tested: &[&str]) -> Option<String> {
    let kernel = kernel(release);
    let is_tested = kernel.is_some_and(|kernel| tested.contains(&kernel.as_str()));
    (!is_tested).then(|| {
        format!(
            "untested on Linux {release}: its tests were seen to pass on Debian's {}",
            tested.join(", ")
        )
    })
}

/// The series of a kernel as Debian builds it, `6.12` of `6.12.117+deb12-cloud-amd64`, and with the series' name where it is one of ours.
/// `None` of any other. One with real-time preemption (`-rt-amd64`) locks in other ways, and counts as another.
fn kernel(release: &str) -> Option<String> {
    if let Some(version) = release.strip_suffix(ANON_PUD) {
        let (series, rest) = series(version)?;
        return rest.is_empty().then(|| series + ANON_PUD);
    }
    let release = release.strip_suffix("-amd64")?;
    let release = release.strip_suffix("-cloud").unwrap_or(release);
    let (series, rest) = series(release)?;
    is_debians(rest).then_some(series)
}

/// The first two of the three numbers that `version` begins with, and what comes after them.
fn series(version: &str) -> Option<(String, &str)> {
    let (version_number, rest) = number(version)?;
    let (patchlevel, rest) = number(rest.strip_prefix('.')?)?;
    let (_sublevel, rest) = number(rest.strip_prefix('.')?)?;
    Some((format!("{version_number}.{patchlevel}"), rest))
}

/// The digits that `text` begins with, one at least, and what comes after them.
fn number(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    (!digits.is_empty()).then_some((digits, rest))
}

/// Whether `rest` is what Debian has between version and flavour: the number of the interface to modules (`-56`), for years, since then
/// the release that it is for (`+deb13`, earlier `+bpo` for backports).
fn is_debians(rest: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    rest == "+bpo"
        || rest.strip_prefix('-').is_some_and(is_number)
        || rest.strip_prefix("+deb").is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn debians_kernels_are_told_by_their_releases() {
        for (release, expected) in [
            ("6.1.0-56-cloud-amd64", "6.1"),
            ("6.1.0-28-amd64", "6.1"),
            ("6.12.117+deb12-cloud-amd64", "6.12"),
            ("6.12.117+deb13-amd64", "6.12"),
            ("6.12.9+bpo-amd64", "6.12"),
            ("7.3.4+deb13-cloud-amd64", "7.3"),
            ("6.12.117-anon-pud", "6.12-anon-pud"),
        ] {
            assert_eq!(kernel(release).as_deref(), Some(expected), "{release}");
        }
    }

    #[test]
    fn no_other_kernel_is_taken_for_debians() {
        for release in [
            // RHEL 10, its clones' and an update; RHEL 9.
            "6.12.0-55.el10.x86_64",
            "6.12.0-55.9.1.el10_0.x86_64",
            "5.14.0-503.11.1.el9_5.x86_64",
            // Ubuntu.
            "6.8.0-45-generic",
            "6.1.0-1036-oem",
            "6.14.0-1007-aws",
            // Fedora, Arch, openSUSE, Amazon.
            "6.12.4-200.fc41.x86_64",
            "6.12.1-arch1-1",
            "6.12.0-160000.5-default",
            "6.12.22-27.96.amzn2023.x86_64",
            // Built by hand.
            "6.12.5",
            "6.12.0-rc3",
            "6.12.117-mine-amd64",
            "6.12.5+",
            // Real time.
            "6.12.117+deb13-rt-amd64",
            // Others of Debian's.
            "6.12.117+deb13-arm64",
            // Nothing that is a release.
            "",
            "-amd64",
            "6-amd64",
            "6.12-56-amd64",
            "6.12.0+deb-amd64",
            "6.12.117-mine-anon-pud",
        ] {
            assert_eq!(kernel(release), None, "{release}");
        }
    }

    #[test]
    fn what_is_not_named_is_untested() {
        let tested = ["6.12", "7.3"];
        for release in ["6.12.117+deb12-cloud-amd64", "7.3.4+deb13-amd64"] {
            assert_eq!(untested(release, &tested), None, "{release}");
        }
        for release in [
            "6.1.0-56-amd64",
            "7.30.1+deb13-amd64",
            "6.12.117-anon-pud",
            "6.12.0-55.el10.x86_64",
        ] {
            let said = untested(release, &tested).unwrap();
            assert!(said.contains(release), "{said}");
        }
    }

    proptest! {
        #[test]
        fn no_release_makes_it_panic(release in "\\PC*") {
            let _ = kernel(&release);
        }
    }
}
