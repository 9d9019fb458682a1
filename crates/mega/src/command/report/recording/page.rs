//! The page of a recording.

use mega_core::bytes;

use super::gather::{PointReport, RecordedReport};
use super::heat;
use crate::command::report::chart::{Chart, Series, Span};
use crate::command::report::page::{document, escaped, float, table, whole};
use crate::share::{percent, share};
use crate::utc;

/// The page.
pub(in crate::command::report) fn draw(report: &RecordedReport) -> String {
    let title = format!("Recording of {}", report.header.subject);
    let body = [
        heading(report),
        at_a_glance(report),
        over_time(report),
        heat_maps(report),
        free_lists(report),
        processes(report),
    ];
    document(&title, &body.concat())
}

fn heading(report: &RecordedReport) -> String {
    let header = &report.header;
    let others: String = report
        .others
        .iter()
        .map(|other| format!("<li>{}</li>\n", escaped(other)))
        .collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!(
            "<p>Others that use Accessed bits or change page sizes:</p>\n<ul>\n{others}</ul>\n"
        ),
    };
    format!(
        "<p class=\"note\">{}, recorded by mega {} on Linux {} with the tracker {}, from {} on, {}. Times are since then.</p>\n{others}",
        escaped(&report.file.display().to_string()),
        escaped(&header.recorder),
        escaped(&header.kernel),
        escaped(&header.tracker),
        utc::in_words(header.began),
        header.rhythm_in_words()
    )
}

/// The mean of a value over the time for which each point holds.
fn mean(points: &[PointReport], value: impl Fn(&PointReport) -> u64) -> u64 {
    let weight = |point: &PointReport| (point.to - point.from).max(1e-9);
    let all: f64 = points.iter().map(weight).sum();
    let sum: f64 = points
        .iter()
        .map(|point| float(value(point)) * weight(point))
        .sum();
    if all > 0.0 { whole(sum / all) } else { 0 }
}

fn covered(report: &RecordedReport) -> String {
    let huge = mean(&report.points, |point| point.huge);
    let mapped = mean(&report.points, |point| point.mapped);
    let covered = format!(
        "{} of {} in huge pages on average ({})",
        bytes::format(huge),
        bytes::format(mapped),
        percent(share(huge, mapped))
    );
    match report.host_page {
        Some(host) => format!("{covered}; page sizes are the guest's, {}", host.in_words()),
        None => covered,
    }
}

fn at_a_glance(report: &RecordedReport) -> String {
    let accessed = report.points.iter().all(|point| point.accessed.is_some());
    let accessed = match accessed {
        true => {
            let accessed = mean(&report.points, |point| point.accessed.unwrap_or(0));
            format!(
                "{} from one look to the next, on average",
                bytes::format(accessed)
            )
        }
        false => "not known of all processes".to_owned(),
    };
    let cost = format!(
        "{:.2} s of CPU time for looking ({:.3} % of one core)",
        report.cpu_seconds,
        report.cpu_seconds / report.seconds.max(1e-9) * 100.0
    );
    let looks = format!(
        "{} over {:.1} s; {} more were due and missed",
        report.looks, report.seconds, report.missed
    );
    let did = match (&report.header.policy, report.actions.in_words()) {
        (None, _) => {
            "nobody managed while it was recorded, or who recorded did not hear of it".to_owned()
        }
        (Some(policy), None) => format!("policy {policy}: nothing was to be done"),
        (Some(policy), Some(done)) => format!("policy {policy}: {done}"),
    };
    let compaction = match (&report.header.policy, report.compaction.in_words()) {
        (_, Some(emptied)) => emptied,
        (Some(_), None) => "nothing was emptied for it".to_owned(),
        (None, None) => "not recorded: nobody managed".to_owned(),
    };
    let lines = [
        ("Managed", did),
        ("Compaction", compaction),
        ("Looks", looks),
        ("Usable", report.usable.clone()),
        ("Coverage", covered(report)),
        ("Accessed", accessed),
        ("Cost", cost),
    ];
    let line =
        |(name, text): (&str, String)| format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(&text));
    let lines: String = lines.into_iter().map(line).collect();
    format!("<h2>At a glance</h2>\n<dl>\n{lines}</dl>\n")
}

fn over_time(report: &RecordedReport) -> String {
    let coverage = figure(
        report,
        "c",
        "Memory over time",
        &covered(report),
        &[
            ("mapped", &|point| Some(point.mapped)),
            ("huge", &|point| Some(point.huge)),
            ("giant", &|point| Some(point.giant)),
        ],
    );
    let accessed = figure(
        report,
        "a",
        "Accessed memory over time",
        "What was accessed from one look to the next, of what is mapped. A huge page that was accessed counts whole.",
        &[
            ("mapped", &|point| Some(point.mapped)),
            ("cost", &|point| point.accessed),
        ],
    );
    let last = report.points.last();
    let free = last.map_or_else(String::new, |last| {
        format!(
            "{} free at the end, {} of it in blocks of 2 MiB",
            bytes::format(last.free),
            bytes::format(last.contiguity)
        )
    });
    let free = figure(
        report,
        "f",
        "Free memory over time",
        &free,
        &[
            ("mapped", &|point| Some(point.free)),
            ("huge", &|point| Some(point.contiguity)),
        ],
    );
    format!(
        "<h2>Coverage over time</h2>\n<p class=\"note\">Memory in regions that huge pages can map.\
         <span class=\"key mapped\"></span>mapped<span class=\"key huge\"></span>of that in huge pages\
         <span class=\"key giant\"></span>of that in giant pages</p>\n{coverage}\
         <h2>Accessed over time</h2>\n<p class=\"note\"><span class=\"key mapped\"></span>mapped\
         <span class=\"key cost\"></span>of that accessed</p>\n{accessed}\
         <h2>Free memory over time</h2>\n<p class=\"note\"><span class=\"key mapped\"></span>free\
         <span class=\"key huge\"></span>of that in blocks of at least 2 MiB</p>\n{free}"
    )
}

/// A value of a point, if it is known there, and the class that it is drawn in.
type Value<'a> = (&'a str, &'a dyn Fn(&PointReport) -> Option<u64>);

fn figure(
    report: &RecordedReport,
    id: &str,
    title: &str,
    caption: &str,
    values: &[Value<'_>],
) -> String {
    let areas: Vec<Series<'_>> = values
        .iter()
        .map(|value| series(&report.points, value))
        .collect();
    let values = areas.iter().flat_map(|area| &area.values);
    let most = values.map(|(_, _, value)| *value).fold(1.0, f64::max);
    let chart = Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        description: caption.to_owned(),
        span: Span::recorded(milliseconds(report.seconds)),
        height: 170.0,
        most,
        unit: &|value| bytes::format(whole(value)),
        areas,
        marks: Vec::new(),
    };
    format!(
        "<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n",
        chart.draw(),
        escaped(caption)
    )
}

/// One value over time, where it is known.
fn series<'v>(points: &[PointReport], (class, value): &Value<'v>) -> Series<'v> {
    let known = points.iter().filter_map(|point| {
        let value = float(value(point)?);
        Some((milliseconds(point.from), milliseconds(point.to), value))
    });
    Series {
        class,
        values: known.collect(),
    }
}

fn milliseconds(seconds: f64) -> u64 {
    whole(seconds * 1000.0)
}

fn heat_maps(report: &RecordedReport) -> String {
    if report.heat.is_empty() {
        return String::new();
    }
    let marks = heat::MARKS
        .iter()
        .filter(|_| report.header.policy.is_some());
    let legend: String = heat::LEGEND
        .iter()
        .chain(marks)
        .map(|(class, text)| format!("<span class=\"key {class}\"></span>{text}"))
        .collect();
    let maps = report.heat.iter().enumerate().map(|(number, map)| {
        let mut processes = report.processes.iter();
        let name = processes.find(|process| process.pid == map.pid);
        let name = name.map_or("", |process| process.name.as_str());
        let title = format!("Memory of {name} ({}) by address and time", map.pid);
        format!(
            "<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n",
            heat::draw(map, number, &title, report.seconds),
            escaped(&title)
        )
    });
    let maps: String = maps.collect();
    format!("<h2>What was used when</h2>\n<p class=\"note\">{legend}</p>\n{maps}")
}

fn free_lists(report: &RecordedReport) -> String {
    let lists = &report.free_lists;
    let orders = lists.first.len().max(lists.last.len());
    let areas = |list: &[u64], order: usize| list.get(order).copied().unwrap_or(0);
    let rows = (0..orders).map(|order| {
        let size = 4096_u64.checked_shl(u32::try_from(order).unwrap_or(u32::MAX));
        let size = size.unwrap_or(0);
        let (first, last) = (areas(&lists.first, order), areas(&lists.last, order));
        vec![
            bytes::format(size),
            first.to_string(),
            bytes::format(first.saturating_mul(size)),
            last.to_string(),
            bytes::format(last.saturating_mul(size)),
        ]
    });
    let head = [
        ("size", false),
        ("at the first look", true),
        ("bytes", true),
        ("at the last look", true),
        ("bytes", true),
    ];
    let table = table(
        "Free areas of the kernel's allocator, of all nodes",
        &head,
        rows,
    );
    format!("<h2>Free lists</h2>\n{table}")
}

fn processes(report: &RecordedReport) -> String {
    let rows = report.processes.iter().map(|process| {
        let touches = process.touches_per_second;
        vec![
            process.name.clone(),
            process.pid.to_string(),
            format!("{:.0} to {:.0} s", process.first, process.last),
            bytes::format(process.peak),
            bytes::format(process.mapped),
            process
                .accessed
                .map_or_else(|| "-".to_owned(), bytes::format),
            percent(share(process.huge, process.mapped)),
            process.mapping_changes.to_string(),
            touches.map_or_else(|| "-".to_owned(), |rate| format!("{:.1} M/s", rate / 1e6)),
        ]
    });
    let head = [
        ("program", false),
        ("pid", true),
        ("seen", true),
        ("peak", true),
        ("mapped", true),
        ("accessed", true),
        ("coverage", true),
        ("mapping changes", true),
        ("touches", true),
    ];
    let table = table(
        "Means over the looks; touches for each second of CPU time, as they were measured last",
        &head,
        rows,
    );
    format!("<h2>Processes</h2>\n{table}")
}

#[cfg(test)]
mod tests {
    use crate::command::report::page::tests::is_balanced;
    use crate::command::report::recording::{draw, read};
    use crate::recorded::{self, HUGE_FROM, LOOKS};
    use crate::report::HostPage;
    use mega_core::HUGE_PAGE_SIZE;

    #[test]
    fn a_recording_is_told_in_words_numbers_and_pictures() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.rec");
        recorded::write(&path);
        let report = read(&path).expect("a report");
        assert_eq!((report.looks, report.missed), (LOOKS, 0));
        assert_eq!(report.points.len() as u64, LOOKS, "each look has its place");
        let mapped: Vec<u64> = report.points.iter().map(|point| point.mapped).collect();
        let grows: Vec<u64> = (1..=LOOKS)
            .map(|regions| regions * HUGE_PAGE_SIZE)
            .collect();
        assert_eq!(mapped, grows);
        for (number, point) in report.points.iter().enumerate() {
            let is_huge = number as u64 >= HUGE_FROM;
            assert_eq!(point.huge, if is_huge { point.mapped } else { 0 });
            assert_eq!(point.accessed, Some(point.mapped / 4));
        }
        assert_eq!(report.free_lists.last, vec![LOOKS - 1; 11]);
        let page = draw(&report);
        assert!(is_balanced(&page), "{page}");
        for wanted in [
            "Recording of a &lt;program&gt;",
            "all of it is usable: 100 looks over 99.0 s",
            "growing",
            "heat-huge",
            "heat-2",
            "4 KiB",
            "nobody managed",
            "2 blocks: 1 busy, 1 emptied; 2 MiB moved in 0.6 ms",
            "mark-promoted",
        ] {
            assert!(page.contains(wanted), "{wanted}: {page}");
        }
        assert_eq!(page.matches("role=\"img\"").count(), 4);
        for what in ["<script", "<link", "<img", "src=", "@import", "url("] {
            assert!(!page.contains(what), "{what}");
        }
    }

    #[test]
    fn a_recording_of_a_guest_says_whose_page_sizes_it_has() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.rec");
        recorded::write(&path);
        let mut report = read(&path).expect("a report");
        assert!(report.host_page.is_none() && !draw(&report).contains("page sizes are"));
        report.header.is_guest = Some(true);
        report.host_page = HostPage::of_recording(&report.header);
        assert!(draw(&report).contains("page sizes are the guest's, host unknown"));
    }

    #[test]
    fn what_is_left_of_a_recording_that_was_cut_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.rec");
        recorded::write(&path);
        let whole = std::fs::read(&path).expect("read");
        std::fs::write(&path, &whole[..whole.len() / 2]).expect("written");
        let page = draw(&read(&path).expect("a report"));
        assert!(page.contains("it was cut off"), "{page}");
        std::fs::write(&path, b"something else").expect("written");
        let refused = read(&path).expect_err("refused").to_string();
        assert!(
            refused.contains("not a recording") || refused.contains("no recording"),
            "{refused}"
        );
    }
}
