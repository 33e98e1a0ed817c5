//! A chart of where time went: stacked phases, one bar a variant, as SVG.
//!
//! Input: groups of bars, each bar the phases of one sample. Output: an SVG document that needs
//! nothing else, in light and dark. Every group has a time axis of its own, so that a near path can
//! be read beside a far one; vertical lines count its round trips.

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_core::split::Split;
use firstbyte_core::timeline::{PhaseName, Sample};

/// A group of bars on one time axis.
pub struct Group<'a> {
    /// Its heading.
    pub title: String,
    /// Its bars, from the top.
    pub bars: Vec<Bar<'a>>,
}

/// One bar.
pub struct Bar<'a> {
    /// What stands before it.
    pub label: String,
    /// The sample whose phases it shows.
    pub sample: &'a Sample,
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 132.0;
const RIGHT: f64 = 96.0;
const HEADER: f64 = 96.0;
const GROUP_TITLE: f64 = 34.0;
const BAR: f64 = 22.0;
const BAR_GAP: f64 = 7.0;
const AXIS: f64 = 44.0;

/// Colours of Okabe and Ito 2008, told apart by the colour-blind too; the same in light and dark.
const PHASES: [(PhaseName, &str, &str); 7] = [
    (PhaseName::Resolve, "DNS", "#999999"),
    (PhaseName::Connect, "TCP connect", "#56b4e9"),
    (PhaseName::Tls, "TLS handshake", "#e69f00"),
    (PhaseName::Quic, "QUIC handshake", "#d55e00"),
    (PhaseName::Send, "send", "#cc79a7"),
    (PhaseName::Wait, "wait for first byte", "#009e73"),
    (PhaseName::Receive, "receive", "#8da0cb"),
];

/// Draws the chart.
pub fn stacked_phases(title: &str, subtitle: &str, groups: &[Group<'_>]) -> String {
    let height = HEADER + groups.iter().map(group_height).sum::<f64>() + 8.0;
    let mut svg = Svg::new(height, title);
    svg.text(24.0, 34.0, "title", title);
    svg.text(24.0, 56.0, "note", subtitle);
    legend(&mut svg);
    let mut y = HEADER;
    for group in groups {
        draw_group(&mut svg, group, y);
        y += group_height(group);
    }
    svg.finish()
}

fn group_height(group: &Group<'_>) -> f64 {
    GROUP_TITLE + group.bars.len() as f64 * (BAR + BAR_GAP) + AXIS
}

fn legend(svg: &mut Svg) {
    let mut x = 24.0;
    for (_, label, color) in &PHASES {
        svg.rect(x, 72.0, 12.0, 12.0, color, None);
        svg.text(x + 18.0, 82.5, "legend", label);
        x += 18.0 + label.len() as f64 * 6.1 + 22.0;
    }
}

fn draw_group(svg: &mut Svg, group: &Group<'_>, top: f64) {
    let splits: Vec<Split> =
        group.bars.iter().map(|bar| Split::of(&bar.sample.connection)).collect();
    let longest = splits.iter().map(Split::total).max().unwrap_or(Duration::from_millis(1));
    let scale = (WIDTH - LEFT - RIGHT) / longest.as_secs_f64().max(1e-9);
    let x = |at: f64| LEFT + at * scale;

    svg.text(24.0, top + 18.0, "group", &group.title);
    let bars = top + GROUP_TITLE;
    let bottom = bars + group.bars.len() as f64 * (BAR + BAR_GAP);
    for at in ticks(longest.as_secs_f64()) {
        svg.line(x(at), bars - 4.0, x(at), bottom, "grid");
        svg.text_middle(x(at), bottom + 16.0, "axis", &format!("{:.0}", at * 1e3));
    }
    svg.text_end(LEFT - 12.0, bottom + 16.0, "axis", "ms");
    for ((bar, split), row) in group.bars.iter().zip(&splits).zip(0..) {
        let y = bars + f64::from(row) * (BAR + BAR_GAP);
        svg.text_end(LEFT - 12.0, y + BAR / 2.0 + 4.5, "label", &bar.label);
        let mut at = 0.0;
        for phase in &split.phases {
            let seconds = phase.phase.duration().as_secs_f64();
            draw_phase(svg, phase, x(at), y, seconds * scale);
            at += seconds;
        }
        let total = format!("{:.0} ms", split.total().as_secs_f64() * 1e3);
        svg.text(x(at) + 8.0, y + BAR / 2.0 + 4.5, "label", &total);
    }
}

fn draw_phase(
    svg: &mut Svg,
    split: &firstbyte_core::split::PhaseSplit,
    x: f64,
    y: f64,
    width: f64,
) {
    let Some((_, label, color)) = PHASES.iter().find(|(name, ..)| *name == split.phase.name) else {
        return;
    };
    let ms = split.phase.duration().as_secs_f64() * 1e3;
    let trips = match split.round_trips {
        0 => String::new(),
        1 => ", 1 round trip".into(),
        n => format!(", {n} round trips"),
    };
    svg.rect(x, y, width, BAR, color, Some(&format!("{label}: {ms:.1} ms{trips}")));
    let text = format!("{ms:.0}");
    if width > text.len() as f64 * 7.5 + 8.0 {
        svg.text_middle(x + width / 2.0, y + BAR / 2.0 + 4.5, "value", &text);
    }
}

/// Round numbers from zero to `longest`, five or so.
fn ticks(longest: f64) -> Vec<f64> {
    let rough = longest / 5.0;
    let magnitude = 10f64.powf(rough.max(1e-9).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * magnitude)
        .find(|step| *step >= rough)
        .unwrap_or(magnitude * 10.0);
    (0..).map(|i| f64::from(i) * step).take_while(|at| *at <= longest).collect()
}

/// An SVG document in the making.
struct Svg(String);

impl Svg {
    fn new(height: f64, title: &str) -> Self {
        let mut svg = String::new();
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>{}</title>\n{STYLE}\
             <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
            escape(title)
        );
        Self(svg)
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.anchored(x, y, class, "start", text);
    }

    fn text_middle(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.anchored(x, y, class, "middle", text);
    }

    fn text_end(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.anchored(x, y, class, "end", text);
    }

    fn anchored(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.0,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, color: &str, hover: Option<&str>) {
        let hover = hover.map(|text| format!("<title>{}</title>", escape(text)));
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height}\" \
             fill=\"{color}\">{}</rect>",
            hover.unwrap_or_default()
        );
    }

    fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, class: &str) {
        let _ = writeln!(
            self.0,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    fn finish(mut self) -> String {
        self.0 += "</svg>\n";
        self.0
    }
}

const STYLE: &str = "<style>\n\
    text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1b1f24; }\n\
    .page { fill: #ffffff; }\n\
    .title { font-size: 20px; font-weight: 600; }\n\
    .group { font-size: 14px; font-weight: 600; }\n\
    .note, .legend, .axis { font-size: 12px; fill: #57606a; }\n\
    .label { font-size: 12.5px; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }\n\
    .value { font-size: 12px; fill: #10151b; }\n\
    .grid { stroke: #d0d7de; stroke-width: 1; }\n\
    @media (prefers-color-scheme: dark) {\n\
    text { fill: #e6edf3; }\n\
    .page { fill: #0d1117; }\n\
    .label { stroke: #0d1117; }\n\
    .note, .legend, .axis { fill: #9da7b3; }\n\
    .value { fill: #10151b; }\n\
    .grid { stroke: #30363d; }\n\
    }\n</style>\n";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
