//! Colours and fonts of the pictures, for light and dark.
//!
//! The colours are those of Okabe and Ito (2008), which colour-blind readers can distinguish, too. Everything
//! encoded in colour is also encoded in shape, position or words.

/// The background of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    /// Always light: for renderers without media queries.
    Light,
    /// Light or dark, as the reader prefers.
    Both,
}

struct Palette {
    page: &'static str,
    ink: &'static str,
    faint: &'static str,
    grid: &'static str,
    band: &'static str,
    warm: &'static str,
    shorter: &'static str,
    longer: &'static str,
    phases: [&'static str; 7],
    /// Colours, in the order of `Part::ALL`.
    parts: [&'static str; 9],
    series: [&'static str; 8],
}

const LIGHT: Palette = Palette {
    page: "#ffffff",
    ink: "#1b1f24",
    faint: "#57606a",
    grid: "#d8dee4",
    band: "#dfe4ea",
    warm: "#f1f3f5",
    shorter: "#0072b2",
    longer: "#c04f00",
    parts: [
        "#999999", "#8cc8ee", "#d55e00", "#e69f00", "#cc79a7", "#009e73", "#d55e00", "#d55e00",
        "#d8dee4",
    ],
    phases: ["#999999", "#56b4e9", "#e69f00", "#d55e00", "#cc79a7", "#009e73", "#8da0cb"],
    series: [
        "#0072b2", "#d55e00", "#009e73", "#b4528a", "#b37a00", "#3a9bd4", "#1b1f24", "#7a6a00",
    ],
};

const DARK: Palette = Palette {
    page: "#0d1117",
    ink: "#e6edf3",
    faint: "#9da7b3",
    grid: "#30363d",
    band: "#30363d",
    warm: "#161b22",
    shorter: "#56b4e9",
    longer: "#ff8f45",
    parts: [
        "#8a8f98", "#3b7ea6", "#d55e00", "#e69f00", "#cc79a7", "#009e73", "#d55e00", "#d55e00",
        "#30363d",
    ],
    phases: ["#8a8f98", "#56b4e9", "#e69f00", "#d55e00", "#cc79a7", "#009e73", "#8da0cb"],
    series: [
        "#56b4e9", "#ff8f45", "#1fc79a", "#e39cc4", "#e6b04a", "#8fd0f5", "#e6edf3", "#f0e442",
    ],
};

/// Dash patterns, for series beyond the eighth.
const DASHES: [&str; 3] = ["", "7 3", "2 2.5"];

/// CSS classes of texts, with their size and whether they are bold.
const TYPES: [(&str, f32, bool); 5] = [
    (".h1", 18.0, true),
    (".h2", 14.0, true),
    (".pt", 13.0, true),
    (".n,.l,.fx,.ux,.v0,.v1,.v2,.v3", 11.5, false),
    (".in", 11.0, false),
];

/// Class of paths that replaced texts.
pub(super) const LETTERS: &str = "letters";

/// Size and boldness of texts of `class`.
pub(super) fn type_of_class(class: &str) -> (f32, bool) {
    let found = TYPES.into_iter().find(|(selectors, ..)| {
        selectors.split(',').any(|selector| selector.strip_prefix('.') == Some(class))
    });
    // A class without a rule has the default size of SVG renderers.
    found.map_or((12.0, false), |(_, size, bold)| (size, bold))
}

/// Number of visually distinct series.
pub(crate) const SERIES: usize = 24;

/// The style sheet of a standalone picture.
pub(crate) fn standalone(theme: Theme) -> String {
    let mut css = String::from(
        "text{font-family:system-ui,'Segoe UI','DejaVu Sans',sans-serif}\n.page{fill:PAGE}\n",
    )
    .replace("PAGE", LIGHT.page);
    css += &shapes();
    css += &colours(&LIGHT);
    if theme == Theme::Light {
        // Its texts have been replaced by paths.
        css = css.replace("text.", &format!(".{}.", LETTERS));
    }
    if theme == Theme::Both {
        css += "@media screen and (prefers-color-scheme:dark){\n";
        css += &format!(".page{{fill:{}}}\n", DARK.page);
        css += &colours(&DARK);
        css += "}\n";
    }
    css
}

/// The rules for pictures within a page, with the page's own colours as variables.
pub(crate) fn rules() -> String {
    let variables = |p: &Palette| {
        format!(
            ":root{{--page:{};--ink:{};--faint:{};--grid:{};--warm:{};--shorter:{};--longer:{}}}\n",
            p.page, p.ink, p.faint, p.grid, p.warm, p.shorter, p.longer
        )
    };
    format!(
        "{}{}{}@media screen and (prefers-color-scheme:dark){{\n{}{}}}\n",
        variables(&LIGHT),
        shapes(),
        colours(&LIGHT),
        variables(&DARK),
        colours(&DARK)
    )
}

/// Fill classes in the colours of the series: `f0` to `f7`.
pub(crate) fn series_fills() -> String {
    let fills = |p: &Palette| -> String {
        p.series.iter().enumerate().map(|(i, color)| format!(".f{i}{{fill:{color}}}\n")).collect()
    };
    let (light, dark) = (fills(&LIGHT), fills(&DARK));
    format!("{light}@media screen and (prefers-color-scheme:dark){{\n{dark}}}\n")
}

/// Sizes and lines, which are the same in light and dark.
fn shapes() -> String {
    let mut css = String::new();
    for (selectors, size, bold) in TYPES {
        let weight = if bold { ";font-weight:600" } else { "" };
        css += &format!("{selectors}{{font-size:{size}px{weight}}}\n");
    }
    css += ".g,.ax,.zero,.mn{stroke-width:1;fill:none}\n\
         .tr{stroke-width:1;fill:none;stroke-dasharray:2 3;stroke-opacity:.7}\n\
         .l{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}\n\
         .ci{stroke-width:2;fill:none}\n\
         .xm{stroke-width:1.6;fill:none}\n\
         .um{stroke-width:1.2}\n\
         .ho{stroke-width:1.5;fill:none;stroke-dasharray:4 2}\n\
         .aw{stroke-width:1.3;fill:none}.bu{stroke-width:.7;fill:none;stroke-opacity:.5}\n\
         .bd{fill-opacity:.22}\n";
    for i in 0..SERIES {
        let dash = match DASHES[i / 8] {
            "" => String::new(),
            dash => format!(";stroke-dasharray:{dash}"),
        };
        css += &format!(".s{i}{{fill:none;stroke-width:2{dash}}}\n");
    }
    css
}

fn colours(p: &Palette) -> String {
    let mut css = format!(
        ".h1,.h2,.pt,.l{{fill:{ink}}}\n\
         .n{{fill:{faint}}}.l{{stroke:{page}}}\n\
         .in{{fill:#10151b}}\n\
         .g{{stroke:{grid}}}\n\
         .ax,.zero,.mn,.tr{{stroke:{faint}}}\n\
         .b{{fill:{band}}}\n\
         .w{{fill:{warm}}}\n\
         .fx{{fill:{longer}}}.xm,.ho{{stroke:{longer}}}\n\
         .ux{{fill:{shorter}}}.um{{stroke:{shorter};fill:{page}}}\n\
         .ov{{fill:{ink}}}\n\
         .v0{{fill:{shorter};stroke:{shorter}}}.v1{{fill:{longer};stroke:{longer}}}\n\
         .v2{{fill:{faint};stroke:{faint}}}.v3{{fill:{page};stroke:{faint}}}\n\
         .v3t{{fill:{faint}}}\n\
         text.v0,text.v1,text.v2,text.v3{{stroke:none}}text.v3{{fill:{faint}}}\n",
        ink = p.ink,
        faint = p.faint,
        grid = p.grid,
        band = p.band,
        warm = p.warm,
        longer = p.longer,
        shorter = p.shorter,
        page = p.page,
    );
    css += &format!(
        ".aw,.bu{{stroke:{ink}}}.ah{{fill:{ink}}}.pg{{fill:{page}}}.bd{{fill:{transfer}}}\n",
        ink = p.ink,
        page = p.page,
        transfer = p.parts[5],
    );
    for (i, color) in p.parts.iter().enumerate() {
        css += &format!(".q{i}{{fill:{color}}}\n");
    }
    for (i, color) in p.phases.iter().enumerate() {
        css += &format!(".p{i}{{fill:{color}}}\n");
    }
    for i in 0..SERIES {
        css += &format!(".s{i}{{stroke:{}}}\n", p.series[i % 8]);
    }
    css
}
