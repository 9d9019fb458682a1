//! A small writer of SVG: rectangles and text, sizes in pixels.

use std::fmt::Write;

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

/// A picture in the making.
pub(crate) struct Picture {
    width: u32,
    height: u32,
    body: String,
}

impl Picture {
    /// An empty picture on white.
    pub(crate) fn new(width: u32, height: u32) -> Self {
        let mut picture = Picture {
            width,
            height,
            body: String::new(),
        };
        picture.rectangle(0.0, 0.0, f64::from(width), f64::from(height), "#ffffff");
        picture
    }

    pub(crate) fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"/>"#
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

    /// The picture as a file of its own.
    pub(crate) fn finish(self) -> String {
        let Picture {
            width,
            height,
            body,
        } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif\">\n{body}</svg>\n"
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out_of_its_element() {
        let mut picture = Picture::new(10, 10);
        let style = Style {
            size: 12,
            bold: false,
            colour: "#000000",
            anchor: Anchor::Start,
        };
        picture.text(1.0, 2.0, style, "a < b & c > d");
        assert!(picture.finish().contains("a &lt; b &amp; c &gt; d</text>"));
    }
}
