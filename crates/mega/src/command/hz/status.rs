//! `mega hz status`: hzmem's memory and mounts.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use mega_core::bytes;
use mega_core::table::Table;
use mega_linux::hzmem::{Hzmem, Mount, Node, Origin, Range, State};
use mega_linux::kernel::LiveKernel;
use serde::Serialize;

use crate::cli::HzStatus;
use crate::exit::Failure;
use crate::output;
use crate::report::VERSION;

/// What `mega hz status --json` prints. `docs/interfaces.md` describes it.
#[derive(Serialize)]
struct Report<'s> {
    version: u32,
    compressors: &'s [String],
    ranges: &'s [Range],
    nodes: Vec<NodeReport<'s>>,
    mounts: Vec<MountReport<'s>>,
}

#[derive(Serialize)]
struct NodeReport<'s> {
    #[serde(flatten)]
    node: &'s Node,
    used: u64,
}

#[derive(Serialize)]
struct MountReport<'s> {
    #[serde(flatten)]
    mount: &'s Mount,
    used: u64,
    physical: u64,
    ratio: Option<f64>,
    expansion: Option<f64>,
    faults: u64,
}

pub(super) fn run(args: &HzStatus) -> Result<ExitCode, Failure> {
    let state = Hzmem::open(Arc::new(LiveKernel))?.state()?;
    if args.json {
        output::print_json(&report(&state))?;
    } else {
        output::print(&in_words(&state))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn report(state: &State) -> Report<'_> {
    Report {
        version: VERSION,
        compressors: &state.compressors,
        ranges: &state.ranges,
        nodes: state
            .nodes
            .iter()
            .map(|node| NodeReport {
                node,
                used: node.used(),
            })
            .collect(),
        mounts: state
            .mounts
            .iter()
            .map(|mount| MountReport {
                mount,
                used: mount.held.used(),
                physical: mount.held.physical(),
                ratio: mount.held.ratio(),
                expansion: mount.held.expansion(),
                faults: mount.counts.faults(),
            })
            .collect(),
    }
}

fn in_words(state: &State) -> String {
    let mut text = ranges(&state.ranges);
    text += &nodes(&state.nodes);
    if state.mounts.is_empty() {
        text += "\nnothing is mounted: mount -t hzmem none FOLDER\n";
    }
    for mount in &state.mounts {
        text += &in_words_of_mount(mount);
    }
    text
}

fn ranges(ranges: &[Range]) -> String {
    if ranges.is_empty() {
        return "no memory: give it some with `mega hz grow SIZE`\n".to_owned();
    }
    let mut table = Table::new(&["memory", "size", "node", "from", "free"]);
    for range in ranges {
        let origin = match range.origin {
            Origin::Boot => "boot",
            Origin::Added => "grow",
        };
        table.row(vec![
            range
                .start
                .map_or("(only root sees)".to_owned(), |start| format!("{start:#x}")),
            bytes::format(range.size),
            range.node.to_string(),
            origin.to_owned(),
            bytes::format(range.free),
        ]);
    }
    format!("{table}\n")
}

fn nodes(nodes: &[Node]) -> String {
    if nodes.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["node", "total", "used", "free", "pinned", "daemon CPU"]);
    for node in nodes {
        table.row(vec![
            node.node.to_string(),
            bytes::format(node.total),
            bytes::format(node.used()),
            bytes::format(node.free),
            bytes::format(node.pinned),
            format!("{:.2} s", node.daemon_cpu.as_secs_f64()),
        ]);
    }
    table.to_string()
}

fn in_words_of_mount(mount: &Mount) -> String {
    let (held, counts, settings) = (&mount.held, &mount.counts, &mount.settings);
    let points: Vec<String> = mount
        .mount_points
        .iter()
        .map(|point| point.display().to_string())
        .collect();
    let place = if points.is_empty() {
        format!(
            "{} (not mounted where this program can see it)",
            mount.device
        )
    } else {
        points.join(", ")
    };
    let size = settings
        .size
        .map_or_else(|| "no limit".to_owned(), bytes::format);
    let node = settings
        .node
        .map_or_else(|| "any node".to_owned(), |node| format!("node {node}"));
    let limit = settings
        .compressed_limit
        .map_or_else(String::new, |limit| format!(" of {}", bytes::format(limit)));
    let ratio = held
        .ratio()
        .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    let expansion = held
        .expansion()
        .map_or_else(String::new, |times| format!(": {times:.2} times as much"));
    let mut text = format!("\n{place}\n");
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "  size {size}, {node}, compress {} from {} % on, every {:.1} s\n  \
           used {}: {} resident, {} compressed to {}{limit} (ratio {ratio}), {} zeros\n  \
           effective memory {}, in {} of physical memory{expansion}",
        settings.compress,
        settings.watermark,
        std::time::Duration::from_millis(settings.period_ms).as_secs_f64(),
        bytes::format(held.used()),
        bytes::format(held.resident),
        bytes::format(held.compressed),
        bytes::format(held.compressed_size),
        bytes::format(held.zero),
        bytes::format(held.used()),
        bytes::format(held.physical()),
    );
    let _ = writeln!(
        text,
        "  faults {}: {} zeroed, {} resident, {} decompressed, {} copied\n  \
           pages compressed {}, of zeros {}, incompressible {}, compressed at a fault {}, decompressed ahead {}",
        counts.faults(),
        counts.faults_zero,
        counts.faults_resident,
        counts.faults_decompress,
        counts.faults_cow,
        counts.compressions,
        counts.compressions_zero,
        counts.compressions_refused,
        counts.direct_reclaims,
        counts.readaheads,
    );
    if counts.sigbus > 0 || held.corrupt > 0 {
        let _ = writeln!(
            text,
            "  faults not served {}, damaged {}: see dmesg",
            counts.sigbus,
            bytes::format(held.corrupt)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use mega_linux::hzmem::{Counts, Held, Settings};

    fn state() -> State {
        State {
            compressors: vec!["lz4".to_owned()],
            ranges: vec![Range {
                start: Some(4 << 30),
                size: 512 << 20,
                node: 0,
                origin: Origin::Boot,
                free: 128 << 20,
            }],
            nodes: vec![Node {
                node: 0,
                total: 512 << 20,
                free: 128 << 20,
                pinned: 0,
                sections: 1,
                daemon_cpu: std::time::Duration::from_millis(1500),
            }],
            mounts: vec![Mount {
                device: "0:45".to_owned(),
                mount_points: vec!["/mnt/huge".into()],
                settings: Settings {
                    size: Some(1 << 30),
                    watermark: 80,
                    period_ms: 10_000,
                    compress: "lz4".to_owned(),
                    node: None,
                    readahead: 0,
                    compressed_limit: Some(256 << 20),
                },
                held: Held {
                    resident: 384 << 20,
                    zero: 64 << 20,
                    compressed: 256 << 20,
                    compressed_size: 64 << 20,
                    ..Held::default()
                },
                counts: Counts {
                    faults_zero: 400,
                    faults_decompress: 100,
                    ..Counts::default()
                },
            }],
        }
    }

    #[test]
    fn a_mount_is_told_with_what_it_saves() {
        let text = in_words(&state());
        for part in [
            "0x100000000  512 MiB     0  boot  128 MiB",
            "1.50 s",
            "/mnt/huge\n",
            "size 1 GiB, any node, compress lz4 from 80 % on, every 10.0 s",
            "256 MiB compressed to 64 MiB of 256 MiB (ratio 0.25), 64 MiB zeros",
            "effective memory 704 MiB, in 448 MiB of physical memory: 1.57 times as much",
            "faults 500: 400 zeroed",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(!text.contains("dmesg"), "nothing is wrong: {text}");
    }

    #[test]
    fn what_is_wrong_is_told() {
        let mut state = state();
        state.mounts[0].counts.sigbus = 3;
        state.mounts[0].mount_points.clear();
        let text = in_words(&state);
        assert!(text.contains("faults not served 3"), "{text}");
        assert!(text.contains("0:45 (not mounted where"), "{text}");
    }

    #[test]
    fn a_module_without_memory_says_how_to_give_it_some() {
        let empty = State {
            compressors: Vec::new(),
            ranges: Vec::new(),
            nodes: Vec::new(),
            mounts: Vec::new(),
        };
        let text = in_words(&empty);
        assert!(text.contains("mega hz grow") && text.contains("mount -t hzmem"));
    }

    #[test]
    fn the_json_has_what_is_derived_beside_what_is_counted() {
        let json = serde_json::to_value(report(&state())).expect("it can be written");
        let mount = &json["mounts"][0];
        assert_eq!(mount["used"], 704 << 20);
        assert_eq!(mount["held"]["compressed_size"], 64 << 20);
        assert_eq!(mount["ratio"], 0.25);
        assert_eq!(json["nodes"][0]["daemon_cpu_seconds"], 1.5);
        assert_eq!(json["ranges"][0]["origin"], "boot");
    }
}
