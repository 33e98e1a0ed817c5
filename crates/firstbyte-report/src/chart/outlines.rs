//! Replaces a drawing's texts by the outlines of their letters, so that the PNG renderer needs no fonts.
//!
//! Input: SVG as `svg::Canvas` writes it, with `dress`' classes. Output: the same with a path for each text, with
//! the same class and the class [`LETTERS`]. The font is DejaVu, with its kerning and Latin ligatures; Arabic
//! letters are not joined.

use std::fmt::Write as _;

use resvg::usvg::roxmltree::{self, Document, Node};
use ttf_parser::{Face, GlyphId, OutlineBuilder};
use unicode_bidi::{BidiInfo, Level};

use super::dress::{self, LETTERS};

/// `svg` with its texts replaced by paths.
pub(super) fn outlined(svg: &str) -> Result<String, roxmltree::Error> {
    let document = Document::parse(svg)?;
    let fonts = Fonts::default();
    let mut out = String::with_capacity(svg.len() * 2);
    let mut copied = 0;
    for text in document.descendants().filter(|node| node.has_tag_name("text")) {
        let place = text.range();
        out += &svg[copied..place.start];
        copied = place.end;
        let d = fonts.outline(&text);
        if !d.is_empty() {
            let class = text.attribute("class").unwrap_or("");
            let _ = write!(out, "<path class=\"{class} {LETTERS}\" d=\"{d}\"/>");
        }
    }
    out += &svg[copied..];
    Ok(out)
}

/// The regular and the bold face.
struct Fonts([Option<Face<'static>>; 2]);

impl Default for Fonts {
    fn default() -> Self {
        let face = |data| Face::parse(data, 0).ok();
        Self([face(dejavu::sans::regular()), face(dejavu::sans::bold())])
    }
}

impl Fonts {
    /// The path commands that draw `text`.
    fn outline(&self, text: &Node<'_, '_>) -> String {
        let attribute = |name| text.ancestors().find_map(|node| node.attribute(name));
        let number = |name| attribute(name).and_then(|value| value.parse::<f32>().ok());
        let (size, bold) = dress::type_of_class(attribute("class").unwrap_or(""));
        let line = self.set(&as_seen(text.text().unwrap_or("")), size, bold);
        let width = line.last().map_or(0.0, |last| last.x + last.advance);
        let begin = match attribute("text-anchor") {
            Some("middle") => -width / 2.0,
            Some("end") => -width,
            _ => 0.0,
        };
        let mut pen = Pen { y: number("y").unwrap_or(0.0), ..Pen::default() };
        for letter in &line {
            pen.x = number("x").unwrap_or(0.0) + begin + letter.x;
            pen.scale = letter.scale;
            let _ = letter.face.outline_glyph(letter.glyph, &mut pen);
        }
        pen.d
    }

    /// The letters of a line, one after the other.
    fn set(&self, text: &str, size: f32, bold: bool) -> Vec<Letter<'_>> {
        let mut line: Vec<Letter<'_>> = Vec::new();
        let mut x = 0.0;
        for c in text.chars() {
            let Some((face, glyph)) = self.glyph(c, bold) else { continue };
            let scale = size / f32::from(face.units_per_em());
            if let Some(last) = line.last().filter(|last| std::ptr::eq(last.face, face)) {
                x += f32::from(kerning(face, last.glyph, glyph)) * scale;
            }
            let advance = f32::from(face.glyph_hor_advance(glyph).unwrap_or(0)) * scale;
            line.push(Letter { face, glyph, scale, x, advance });
            x += advance;
        }
        line
    }

    /// The glyph of `c`, from the other face if this one lacks it, or else the replacement glyph.
    fn glyph(&self, c: char, bold: bool) -> Option<(&Face<'static>, GlyphId)> {
        let [regular, heavy] = &self.0;
        let faces = if bold { [heavy, regular] } else { [regular, heavy] };
        let mut faces = faces.into_iter().flatten();
        let first = faces.clone().next()?;
        let known = faces.find_map(|face| Some((face, face.glyph_index(c)?)));
        Some(known.unwrap_or((first, GlyphId(0))))
    }
}

/// A positioned glyph.
struct Letter<'a> {
    face: &'a Face<'static>,
    glyph: GlyphId,
    /// Scale factor from units of the face to units of the drawing.
    scale: f32,
    /// Its offset from the beginning of the line.
    x: f32,
    advance: f32,
}

/// Kerning between `left` and `right`, in units of the face.
fn kerning(face: &Face<'_>, left: GlyphId, right: GlyphId) -> i16 {
    let tables = face.tables().kern.into_iter().flat_map(|kern| kern.subtables);
    tables.filter(|t| t.horizontal).find_map(|t| t.glyphs_kerning(left, right)).unwrap_or(0)
}

/// Ligatures of the font, the longest first.
const LIGATURES: [(&str, &str); 5] = [
    ("ffi", "\u{fb03}"),
    ("ffl", "\u{fb04}"),
    ("ff", "\u{fb00}"),
    ("fi", "\u{fb01}"),
    ("fl", "\u{fb02}"),
];

/// `text` in visual order, from left to right.
fn as_seen(text: &str) -> String {
    let bidi = BidiInfo::new(text, Some(Level::ltr()));
    let mut seen = String::with_capacity(text.len());
    for paragraph in &bidi.paragraphs {
        let (levels, runs) = bidi.visual_runs(paragraph, paragraph.range.clone());
        for run in runs {
            if levels[run.start].is_rtl() {
                seen.extend(text[run].chars().rev().map(mirrored));
            } else {
                seen += &text[run];
            }
        }
    }
    LIGATURES.into_iter().fold(seen, |seen, (letters, one)| seen.replace(letters, one))
}

/// The mirrored form of `c`, for right-to-left text.
fn mirrored(c: char) -> char {
    let pairs = ["()", "[]", "{}", "<>", "«»", "‹›", "≤≥"];
    let other = |pair: &str| {
        let (left, right) = (pair.chars().next()?, pair.chars().next_back()?);
        (c == left).then_some(right).or((c == right).then_some(left))
    };
    pairs.into_iter().find_map(other).unwrap_or(c)
}

/// Writes outlines as path commands.
#[derive(Default)]
struct Pen {
    d: String,
    x: f32,
    y: f32,
    scale: f32,
}

impl Pen {
    fn write(&mut self, command: char, points: &[[f32; 2]]) {
        self.d.push(command);
        for (i, [x, y]) in points.iter().enumerate() {
            let (x, y) = (self.x + x * self.scale, self.y - y * self.scale);
            let blank = if i == 0 { "" } else { " " };
            let _ = write!(self.d, "{blank}{x:.3} {y:.3}");
        }
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.write('M', &[[x, y]]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.write('L', &[[x, y]]);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.write('Q', &[[x1, y1], [x, y]]);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.write('C', &[[x1, y1], [x2, y2], [x, y]]);
    }

    fn close(&mut self) {
        self.d.push('Z');
    }
}

#[cfg(test)]
mod tests {
    use resvg::usvg::{Options, Tree};

    use super::*;

    /// The horizontal extent of the drawn `text`, in a drawing 200 wide.
    fn extent(text: &str) -> [f32; 2] {
        let svg =
            format!("<svg xmlns='http://www.w3.org/2000/svg' width='200' height='30'>{text}</svg>");
        let tree = Tree::from_str(&outlined(&svg).unwrap(), &Options::default()).unwrap();
        let drawn = tree.root().abs_bounding_box();
        [drawn.left(), drawn.right()]
    }

    fn width(class: &str, text: &str) -> f32 {
        let [left, right] = extent(&format!("<text class='{class}' x='5' y='20'>{text}</text>"));
        right - left
    }

    #[test]
    fn a_text_is_a_path_of_its_class_where_it_stood() {
        let svg = "<svg><rect/><text class=\"n\" x=\"1\" y=\"2\">a &amp; b</text>\n<text class=\"n\"> </text></svg>";
        let out = outlined(svg).unwrap();
        assert!(out.starts_with("<svg><rect/><path class=\"n letters\" d=\"M"), "{out}");
        assert!(out.ends_with("Z\"/>\n</svg>"), "{out}");
        assert_eq!(out.matches("<path").count(), 1);
    }

    #[test]
    fn anchors_are_its_own_or_its_group_s() {
        let [left, right] =
            extent("<text class='n' x='100' y='20' text-anchor='middle'>HoH</text>");
        assert!((left + right - 200.0).abs() < 0.1, "{left} to {right}");
        let [_, right] =
            extent("<g class='n' text-anchor='end'><text x='100' y='20'>HoH</text></g>");
        assert!((98.0..100.0).contains(&right), "{right}");
    }

    #[test]
    fn sizes_and_weights_are_the_class_s() {
        let [small, large] = [width("n", "HoH"), width("h1", "HoH")];
        assert!(
            (large / small) > 18.0 / 11.5,
            "{small} and {large}: bold, and so wider than its size says"
        );
        assert_eq!(dress::type_of_class("s3"), (12.0, false));
    }

    #[test]
    fn letters_are_kerned_and_joined_as_the_font_says() {
        let apart = width("h1", "A") + width("h1", "V");
        assert!(width("h1", "AV") < apart - 0.5);
        assert_eq!(width("h1", "office"), width("h1", "o\u{fb03}ce"));
    }

    #[test]
    fn what_is_read_from_the_right_is_drawn_from_there() {
        // Alef and bet: bet comes second, so it appears on the left.
        assert_eq!(as_seen("a \u{5d0}\u{5d1} (1)"), "a (1) \u{5d1}\u{5d0}");
        assert_eq!(as_seen("\u{5d0}\u{5d1}"), "\u{5d1}\u{5d0}");
    }

    #[test]
    fn what_the_font_lacks_is_a_box() {
        assert!(width("n", "\u{6f22}") > 3.0);
        assert!(width("h1", "\u{6f22}") > 3.0);
    }
}
