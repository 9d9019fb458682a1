//! A C program that is a VMM: it links the static library and uses the header.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::Path;
use std::process::Command;

#[test]
fn a_c_program_exchanges_and_serves() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The library lies beside the folder of this test.
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let library = [deps, deps.parent().unwrap()]
        .into_iter()
        .map(|folder| folder.join("libmega_exchange.so"))
        .find(|path| path.exists());
    let library = library.expect("cargo builds libmega_exchange.so for this test");
    let program = deps.join("mega-exchange-c-test");
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(manifest.join("tests/vmm.c"))
        .arg("-I")
        .arg(manifest.join("include"))
        .arg("-I")
        .arg(manifest.join("../../kernel/module"))
        .arg(&library)
        .arg(format!(
            "-Wl,-rpath,{}",
            library.parent().unwrap().display()
        ))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let output = Command::new(&program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "the C interface cannot be tested: {said}"
        );
        eprintln!("the C interface is skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{:?}: {said}", output.status);
}
