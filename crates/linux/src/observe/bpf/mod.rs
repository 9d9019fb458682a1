//! The BPF program that walks page tables (`walk.bpf.c`), and what is needed to load and run it.

mod abi;
mod program;

pub(crate) use abi::{Identity, MAX_RANGES, Request, Run, Status};
pub(crate) use program::{Program, RunError, Thread};
