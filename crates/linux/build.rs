//! Compiles the BPF programs with clang. It needs no kernel headers and no generated `vmlinux.h`: libbpf's own
//! headers come with the libbpf-sys crate, and field offsets are filled in from the running kernel's BTF.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

const SOURCES: [&str; 4] = [
    "src/calls/calls.bpf.c",
    "src/observe/bpf/walk.bpf.c",
    "src/process/tasks/tasks.bpf.c",
    "src/touches/used/used.bpf.c",
];

/// What all of them include.
const TYPES: &str = "src/bpf/types.bpf.h";

fn main() {
    println!("cargo:rerun-if-env-changed=CLANG");
    let Some(directory) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        fail("cargo did not set OUT_DIR");
    };
    let Some(headers) = env::var_os("DEP_BPF_INCLUDE").map(PathBuf::from) else {
        fail("libbpf-sys did not say where libbpf's headers are (DEP_BPF_INCLUDE)");
    };
    println!("cargo:rerun-if-changed={TYPES}");
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
        compile(source, &headers, &directory);
    }
}

/// Compiles `source` to a file of the same name in `directory`.
fn compile(source: &str, headers: &Path, directory: &Path) {
    let name = Path::new(source).with_extension("o");
    let object = directory.join(name.file_name().unwrap_or_default());
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    // The compiled program holds no path of this machine: the same sources give the same bytes everywhere.
    let header_map = format!("-ffile-prefix-map={}=libbpf", headers.display());
    let status = Command::new(&clang)
        .args([
            "--target=bpf",
            "-mcpu=v3",
            "-O2",
            "-g",
            "-Wall",
            "-Werror",
            "-fdebug-compilation-dir=.",
            &header_map,
            "-I",
        ])
        .arg(headers)
        .args(["-c", source, "-o"])
        .arg(&object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{clang} could not compile {source}: {status}")),
        Err(error) => fail(&format!(
            "could not run {clang} to compile {source}: {error}. Install it (Debian: apt-get install clang), \
             or name another with the environment variable CLANG"
        )),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("error: {why}");
    exit(1);
}
