//! What killed megas left changed.

use std::path::Path;

use crate::Error;
use crate::kernel::Kernel;
use crate::run_dir::RunDir;
use crate::settings::stale;
use crate::settings::{ledger, thp_mode};

/// What killed megas left changed. The next mega that starts puts it back.
#[derive(Debug, Default)]
pub(super) struct LeftBehind {
    /// The THP mode.
    pub(super) mode: Option<thp_mode::Stale>,
    /// All other settings.
    pub(super) settings: Vec<ledger::Stale>,
}

/// Looks into the records. Without a run directory there are none.
pub(super) fn find(kernel: &dyn Kernel, run_dir: Option<&RunDir>) -> Result<LeftBehind, Error> {
    let Some(run_dir) = run_dir else {
        return Ok(LeftBehind::default());
    };
    let (mode, settings): (Vec<_>, Vec<_>) = stale::find(kernel, run_dir)?
        .into_iter()
        .partition(|stale| stale.path == Path::new(thp_mode::PATH));
    Ok(LeftBehind {
        mode: mode.first().map(thp_mode::Stale::try_from).transpose()?,
        settings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeKernel;
    use crate::settings::thp_mode::ThpMode;

    #[test]
    fn the_mode_and_every_other_setting_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::at(folder.path()).unwrap();
        let kernel = FakeKernel::new();
        let find = || find(&kernel, Some(&run_dir));
        let write = |name: &str, text: &str| {
            run_dir.write_atomically(name, text.as_bytes()).unwrap();
        };
        let left = find().unwrap();
        assert!(left.mode.is_none() && left.settings.is_empty());

        let owners = r#"[{"process":{"pid":4000000,"start_time":1},"serial":0,"wants":"WANTS"}]"#;
        let madvise = owners.replace("WANTS", "madvise");
        write(
            "thp_mode.json",
            &format!(r#"{{"original":"always","owners":{madvise}}}"#),
        );
        let scan = owners.replace("WANTS", "262144");
        write(
            "setting-a.json",
            &format!(r#"{{"path":"/sys/a","original":"4096","owners":{scan}}}"#),
        );
        write(
            "changed_settings.json",
            r#"[{"path":"/sys/b","original":"N","set":"Y"}]"#,
        );
        let left = find().unwrap();
        let mode = left.mode.unwrap();
        assert_eq!(
            (mode.set, mode.original),
            (ThpMode::Madvise, ThpMode::Always)
        );
        let settings: Vec<_> = left
            .settings
            .iter()
            .map(|stale| (stale.path.to_str().unwrap(), &*stale.set, &*stale.original))
            .collect();
        assert_eq!(
            settings,
            [("/sys/a", "262144", "4096"), ("/sys/b", "Y", "N")]
        );

        write("setting-a.json", "{");
        assert!(find().is_err());
    }
}
