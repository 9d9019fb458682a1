//! Results read back from their files.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::JSON;
use crate::error::Error;
use crate::live::results::{Results, VERSION};

/// All that a file of any version has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Reads `results.json` of every folder in `folder`, in the order in which the experiments began.
///
/// # Errors
/// When there is none, or one cannot be read, is no such file, or is of another version.
pub(in crate::live) fn read(folder: &Path) -> Result<Vec<Results>, Error> {
    let mut all = files(folder)
        .map_err(|e| Error::io(format!("reading {}", folder.display()), e))?
        .iter()
        .map(|file| read_file(file))
        .collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() {
        return Err(Error::Missing(format!(
            "no folder in {} has a {JSON}; `mega lab live` writes them",
            folder.display()
        )));
    }
    let when = |results: &Results| (results.machine.began.clone(), results.experiment.clone());
    all.sort_by_key(when);
    Ok(all)
}

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.path().join(JSON);
        if file.is_file() {
            files.push(file);
        }
    }
    Ok(files)
}

fn read_file(file: &Path) -> Result<Results, Error> {
    let attempted = format!("reading {}", file.display());
    let text = fs::read_to_string(file).map_err(|e| Error::io(&*attempted, e))?;
    let failed = |why: serde_json::Error| {
        Error::Failed(format!(
            "{attempted}: it is not as `mega lab live` writes it, {why}; run the experiment again"
        ))
    };
    let Versioned { version } = serde_json::from_str(&text).map_err(failed)?;
    if version != VERSION {
        return Err(Error::Failed(format!(
            "{attempted}: it has version {version}, and this mega reads version {VERSION}; run the experiment again, or use the mega that wrote it"
        )));
    }
    serde_json::from_str(&text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    fn folder_with(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("gups")).unwrap();
        fs::write(folder.path().join("gups").join(JSON), text).unwrap();
        folder
    }

    fn error_of(text: &str) -> String {
        let error = read(folder_with(text).path()).unwrap_err();
        error.to_string()
    }

    #[test]
    fn another_version_is_refused_in_one_line() {
        let mut results = example::one_round();
        results.version = VERSION + 1;
        let error = error_of(&serde_json::to_string(&results).unwrap());
        assert!(error.contains("it has version 2"), "{error}");
        assert_eq!(error.lines().count(), 1);
        assert!(error_of(r#"{"version": 7}"#).contains("it has version 7"));
    }

    #[test]
    fn what_is_no_result_is_refused() {
        for text in ["", "[]", "{}", r#"{"version": 1}"#] {
            assert!(error_of(text).contains("is not as"), "{text}");
        }
    }

    #[test]
    fn a_folder_without_results_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(folder.path()).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(read(&folder.path().join("none")).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = read(folder_with(&text).path());
        }
    }
}
