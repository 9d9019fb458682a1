//! Compiles the BPF program with clang. It needs no kernel headers and no generated `vmlinux.h`: libbpf's own
//! headers come with the libbpf-sys crate, and field offsets are filled in from the running kernel's BTF.

use std::env;
use std::path::PathBuf;
use std::process::{Command, exit};

const SOURCE: &str = "src/observe/bpf/walk.bpf.c";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-env-changed=CLANG");
    let Some(directory) = env::var_os("OUT_DIR") else {
        fail("cargo did not set OUT_DIR");
    };
    let Some(headers) = env::var_os("DEP_BPF_INCLUDE") else {
        fail("libbpf-sys did not say where libbpf's headers are (DEP_BPF_INCLUDE)");
    };
    let object = PathBuf::from(directory).join("walk.bpf.o");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let status = Command::new(&clang)
        .args([
            "--target=bpf",
            "-mcpu=v3",
            "-O2",
            "-g",
            "-Wall",
            "-Werror",
            "-I",
        ])
        .arg(headers)
        .args(["-c", SOURCE, "-o"])
        .arg(&object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{clang} could not compile {SOURCE}: {status}")),
        Err(error) => fail(&format!(
            "could not run {clang} to compile {SOURCE}: {error}. Install it (Debian: apt-get install clang), \
             or name another with the environment variable CLANG"
        )),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("error: {why}");
    exit(1);
}
