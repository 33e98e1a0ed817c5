use super::*;
use crate::chart;

const STORY: &str = include_str!("../../../firstbyte-sources/fixtures/averages/story.csv");

fn story() -> DailyAverages {
    DailyAverages::read(STORY.as_bytes()).unwrap()
}

#[test]
fn the_storys_case_at_80_columns() {
    let averages = story();
    let found = averages.changes();
    let view = AveragesView { averages: &averages, found: found.as_ref() };
    let text = table(&view, &Style::default());
    insta::assert_snapshot!(text);
    assert!(
        text.contains("14,302,686 page views") && text.contains("The average fell on 2018-11-1"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let ascii = table(&view, &Style { unicode: false, width: 60, ..Style::default() });
    assert!(ascii.is_ascii(), "{ascii}");
    assert!(ascii.lines().all(|line| line.chars().count() <= 60), "{ascii}");
}

#[test]
fn pictures_and_json_of_the_storys_case() {
    let averages = story();
    let found = averages.changes();
    let view = AveragesView { averages: &averages, found: found.as_ref() };
    let figure = chart::averages(&view);
    assert!(figure.svg().contains("The average fell on 2018-11-1"));
    assert!(figure.png().unwrap().len() > 10_000);
    let record: serde_json::Value = serde_json::from_str(&json(&view).unwrap()).unwrap();
    assert_eq!(record["page_views"], 14_302_686);
    assert_eq!(record["changes"][0]["pace"], "at once");
    assert_eq!(record["daily"].as_array().unwrap().len(), 152);
    let change = record["changes"][0]["difference_ns"].as_i64().unwrap();
    assert!((-11_500_000..-8_500_000).contains(&change), "{change}");
}

#[test]
fn days_that_are_too_few_and_days_without_change() {
    let few: Vec<&str> = STORY.lines().take(30).collect();
    let averages = DailyAverages::read(few.join("\n").as_bytes()).unwrap();
    let view = AveragesView { averages: &averages, found: None };
    let text = table(&view, &Style::default());
    assert!(text.contains("Not searched for changes: fewer than 42 days"), "{text}");
    assert_eq!(chart::averages(&view).panels().count(), 0);
    let half: Vec<&str> = STORY.lines().take(73).collect();
    let averages = DailyAverages::read(half.join("\n").as_bytes()).unwrap();
    let found = averages.changes();
    let view = AveragesView { averages: &averages, found: found.as_ref() };
    let text = table(&view, &Style::default());
    assert!(text.contains("No change found. A change of "), "{text}");
    assert!(json(&view).unwrap().contains("\"changes\":[]"));
}
