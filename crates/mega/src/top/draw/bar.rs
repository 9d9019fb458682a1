//! Bars, and lines of small bars.

use ratatui::text::Span;

use super::theme::Theme;
use crate::top::history::Series;

/// A bar that is full in part.
pub(super) fn bar<'l>(share: f64, width: usize, theme: Theme) -> Vec<Span<'l>> {
    let full = scaled(share, width);
    let [filled, empty] = theme.bar();
    let repeat = |glyph: char, times: usize| glyph.to_string().repeat(times);
    vec![
        Span::styled(repeat(filled, full), theme.huge()),
        Span::styled(repeat(empty, width - full), theme.dim()),
    ]
}

/// The latest values as a line of small bars; `most` is a full one.
pub(super) fn line(series: &Series, most: f64, width: usize, theme: Theme) -> String {
    let latest = series.iter().skip(series.len().saturating_sub(width));
    latest.map(|value| theme.level(value / most)).collect()
}

/// A part of `width`, as a whole number of characters.
fn scaled(share: f64, width: usize) -> usize {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "0 to the width of a screen; a value that is no number becomes 0"
    )]
    let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    full.min(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_its_width_whatever_the_share() {
        let theme = Theme {
            colours: true,
            unicode: false,
        };
        for (share, expected) in [
            (0.0, "...."),
            (0.5, "##.."),
            (1.0, "####"),
            (9.0, "####"),
            (-1.0, "...."),
            (f64::NAN, "...."),
        ] {
            let text: String = bar(share, 4, theme)
                .into_iter()
                .map(|span| span.content.into_owned())
                .collect();
            assert_eq!(text, expected);
        }
        let series = Series::from([9.0, 0.0, 1.0, 2.0]);
        assert_eq!(line(&series, 2.0, 3, theme), " :#");
    }
}
