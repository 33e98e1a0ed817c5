//! The story of a study: published figures beside measured ones.
//!
//! Input: figures, each with its published and its measured value. Output: a [`StudyStory`], shown alike by the
//! terminal, the page and the pictures. It says which figures were reproduced, and has a sentence that is told only
//! if every figure it relies on was. It computes no statistics: the caller provides estimates.

use super::Estimate;

/// A study's story.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyStory {
    /// The study's name.
    pub study: String,
    /// One-line source: who published what.
    pub source: String,
    /// The reference for the measured figures: "published".
    pub reference: &'static str,
    /// Rows of the table.
    pub figures: Vec<StoryFigure>,
    /// The sentence, with `{NAME}` for the measured figures of that name.
    pub sentence: String,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct StoryFigure {
    /// The figure's name: "page, early data on".
    pub name: String,
    /// The variant; empty if there is only one.
    pub variant: String,
    /// Unit of both values below.
    pub unit: FigureUnit,
    /// The reference value.
    pub published: PublishedFigure,
    /// The measured value.
    pub measured: MeasuredFigure,
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureUnit {
    /// Nanoseconds.
    Time,
    /// Nanoseconds, as a signed difference.
    TimeChange,
    /// A share; 1 is 100 %.
    Share,
    /// A signed difference of shares.
    ShareChange,
    /// A ratio.
    Factor,
    /// A rate per second.
    Rate,
    /// A count.
    Number,
}

/// The reference value of a measured figure.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedFigure {
    /// The value as published: "333 ms", "-30 % to -10 %".
    pub text: String,
    /// Lower end, or the value itself.
    pub low: f64,
    /// Upper end, or the value itself.
    pub high: f64,
    /// Whether this is the study's own bound instead of a published value.
    pub is_own_bound: bool,
}

/// Outcome of measuring a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum MeasuredFigure {
    /// It matches the published value, or lies within the bounds.
    Reproduced(Estimate),
    /// It does not match; absent if no sample counts.
    Missed(Option<Estimate>),
    /// It could not be measured here, for this reason.
    Unavailable(String),
}

/// The concluding sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorySentence {
    /// Every figure it relies on was reproduced.
    Told(String),
    /// It relies on these figures, which were missed or not measured.
    Withheld(Vec<String>),
}

/// Figures whose bars share a scale.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BarGroup<'a> {
    /// Length of the longest bar.
    pub longest: f64,
    /// Figures grouped by name.
    pub figures: Vec<Vec<&'a StoryFigure>>,
}

/// If one bar of a group is this many times as long as another, the shorter one becomes invisible.
const WIDEST_RATIO: f64 = 10.0;

impl PublishedFigure {
    /// The study's own expectation, from `low` to `high`.
    pub const fn own_bound(text: String, [low, high]: [f64; 2]) -> Self {
        Self { text, low, high, is_own_bound: true }
    }

    /// Whether `value` lies between its ends.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

impl MeasuredFigure {
    /// Judges `estimate`: it is reproduced if `has_to_be` accepts its value.
    pub fn judge(estimate: Option<Estimate>, has_to_be: impl FnOnce(f64) -> bool) -> Self {
        match estimate {
            Some(estimate) if has_to_be(estimate.value) => Self::Reproduced(estimate),
            other => Self::Missed(other),
        }
    }

    /// The estimate, if any.
    pub const fn estimate(&self) -> Option<&Estimate> {
        match self {
            Self::Reproduced(estimate) | Self::Missed(Some(estimate)) => Some(estimate),
            Self::Missed(None) | Self::Unavailable(_) => None,
        }
    }
}

impl StoryFigure {
    /// "page, early data on (Chromium)"
    fn full_name(&self) -> String {
        match self.variant.as_str() {
            "" => self.name.clone(),
            variant => format!("{} ({variant})", self.name),
        }
    }

    /// The measured figure without its interval; empty if nothing was measured.
    pub(crate) fn value_text(&self) -> String {
        let estimate = self.measured.estimate();
        estimate.map_or(String::new(), |estimate| self.unit.value_text(estimate.value))
    }

    /// Label of its bar.
    pub(crate) fn bar_label(&self) -> &str {
        if self.variant.is_empty() { "measured" } else { &self.variant }
    }

    pub(crate) const fn is_missed(&self) -> bool {
        matches!(self.measured, MeasuredFigure::Missed(_))
    }
}

impl StudyStory {
    /// Whether every figure that could be measured was reproduced.
    pub fn is_reproduced(&self) -> bool {
        !self.figures.iter().any(StoryFigure::is_missed)
    }

    /// "12 of 12 figures reproduced"
    pub fn verdict(&self) -> String {
        let available =
            |figure: &&StoryFigure| !matches!(figure.measured, MeasuredFigure::Unavailable(_));
        let all = self.figures.iter().filter(available).count();
        let missed: Vec<String> =
            self.figures.iter().filter(|f| f.is_missed()).map(StoryFigure::full_name).collect();
        let text = format!("{} of {all} figures reproduced", all - missed.len());
        if missed.is_empty() { text } else { format!("{text}; missed: {}", missed.join("; ")) }
    }

    /// The sentence with the measured figures filled in; absent if the study has none.
    pub fn sentence(&self) -> Option<StorySentence> {
        if self.sentence.is_empty() {
            return None;
        }
        let mut missed = Vec::new();
        let mut text = String::new();
        for piece in sentence_pieces(&self.sentence) {
            let name = match piece {
                SentencePiece::Words(words) => {
                    text.push_str(words);
                    continue;
                }
                SentencePiece::Figure(name) => name,
            };
            let of_name: Vec<&StoryFigure> =
                self.figures.iter().filter(|figure| figure.name == name).collect();
            missed.extend(of_name.iter().filter(|f| f.is_missed()).map(|f| f.full_name()));
            let values: Vec<f64> =
                of_name.iter().filter_map(|f| Some(f.measured.estimate()?.value)).collect();
            match of_name.first().filter(|_| !values.is_empty()) {
                Some(figure) => text.push_str(&figure.unit.range_text(&values)),
                None if of_name.iter().any(|f| f.is_missed()) => {}
                None => missed.push(name.to_owned()),
            }
        }
        missed.dedup();
        Some(match missed.is_empty() {
            true => StorySentence::Told(text),
            false => StorySentence::Withheld(missed),
        })
    }

    /// Variants, in order of first appearance.
    pub(crate) fn variants(&self) -> Vec<&str> {
        distinct(self.figures.iter().map(|figure| figure.variant.as_str()))
    }

    /// Figures to draw: the published ones, or the study's own bounds if none was published.
    pub(crate) fn bar_groups(&self) -> Vec<BarGroup<'_>> {
        let any_published = self.figures.iter().any(|figure| !figure.published.is_own_bound);
        let drawn: Vec<&StoryFigure> = self
            .figures
            .iter()
            .filter(|figure| !(any_published && figure.published.is_own_bound))
            .filter(|figure| figure.measured.estimate().is_some())
            .filter(|figure| figure.published.high.is_finite())
            .collect();
        let mut groups: Vec<(f64, BarGroup<'_>)> = Vec::new();
        for name in distinct(drawn.iter().map(|figure| figure.name.as_str())) {
            let of_name: Vec<&StoryFigure> =
                drawn.iter().copied().filter(|figure| figure.name == name).collect();
            let lengths = || of_name.iter().flat_map(|figure| figure.lengths());
            let longest = lengths().fold(0.0, f64::max);
            let shortest = lengths().filter(|length| *length > 0.0).fold(f64::INFINITY, f64::min);
            let fits = |(low, group): &(f64, BarGroup<'_>)| {
                let ratio = group.longest.max(longest) / low.min(shortest);
                group.figures[0][0].unit == of_name[0].unit && ratio <= WIDEST_RATIO
            };
            match groups.last_mut().filter(|group| fits(group)) {
                Some((low, group)) => {
                    *low = low.min(shortest);
                    group.longest = group.longest.max(longest);
                    group.figures.push(of_name);
                }
                None => groups.push((shortest, BarGroup { longest, figures: vec![of_name] })),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

impl StoryFigure {
    /// Lengths of its bars.
    fn lengths(&self) -> impl Iterator<Item = f64> {
        let measured = self.measured.estimate().map(|estimate| estimate.value);
        [self.published.low, self.published.high].into_iter().chain(measured).map(f64::abs)
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Text, or the name of a figure.
enum SentencePiece<'a> {
    Words(&'a str),
    Figure(&'a str),
}

fn sentence_pieces(sentence: &str) -> impl Iterator<Item = SentencePiece<'_>> {
    sentence.split('{').enumerate().flat_map(|(index, part)| {
        let (name, words) = match part.split_once('}') {
            Some((name, words)) if index > 0 => (Some(name), words),
            _ => (None, part),
        };
        name.map(SentencePiece::Figure).into_iter().chain([SentencePiece::Words(words)])
    })
}

/// Names of the figures that `sentence` relies on.
pub fn figures_of_sentence(sentence: &str) -> impl Iterator<Item = &str> {
    sentence_pieces(sentence).filter_map(|piece| match piece {
        SentencePiece::Figure(name) => Some(name),
        SentencePiece::Words(_) => None,
    })
}

impl FigureUnit {
    /// Divisor, decimals and unit for values up to `largest`.
    const fn shown_as(self, largest: f64) -> (f64, usize, &'static str) {
        match self {
            Self::Time | Self::TimeChange => match largest {
                1e9.. => (1e9, 3, " s"),
                1e8.. => (1e6, 1, " ms"),
                1e6.. => (1e6, 2, " ms"),
                _ => (1e6, 3, " ms"),
            },
            Self::Share | Self::ShareChange => (0.01, 1, " %"),
            Self::Factor => (1.0, 1, " times"),
            Self::Rate => (1.0, 0, " a second"),
            Self::Number => (1.0, 0, ""),
        }
    }

    /// Whether it is computed from samples, so that enough of them give an interval.
    pub(crate) const fn has_intervals(self) -> bool {
        matches!(self, Self::Time | Self::TimeChange | Self::ShareChange)
    }

    const fn is_change(self) -> bool {
        matches!(self, Self::TimeChange | Self::ShareChange)
    }

    /// `value` without its unit, in the scale of values up to `largest`.
    fn number_text(self, value: f64, largest: f64) -> String {
        let (divisor, decimals, _) = self.shown_as(largest);
        match self.is_change() {
            true => format!("{:+.decimals$}", value / divisor),
            false => format!("{:.decimals$}", value / divisor),
        }
    }

    /// "333.2 ms"
    pub(crate) fn value_text(self, value: f64) -> String {
        format!("{}{}", self.number_text(value, value.abs()), self.shown_as(value.abs()).2)
    }

    /// "333.2 ms (332.9 to 333.4)"
    pub(crate) fn estimate_text(self, estimate: &Estimate) -> String {
        let number = |value| self.number_text(value, estimate.value.abs());
        let interval = estimate.interval.map_or(String::new(), |interval| {
            format!(" ({} to {})", number(interval.low), number(interval.high))
        });
        self.value_text(estimate.value) + &interval
    }

    /// "333.2 to 352.4 ms", without signs: the surrounding words give the direction.
    fn range_text(self, values: &[f64]) -> String {
        let sizes = || values.iter().map(|value| value.abs());
        let (low, high) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
        let (divisor, decimals, unit) = self.shown_as(high);
        let [low, high] = [low, high].map(|value| format!("{:.decimals$}", value / divisor));
        if low == high { format!("{high}{unit}") } else { format!("{low} to {high}{unit}") }
    }
}
