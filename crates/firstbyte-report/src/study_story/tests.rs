use firstbyte_core::stats::Interval;

use super::*;
use crate::chart;
use crate::study::{Estimate, FigureUnit, Study};

fn milliseconds(value: f64, reach: Option<f64>) -> Estimate {
    let interval =
        reach.map(|reach| Interval { low: (value - reach) * 1e6, high: (value + reach) * 1e6 });
    Estimate { value: value * 1e6, interval }
}

fn figure(name: &str, variant: &str, text: &str, [published, measured]: [f64; 2]) -> StoryFigure {
    let low = published * 1e6;
    let near = |value: f64| (value - low).abs() <= low.abs() * 0.1;
    StoryFigure {
        name: name.to_owned(),
        variant: variant.to_owned(),
        unit: if published < 0.0 { FigureUnit::TimeChange } else { FigureUnit::Time },
        published: PublishedFigure { text: text.to_owned(), low, high: low, is_own_bound: false },
        measured: MeasuredFigure::judge(Some(milliseconds(measured, Some(0.4))), near),
    }
}

/// The published early data case, with one client that does not support it.
fn early_data(page_on: f64) -> StudyStory {
    let of = |variant: &str, page_off, page_on, image_on| {
        [
            figure("page, early data off", variant, "333 ms", [333.0, page_off]),
            figure("page, early data on", variant, "221 ms", [221.0, page_on]),
            figure("handshake, on minus off", variant, "-112 ms", [-112.0, -112.1]),
            figure("image, early data on", variant, "3 s", [3_000.0, image_on]),
        ]
    };
    let mut figures: Vec<StoryFigure> = of("firstbyte", 335.1, page_on, 3_120.4).into();
    let why =
        "curl 7.88.1 with OpenSSL/3.0.19 keeps no TLS session beyond its end: that needs curl 8.12";
    figures.extend(of("curl", 0.0, 0.0, 0.0).map(|figure| StoryFigure {
        measured: MeasuredFigure::Unavailable(why.to_owned()),
        ..figure
    }));
    figures.extend(of("Chromium", 352.4, 231.9, 3_140.0));
    figures.push(StoryFigure {
        name: "TCP handshake".to_owned(),
        variant: "Chromium".to_owned(),
        unit: FigureUnit::Time,
        published: PublishedFigure::own_bound("111 ms to 114 ms".to_owned(), [111e6, 114e6]),
        measured: MeasuredFigure::Reproduced(milliseconds(112.3, None)),
    });
    StudyStory {
        study: "codavel".to_owned(),
        source: "a blog measured its own server from 112 ms away, early data first off and then on".to_owned(),
        reference: "published",
        figures,
        sentence: "The page came after {page, early data on} instead of {page, early data off}; TCP's round \
                   trip stayed ({TCP handshake})."
            .to_owned(),
    }
}

fn shown(story: &StudyStory, style: Style) -> String {
    let text = render_story(story, &style);
    assert!(text.lines().all(|line| line.chars().count() <= style.columns()), "{text}");
    text
}

#[test]
fn a_story_is_a_table_a_picture_and_a_sentence() {
    let text = shown(&early_data(222.9), Style::default());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "page, early data off 333 ms 335.1 ms (334.7 to 335.5) ✓",
        "handshake, on minus off −112 ms −112.1 ms (−112.5 to −111.7) ✓",
        "image, early data on 3 s 3.120 s (3.120 to 3.121) ✓",
        "curl not measured: curl 7.88.1",
        "TCP handshake (111 ms to 114 ms) 112.3 ms ✓",
        "The page came after 222.9 to 231.9 ms instead of 335.1 to 352.4 ms; TCP's round trip stayed (112.3 ms).",
    ] {
        assert!(words.contains(part), "{part}:\n{text}");
    }
    assert!(text.ends_with("\n9 of 9 figures reproduced\n"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_missed_figure_is_named_and_takes_the_sentence_with_it() {
    let story = early_data(333.0);
    let text = shown(&story, Style::default());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("221 ms 333.0 ms (332.6 to 333.4) ✗"), "{text}");
    assert!(!words.contains("came after"), "{text}");
    assert!(words.contains("were missed: page, early data on (firstbyte)."), "{text}");
    assert!(words.ends_with("8 of 9 figures reproduced; missed: page, early data on (firstbyte)"));
    assert!(!story.is_reproduced());
    // A missed figure that the sentence does not rely on does not matter.
    let mut story = early_data(222.9);
    story.figures[3].measured = MeasuredFigure::Missed(None);
    assert!(matches!(story.sentence(), Some(StorySentence::Told(_))));
    assert!(story.verdict().ends_with("missed: image, early data on (firstbyte)"));
    // The sentence is also withheld if a figure it relies on was not measured.
    story.figures.retain(|figure| figure.name != "TCP handshake");
    let withheld = StorySentence::Withheld(vec!["TCP handshake".to_owned()]);
    assert_eq!(story.sentence(), Some(withheld));
}

/// Times within a factor of ten share a scale, so that the shortest bar is visible.
#[test]
fn bars_share_a_scale_where_both_can_be_seen() {
    let story = early_data(222.9);
    let groups = story.bar_groups();
    let names: Vec<Vec<&str>> = groups
        .iter()
        .map(|group| group.figures.iter().map(|of_name| of_name[0].name.as_str()).collect())
        .collect();
    assert_eq!(
        names,
        [
            vec!["page, early data off", "page, early data on"],
            vec!["handshake, on minus off"],
            vec!["image, early data on"]
        ]
    );
    // Excluded variants have no bar. The study's own bounds have none if there are published figures.
    assert!(groups[0].figures.iter().all(|of_name| of_name.len() == 2));
}

#[test]
fn a_terminal_without_glyphs_has_the_same_story() {
    let style = Style { unicode: false, width: 60, ..Style::default() };
    let text = shown(&early_data(333.0), style);
    assert!(text.is_ascii() && text.contains("####") && text.contains("NO"), "{text}");
}

#[test]
fn a_story_is_a_picture_of_a_page_too() {
    let story = early_data(222.9);
    let figures = chart::figures(&Study { story: Some(&story), ..Study::default() });
    let [figure] = figures.as_slice() else { panic!("{figures:#?}") };
    assert_eq!((figure.name, figure.panels().count()), ("story", 3));
    let svg = figure.svg();
    for part in
        ["published 333 ms, firstbyte 335.1 ms, Chromium 352.4 ms", "9 of 9 figures reproduced"]
    {
        assert!(
            figure.note.contains(part) || figure.panels().any(|p| p.description.contains(part)),
            "{part}: {svg}"
        );
    }
    assert!(
        crate::html::page(&Study { story: Some(&story), ..Study::default() })
            .contains("id=\"story\"")
    );
}
