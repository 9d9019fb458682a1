//! The page: HTML that needs nothing but itself.

use mega_core::ActionKind;
use mega_core::HUGE_PAGE_SIZE;
use mega_core::bytes;

use super::chart::{Chart, Series, Span};
use super::reasons::{help, rest_in_words};
use super::summary::Summary;
use crate::history::{DayReport, Done, SelectionSlot, Slot};
use crate::processes::{cpu_time, cpu_time_within};
use crate::report::{Mode, causes_in_words, sizes_in_words};
use crate::share::{percent, share};
use crate::utc;

const STYLE: &str = include_str!("style.css");

/// The page of these days.
pub(super) fn draw(days: &[DayReport]) -> String {
    let host = days.first().map_or("", |day| day.host.as_str());
    let made = days.iter().map(|day| day.made).max().unwrap_or(0);
    let title = format!("mega on {host}, {}", utc::in_words(made));
    let body: String = days
        .iter()
        .enumerate()
        .map(|(number, day)| Part { day, number }.draw())
        .collect();
    document(&title, &body)
}

/// A page with this title, in plain text, and this body, in HTML.
pub(super) fn document(title: &str, body: &str) -> String {
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}</main>
</body>
</html>
"#,
        title = escaped(title),
    )
}

/// Text as HTML: a program names itself as it likes.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Words as HTML: what is between backticks is code.
fn prose(text: &str) -> String {
    let mut parts = text.split('`').enumerate();
    let marked = parts.by_ref().map(|(place, part)| match place % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    });
    marked.collect()
}

/// CPU time that huge pages saved; a dash where nothing says so.
fn saved_in_words(done: &Done) -> String {
    let saved = done.saved_cpu_seconds();
    match saved.high > 0.0 {
        true => cpu_time(saved.value),
        false => "-".to_owned(),
    }
}

/// One daemon's day.
struct Part<'a> {
    day: &'a DayReport,
    number: usize,
}

impl Part<'_> {
    fn draw(&self) -> String {
        let Some((first, last)) = self.day.slots.first().zip(self.day.slots.last()) else {
            return self.heading() + "<p>It has not looked at anything yet.</p>\n";
        };
        let summary = Summary::of(&self.day.slots);
        let end = self.end_of(last).min(self.day.made.max(last.start + 1));
        let span = Span::of(first.start, end);
        [
            self.heading(),
            self.at_a_glance(&summary),
            self.coverage(&summary, span),
            uncovered(&summary),
            self.refused(),
            self.spent(&summary, span),
            events(&summary),
            self.by_hour(),
        ]
        .concat()
    }

    fn end_of(&self, slot: &Slot) -> u64 {
        slot.start + self.day.slot_seconds
    }

    fn heading(&self) -> String {
        let config = match &self.day.mode {
            Mode::Daemon { config } => config.display().to_string(),
            Mode::Run { .. } | Mode::Observe => String::new(),
        };
        let dry_run = match self.day.dry_run {
            true => " It only looks (dry run) and changes nothing.",
            false => "",
        };
        let kept = match self.day.kept_in {
            Some(_) => "",
            None => " It keeps its history in memory only, so the day begins with it.",
        };
        format!(
            "<h2>mega daemon {}</h2>\n<p class=\"note\">Version {}, pid {}, running since {}; {} of memory. Times are UTC; each value is a mean over {} minutes.{dry_run}{kept}</p>\n",
            escaped(&config),
            escaped(&self.day.mega),
            self.day.pid,
            utc::in_words(self.day.started),
            bytes::format(self.day.memory),
            self.day.slot_seconds / 60
        )
    }

    fn at_a_glance(&self, summary: &Summary) -> String {
        let (mapped, huge) = (summary.sum(|one| one.mapped), summary.sum(|one| one.huge));
        let giant = summary.sum(|one| one.giant);
        let done = summary.done();
        let mut covered = format!(
            "{} of {} in huge pages on average ({})",
            bytes::format(huge),
            bytes::format(mapped),
            percent(share(huge, mapped))
        );
        if giant > 0 {
            covered += &format!(", {} of it in giant ones", bytes::format(giant));
        }
        if let Some(sizes) = sizes_in_words(self.day.host_page, self.day.runs_guest) {
            covered += &format!("; {sizes}");
        }
        let mut gained = format!(
            "{} promoted to huge pages, {} given back",
            bytes::format(done.done[ActionKind::Promote].saturating_mul(HUGE_PAGE_SIZE)),
            bytes::format(done.bytes_given_back)
        );
        if done.done[ActionKind::PromoteGiant] > 0 {
            gained += &format!(", {} giant pages made", done.done[ActionKind::PromoteGiant]);
        }
        if self.day.dry_run {
            gained += &format!(
                "; {} would have been promoted",
                bytes::format(done.left_out[ActionKind::Promote].saturating_mul(HUGE_PAGE_SIZE))
            );
        }
        let saved = done.saved_cpu_seconds();
        if saved.high > 0.0 {
            gained += &format!(
                "; {} of CPU time saved, where what huge pages gain was measured",
                cpu_time_within(saved)
            );
        }
        let spent = format!(
            "{:.1} s of CPU time ({:.3} % of one core), {} copied, {} of memory at most, {} added to programs",
            summary.cpu_seconds,
            summary.cpu_seconds / summary.seconds.max(1.0) * 100.0,
            bytes::format(done.bytes_copied),
            bytes::format(summary.resident),
            bytes::format(done.bloat_bytes_added)
        );
        let mut lines = vec![
            ("Seen", format!("{:.1} hours", summary.seconds / 3600.0)),
            ("Coverage", covered),
            ("Gained", gained),
            ("Spent", spent),
        ];
        if !done.failures.is_empty() {
            lines.push(("Failed actions", causes_in_words(&done.failures)));
        }
        if summary.blocks_emptied > 0 {
            let emptied = format!("{} blocks of 2 MiB", summary.blocks_emptied);
            lines.push(("Emptied ahead of promotions", emptied));
        }
        let line =
            |(name, text): (&str, String)| format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(&text));
        let lines: String = lines.into_iter().map(line).collect();
        format!("<h3>At a glance</h3>\n<dl>\n{lines}</dl>\n")
    }

    fn coverage(&self, summary: &Summary, span: Span) -> String {
        let mut text = "<h3>Coverage over time</h3>\n<p class=\"note\">Memory in regions that huge pages can map.\
            <span class=\"key mapped\"></span>mapped<span class=\"key huge\"></span>of that in huge pages\
            <span class=\"key giant\"></span>of that in giant pages\
            <span class=\"key short\"></span>some process had less than is promised</p>\n"
            .to_owned();
        for (number, selection) in summary.selections.iter().enumerate() {
            let kept = promise(selection);
            let caption = format!(
                "{} (policy {}): {} of {} in huge pages on average ({}){kept}",
                selection.name,
                selection.policy,
                bytes::format(selection.huge),
                bytes::format(selection.mapped),
                percent(share(selection.huge, selection.mapped))
            );
            text += &format!(
                "<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n",
                self.memory_over_time(selection, number, span, &caption),
                escaped(&caption)
            );
        }
        text
    }

    /// A value of each slot of a selection.
    fn series<'c>(
        &self,
        name: &str,
        class: &'c str,
        value: impl Fn(&SelectionSlot) -> u64,
    ) -> Series<'c> {
        let values = self.day.slots.iter().filter_map(|slot| {
            let selection = slot.selections.iter().find(|one| one.name == name)?;
            Some((slot.start, self.end_of(slot), float(value(selection))))
        });
        Series {
            class,
            values: values.collect(),
        }
    }

    fn memory_over_time(
        &self,
        selection: &SelectionSlot,
        number: usize,
        span: Span,
        caption: &str,
    ) -> String {
        let name = &selection.name;
        let mapped = self.series(name, "mapped", |one| one.mapped);
        let values = mapped.values.iter().map(|&(_, _, value)| value);
        let most = values.fold(float(HUGE_PAGE_SIZE), f64::max);
        let short = self.day.slots.iter().filter(|slot| {
            let mut selections = slot.selections.iter();
            selections.any(|one| one.name == *name && one.short > 0)
        });
        Chart {
            id: format!("m{}-{number}", self.number),
            title: format!("Memory of {name} over time"),
            description: caption.to_owned(),
            span,
            height: 170.0,
            most,
            unit: &|value| bytes::format(whole(value)),
            marks: short.map(|slot| (slot.start, self.end_of(slot))).collect(),
            areas: vec![
                mapped,
                self.series(name, "huge", |one| one.huge),
                self.series(name, "giant", |one| one.giant),
            ],
        }
        .draw()
    }

    fn refused(&self) -> String {
        if self.day.refused.is_empty() {
            return String::new();
        }
        let rows = self.day.refused.iter().map(|refused| {
            vec![
                refused.name.clone(),
                refused.selection.clone(),
                refused.why.clone(),
            ]
        });
        let head = [("program", false), ("selection", false), ("why", false)];
        table("Processes that cannot be observed now", &head, rows)
    }

    fn spent(&self, summary: &Summary, span: Span) -> String {
        let cpu = Series {
            class: "cost",
            values: self
                .day
                .slots
                .iter()
                .map(|slot| {
                    // The first seconds, with the start, are not typical.
                    let part = slot.cpu_seconds / slot.seconds.max(60.0);
                    (slot.start, self.end_of(slot), part)
                })
                .collect(),
        };
        let values = cpu.values.iter().map(|&(_, _, value)| value);
        let most = values.fold(0.001, f64::max);
        let caption = format!(
            "CPU time of the daemon, of one core: {:.3} % on average, {:.2} % in the most costly minutes",
            summary.cpu_seconds / summary.seconds.max(1.0) * 100.0,
            most * 100.0
        );
        let chart = Chart {
            id: format!("c{}", self.number),
            title: "CPU time of the daemon over time".to_owned(),
            description: caption.clone(),
            span,
            height: 120.0,
            most,
            unit: &|value| format!("{:.2} %", value * 100.0),
            areas: vec![cpu],
            marks: Vec::new(),
        };
        let rows = summary.selections.iter().map(|selection| {
            let done = &selection.done;
            vec![
                selection.name.clone(),
                done.done[ActionKind::Promote].to_string(),
                done.done[ActionKind::Demote].to_string(),
                bytes::format(done.bytes_copied),
                bytes::format(done.bytes_given_back),
                bytes::format(done.bloat_bytes_added),
                saved_in_words(done),
                causes_in_words(&done.failures),
            ]
        });
        let head = [
            ("selection", false),
            ("promoted", true),
            ("demoted", true),
            ("copied", true),
            ("given back", true),
            ("added", true),
            ("CPU time saved", true),
            ("failed", false),
        ];
        format!(
            "<h3>What it spent and did</h3>\n<figure>\n{}<figcaption>{caption}</figcaption>\n</figure>\n{}",
            chart.draw(),
            table("Regions of 2 MiB and bytes, by selection", &head, rows)
        )
    }

    /// The pictures as numbers.
    fn by_hour(&self) -> String {
        let mut hours: Vec<(u64, Vec<&Slot>)> = Vec::new();
        for slot in &self.day.slots {
            let hour = slot.start - slot.start % 3600;
            match hours.last_mut() {
                Some((last, slots)) if *last == hour => slots.push(slot),
                _ => hours.push((hour, vec![slot])),
            }
        }
        let rows = hours.iter().flat_map(|(hour, slots)| {
            let summary = Summary::of(slots.iter().copied());
            let row = |selection: &SelectionSlot| {
                vec![
                    utc::in_words(*hour).replace(":00 UTC", ""),
                    selection.name.clone(),
                    selection.processes.to_string(),
                    bytes::format(selection.mapped),
                    bytes::format(selection.huge),
                    percent(share(selection.huge, selection.mapped)),
                    percent(selection.lowest),
                    minutes(selection.short_seconds),
                ]
            };
            summary.selections.iter().map(row).collect::<Vec<_>>()
        });
        let head = [
            ("hour from", false),
            ("selection", false),
            ("processes", true),
            ("mapped", true),
            ("in huge pages", true),
            ("coverage", true),
            ("lowest", true),
            ("short of promise", true),
        ];
        let table = table(
            "Means over each hour; the most processes, the lowest coverage",
            &head,
            rows,
        );
        format!("<h3>By the hour</h3>\n{table}")
    }
}

/// How well a promise was kept, where there is one.
fn promise(selection: &SelectionSlot) -> String {
    let Some(promised) = selection.promised else {
        return String::new();
    };
    let kept = 1.0 - selection.short_seconds / selection.seconds.max(1.0);
    format!(
        "; {} promised for each process, kept {} of the time, {} short at most",
        percent(Some(promised)),
        percent(Some(kept.clamp(0.0, 1.0))),
        match selection.short {
            1 => "1 process".to_owned(),
            short => format!("{short} processes"),
        }
    )
}

/// Who was not covered, and why.
fn uncovered(summary: &Summary) -> String {
    let mut text = "<h3>Who was not covered, and why</h3>\n".to_owned();
    let mut programs: Vec<_> = summary
        .selections
        .iter()
        .flat_map(|selection| selection.uncovered.iter().map(move |one| (selection, one)))
        .filter(|(_, program)| program.base() > 0)
        .collect();
    programs.sort_by_key(|(_, program)| std::cmp::Reverse(program.base()));
    if programs.is_empty() {
        text += "<p>All memory that huge pages can map was in huge pages.</p>\n";
    } else {
        let rows = programs.into_iter().map(|(selection, program)| {
            vec![
                program.name.clone(),
                selection.name.clone(),
                bytes::format(program.base()),
                percent(share(program.huge, program.mapped)),
                bytes::format(program.wanted),
                rest_in_words(&program.rest),
            ]
        });
        let head = [
            ("program", false),
            ("selection", false),
            ("on base pages", true),
            ("coverage", true),
            ("wanted", true),
            ("why", false),
        ];
        text += &table(
            "Means over the day; wanted: what the policy wanted huge pages for and had none yet",
            &head,
            rows,
        );
    }
    for selection in &summary.selections {
        let help = help(selection);
        if !help.is_empty() {
            let items: String = help
                .iter()
                .map(|line| format!("<li>{}</li>\n", prose(line)))
                .collect();
            let name = escaped(&selection.name);
            text += &format!("<p>{name}:</p>\n<ul>\n{items}</ul>\n");
        }
    }
    text
}

fn events(summary: &Summary) -> String {
    if summary.events.is_empty() {
        return String::new();
    }
    let rows = summary
        .events
        .iter()
        .map(|(name, count)| vec![name.replace('_', " "), count.to_string()]);
    let head = [("event", false), ("times", true)];
    let table = table("`mega events` shows the latest ones", &head, rows);
    format!("<h3>What changed</h3>\n{table}")
}

/// A table: the first cell of a row names it. Columns with numbers are aligned to the right.
pub(super) fn table(
    caption: &str,
    head: &[(&str, bool)],
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let class = |number: bool| if number { " class=\"n\"" } else { "" };
    let heads: String = head
        .iter()
        .map(|&(name, number)| format!("<th scope=\"col\"{}>{name}</th>", class(number)))
        .collect();
    let row = |cells: Vec<String>| {
        let cells: String = cells
            .iter()
            .zip(head)
            .enumerate()
            .map(|(place, (cell, &(_, number)))| match place {
                0 => format!("<th scope=\"row\">{}</th>", escaped(cell)),
                _ => format!("<td{}>{}</td>", class(number), escaped(cell)),
            })
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = rows.map(row).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table>\n<caption>{}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n",
        prose(caption)
    )
}

fn minutes(seconds: f64) -> String {
    match seconds {
        0.0 => "-".to_owned(),
        seconds => format!("{:.1} min", seconds / 60.0),
    }
}

#[allow(clippy::cast_precision_loss, reason = "a size in a picture")]
pub(super) fn float(size: u64) -> f64 {
    size as f64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a size in a picture"
)]
pub(super) fn whole(size: f64) -> u64 {
    size as u64
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::summary::tests::slot;
    use super::*;
    use crate::history::RefusedNow;
    use crate::report::HostPage;

    fn day(slots: Vec<Slot>) -> DayReport {
        DayReport {
            pid: 812,
            mode: Mode::Daemon {
                config: "/etc/mega/mega.toml".into(),
            },
            host: "a&b".to_owned(),
            mega: "0.1.0".to_owned(),
            dry_run: false,
            started: 1_795_500_000,
            made: 1_795_587_000,
            memory: 16 << 30,
            host_page: None,
            runs_guest: false,
            kept_in: None,
            slot_seconds: 300,
            slots,
            refused: vec![RefusedNow {
                selection: "web <1>".to_owned(),
                name: "secret".to_owned(),
                why: "not permitted".to_owned(),
            }],
        }
    }

    /// Whether each element is closed in its turn. Good for a page that is written so that it is XML as well, but for its
    /// first line and `<meta>`.
    pub(in crate::command::report) fn is_balanced(page: &str) -> bool {
        let mut open: Vec<&str> = Vec::new();
        let body = page.replace("<!DOCTYPE html>", "");
        for tag in body.split('<').skip(1) {
            let Some((tag, _)) = tag.split_once('>') else {
                return false;
            };
            let name = tag.split([' ', '\n']).next().unwrap_or("");
            if let Some(closed) = name.strip_prefix('/') {
                if open.pop() != Some(closed) {
                    return false;
                }
            } else if name != "meta" && !tag.ends_with('/') {
                open.push(name);
            }
        }
        open.is_empty()
    }

    #[test]
    fn a_day_is_told_in_words_numbers_and_pictures() {
        let first = 1_795_500_000;
        let slots = (0..288)
            .filter(|number| !(100..120).contains(number))
            .map(|number| slot(first + number * 300, 4 << 30, 3 << 30));
        let page = draw(&[day(slots.collect())]);
        assert!(is_balanced(&page), "{page}");
        for wanted in [
            "3 GiB of 4 GiB in huge pages on average (75.0 %)",
            "22.3 hours",
            "90.0 % promised for each process, kept 90.0 % of the time, 1 process short at most",
            "web &lt;1&gt;",
            "a&amp;b",
            "with nothing in the way",
            "536 actions found no free block: <code>mega frag</code> shows",
            "not permitted",
            "coverage broken",
        ] {
            assert!(page.contains(wanted), "{wanted}: {page}");
        }
        assert!(!page.contains("web <1>"), "{page}");
        // A day touches 24 or 25 hours by the clock, and the gap takes one.
        let rows = page.matches("<th scope=\"row\">20").count();
        assert!((23..=24).contains(&rows), "{rows}");
        assert_eq!(page.matches("role=\"img\"").count(), 2);
        assert!(page.len() < 200 << 10, "{}", page.len());
    }

    #[test]
    fn whose_page_sizes_these_are_is_said_in_a_guest_and_of_one() {
        let mut day = day(vec![slot(0, 4 << 30, 3 << 30)]);
        assert!(!draw(std::slice::from_ref(&day)).contains("page sizes are"));
        day.host_page = Some(HostPage::Unknown);
        day.runs_guest = true;
        let page = draw(std::slice::from_ref(&day));
        for whose in [
            "page sizes are this guest's, host unknown",
            "guest's memory, guest unknown",
        ] {
            assert!(page.contains(whose), "{whose}: {page}");
        }
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = draw(&[day(vec![slot(0, 1, 0)])]);
        for what in ["<script", "<link", "<img", "src=", "@import", "url("] {
            assert!(!page.contains(what), "{what}");
        }
        assert_eq!(
            page.matches("://").count(),
            page.matches("http://www.w3.org/2000/svg").count()
        );
    }

    #[test]
    fn a_daemon_that_has_just_started_has_a_page_too() {
        let page = draw(&[day(Vec::new())]);
        assert!(is_balanced(&page) && page.contains("not looked at anything yet"));
        let mut one = slot(1_795_586_700, 0, 0);
        one.selections.clear();
        assert!(is_balanced(&draw(&[day(vec![one])])));
        assert!(is_balanced(&draw(&[])));
    }
}
