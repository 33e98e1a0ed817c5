//! SVG output: elements, escaping, and the width of texts.
//!
//! Nothing here depends on the content drawn. Widths are those of DejaVu Sans, which is wider than system fonts, so
//! text that fits in it fits in those, too.

use std::fmt::Write as _;

/// SVG elements being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Canvas(pub String);

/// The point of a text to which its position refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    /// Adds a text; classes determine size and colour.
    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, text) = (number(x), number(y), escape(text));
        let _ =
            writeln!(self.0, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{text}</text>");
    }

    /// Adds a rectangle; `hover` is shown under the pointer.
    pub(crate) fn rect(
        &mut self,
        [x, y, width, height]: [f64; 4],
        class: &str,
        hover: Option<&str>,
    ) {
        let [x, y, width, height] = [x, y, width, height].map(number);
        let _ = write!(
            self.0,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\""
        );
        match hover {
            Some(text) => {
                let _ = writeln!(self.0, "><title>{}</title></rect>", escape(text));
            }
            None => self.0 += "/>\n",
        }
    }

    /// Adds a straight line.
    pub(crate) fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], class: &str) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(number);
        let _ = writeln!(
            self.0,
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"
        );
    }

    /// Adds a path with the commands `d`, unless they are empty.
    pub(crate) fn path(&mut self, class: &str, d: &str) {
        if !d.is_empty() {
            let _ = writeln!(self.0, "<path class=\"{class}\" d=\"{d}\"/>");
        }
    }
}

/// `value` to a tenth of a unit, with as few characters as possible.
pub(crate) fn number(value: f64) -> String {
    let tenths = (value * 10.0).round() as i64;
    if tenths % 10 == 0 {
        return (tenths / 10).to_string();
    }
    let sign = if tenths < 0 { "-" } else { "" };
    format!("{sign}{}.{}", tenths.abs() / 10, tenths.abs() % 10)
}

/// `text` escaped for XML and HTML, for content and quoted attributes. Markup is escaped, and characters that XML
/// does not allow, or that reorder text, are replaced.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c if super::style::is_direction_control(c) => {
                let _ = write!(out, "{}", c.escape_default());
            }
            c => out.push(c),
        }
    }
    out
}

/// Advance widths of DejaVu Sans, from space to tilde, in thousandths of an em.
const WIDTHS: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];

/// Its bold letters are at most this much wider.
pub(crate) const BOLD: f64 = 1.13;

/// Width of `text` at `size`.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let thousandths: f64 = text
        .chars()
        .map(|c| {
            let index = (c as usize).checked_sub(32);
            let known = index.and_then(|i| WIDTHS.get(i)).copied().map(f64::from);
            known.unwrap_or(if c == '·' { 318.0 } else { 1000.0 })
        })
        .sum();
    thousandths * size / 1000.0
}

/// `text`, or as much of its beginning as fits into `room` with an ellipsis.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        out.push(c);
        if width(&out, size) + size > room {
            out.pop();
            break;
        }
    }
    out.trim_end().to_owned() + "…"
}

/// `text` on at most `lines` lines of width `room`, broken at blanks, with an ellipsis if it is too long.
pub(crate) fn wrap(text: &str, size: f64, room: f64, lines: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let full = out.len() == lines;
        match out.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            Some(last) if full => {
                last.push(' ');
                last.push_str(word);
            }
            _ => out.push(word.to_owned()),
        }
    }
    out.iter().map(|line| fit(line, size, room)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let printed = [1.0, 0.04, -0.26, 12.34, -3.0, 0.96].map(number);
        assert_eq!(printed, ["1", "0", "-0.3", "12.3", "-3", "1"]);
    }

    #[test]
    fn nothing_gets_out_of_its_element() {
        let hostile = "</text><script>alert('x')\u{0}\u{202e}&\"\n";
        assert_eq!(
            escape(hostile),
            "&lt;/text&gt;&lt;script&gt;alert(&#39;x&#39;)\u{fffd}\\u{202e}&amp;&quot; "
        );
    }

    #[test]
    fn long_names_are_broken_and_cut() {
        let name = "HTTP/3 0-RTT, Vancouver, IPv6";
        assert_eq!(wrap(name, 12.0, 400.0, 2), [name]);
        assert_eq!(wrap(name, 12.0, 140.0, 2), ["HTTP/3 0-RTT,", "Vancouver, IPv6"]);
        let cut = wrap(&"W".repeat(200), 12.0, 140.0, 2);
        assert_eq!(cut.len(), 1);
        assert!(cut[0].ends_with('…') && width(&cut[0], 12.0) <= 140.0);
    }

    #[test]
    fn widths_are_those_of_the_font_that_is_shipped() {
        let text = "HTTP/3 0-RTT, Vancouver, IPv6";
        let face = ttf_parser::Face::parse(dejavu::sans::regular(), 0).unwrap();
        let advance = |c| face.glyph_hor_advance(face.glyph_index(c).unwrap()).unwrap();
        let units: f64 = text.chars().map(|c| f64::from(advance(c))).sum();
        let drawn = units * 10.0 / f64::from(face.units_per_em());
        let computed = width(text, 10.0);
        assert!((drawn - computed).abs() < 0.5, "{drawn} and {computed}");
    }
}
