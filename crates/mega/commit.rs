//! Tells a program which version and commit it is built from. The build scripts of the programs share this file.

use std::process::Command;

/// `git archive` writes the commit here, for a tree without git.
const ARCHIVED: &str = "$Format:%H$";
/// Digits of a commit that tell it from others.
const SHORT: usize = 12;

/// Sets `MEGA_VERSION`, for `--version`, and `MEGA_COMMIT` where the commit is known.
pub(crate) fn pass_on() {
    let mut version = env!("CARGO_PKG_VERSION").to_owned();
    if let Some(commit) = commit() {
        println!("cargo::rustc-env=MEGA_COMMIT={commit}");
        version = format!("{version} ({})", commit.get(..SHORT).unwrap_or(&commit));
    }
    println!("cargo::rustc-env=MEGA_VERSION={version}");
}

/// The commit, if it is known. The build script runs again when it changes.
fn commit() -> Option<String> {
    if !ARCHIVED.starts_with('$') {
        println!("cargo::rerun-if-changed=build.rs");
        return Some(ARCHIVED.to_owned());
    }
    // HEAD names the branch, the log changes with every commit.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
