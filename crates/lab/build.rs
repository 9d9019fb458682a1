//! Passes on the commit of the build, for `--version` and the results that name it.

#[path = "../mega/commit.rs"]
mod commit;

fn main() {
    commit::pass_on();
}
