//! A small writer of SVG: rectangles, lines and text, sizes in pixels.

use std::fmt::Write;

use crate::markup::escape;

/// Where a text stands relative to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) size: u32,
    pub(crate) bold: bool,
    pub(crate) colour: &'static str,
    pub(crate) anchor: Anchor,
}

/// The colour of what is to be read first, and of what stands beside it.
pub(crate) const INK: &str = "#1f2328";
pub(crate) const FAINT: &str = "#656d76";

/// A text that starts at its position.
pub(crate) fn style(size: u32, bold: bool, colour: &'static str) -> Style {
    Style {
        size,
        bold,
        colour,
        anchor: Anchor::Start,
    }
}

/// A picture in the making.
pub(crate) struct Picture {
    width: f64,
    body: String,
}

impl Picture {
    /// An empty picture; how high it is, its end says.
    pub(crate) fn new(width: f64) -> Self {
        Picture {
            width,
            body: String::new(),
        }
    }

    pub(crate) fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"/>"#
        );
    }

    /// A line one pixel and a half wide.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.body,
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}" stroke-width="1.5"/>"#
        );
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, style: Style, text: &str) {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::End => "end",
        };
        let weight = if style.bold { "600" } else { "400" };
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{}" font-weight="{weight}" fill="{}" text-anchor="{anchor}">{}</text>"#,
            style.size,
            style.colour,
            escape(text),
        );
    }

    /// The picture, on white, as a file of its own.
    pub(crate) fn finish(self, height: f64) -> String {
        let Picture { width, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out_of_its_element() {
        let mut picture = Picture::new(10.0);
        let style = Style {
            size: 12,
            bold: false,
            colour: "#000000",
            anchor: Anchor::Start,
        };
        picture.text(1.0, 2.0, style, "a < b & c > d");
        assert!(
            picture
                .finish(10.0)
                .contains("a &lt; b &amp; c &gt; d</text>")
        );
    }
}
