//! One bar: what was measured, and what is wanted.

use mega_core::table::Table;
use mega_lab::Error;
use serde_json::json;

/// What is wanted of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

/// One figure held to its bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) measured: f64,
    pub(crate) wanted: Wanted,
}

impl Bar {
    /// Whether the figure is as wanted.
    pub(crate) fn is_met(&self) -> bool {
        match self.wanted {
            Wanted::AtLeast(least) => self.measured >= least,
            Wanted::AtMost(most) => self.measured <= most,
        }
    }

    fn wanted_text(&self) -> String {
        let (word, value) = match self.wanted {
            Wanted::AtLeast(value) => (">=", value),
            Wanted::AtMost(value) => ("<=", value),
        };
        format!("{word} {} {}", short(value), self.unit)
    }
}

/// A number with three decimals at most.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// All bars as a table.
pub(crate) fn table(bars: &[Bar]) -> String {
    let mut table = Table::new(&["bar", "measured", "wanted", "met"]);
    for bar in bars {
        let met = if bar.is_met() { "yes" } else { "NO" };
        table.row([
            bar.name.to_owned(),
            format!("{} {}", short(bar.measured), bar.unit),
            bar.wanted_text(),
            met.to_owned(),
        ]);
    }
    table.to_string()
}

/// All bars as one JSON object.
pub(crate) fn json(bars: &[Bar]) -> Result<String, Error> {
    let bars: Vec<_> = bars
        .iter()
        .map(|bar| {
            json!({
                "name": bar.name,
                "unit": bar.unit,
                "measured": bar.measured,
                "wanted": bar.wanted_text(),
                "met": bar.is_met(),
            })
        })
        .collect();
    serde_json::to_string_pretty(&json!({ "bars": bars })).map_err(|e| Error::Failed(e.to_string()))
}
