//! `mega demo`, small: what it shows must be so.

// A test's helpers fail it as the test itself does: by panicking.
#![allow(clippy::expect_used, clippy::panic)]

mod live;

use live::{can_run, json, mega, number, run, text};
use mega_linux::kernel::LiveKernel;
use mega_linux::settings::thp_mode;
use serde_json::Value;

const SIZE: u64 = 128 << 20;

#[test]
#[ignore = "takes long: make test-long"]
fn it_shows_three_modes_side_by_side_and_leaves_all_as_it_was() {
    if !can_run("it_shows_three_modes_side_by_side_and_leaves_all_as_it_was") {
        return;
    }
    let mode = || thp_mode::read(&LiveKernel).expect("the mode");
    let before = mode();
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("demo.svg");
    let size = f64::from(u32::try_from(SIZE).expect("a small size"));
    let show = || {
        let shown = json(
            mega()
                .args(["demo", "--json", "--size=128MiB", "--seconds=10", "--svg"])
                .arg(&picture),
        );
        assert_eq!(mode(), before);
        shown
    };
    // It waits for huge pages for some seconds only, which a busy machine may need for other things.
    let all_huge = |shown: &Value| float(&shown["modes"][2], "huge_bytes") > 0.9 * size;
    let mut shown = show();
    for _ in 0..4 {
        if all_huge(&shown) {
            break;
        }
        shown = show();
    }
    let drawn = std::fs::read_to_string(&picture).expect("a picture");
    assert!(drawn.starts_with("<svg") && drawn.contains("THP always"));

    assert_eq!(number(&shown, "size_bytes"), SIZE);
    let modes = shown["modes"].as_array().expect("modes");
    let [base, always, managed] = modes.as_slice() else {
        panic!("{shown}");
    };
    for (mode, name) in [(base, "base"), (always, "thp_always"), (managed, "mega")] {
        assert_eq!(mode["mode"], name);
        assert!(float(mode, "updates_per_second") > 0.0, "{mode}");
        assert!(float(mode, "first_touch_p99_9_ns") > 0.0, "{mode}");
    }
    assert!(float(base, "huge_bytes") < 0.01 * size, "{base}");
    // Both areas, of which one page in eight of the second is used.
    assert!(float(always, "resident_bytes") > 1.9 * size, "{always}");
    assert!(all_huge(&shown), "{managed}");
    let more = float(managed, "resident_bytes") / float(base, "resident_bytes");
    assert!(more < 1.05, "{managed} against {base}");
    assert!(float(managed, "manager_cpu_share") > 0.0, "{managed}");
}

#[test]
fn a_picture_that_cannot_be_written_is_found_out_first() {
    if !can_run("a_picture_that_cannot_be_written_is_found_out_first") {
        return;
    }
    let output = run(mega().args(["demo", "--svg=/nonexistent/demo.svg"]));
    assert_eq!(output.status.code(), Some(1));
    // Not a word of any run.
    let said = text(&output.stderr);
    assert!(
        said.starts_with("mega: writing /nonexistent/demo.svg"),
        "{said}"
    );
}

fn float(of: &Value, field: &str) -> f64 {
    of[field].as_f64().expect(field)
}
