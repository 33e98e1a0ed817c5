//! Rules for every page about captures, for their tests.

/// Asserts that the page is well-formed, that its ids are unique and all references resolve, and that it loads and
/// runs nothing.
#[track_caller]
pub(in crate::wire) fn assert_self_contained(page: &str) {
    let xml = page.replace("<!DOCTYPE html>", "");
    let document = resvg::usvg::roxmltree::Document::parse(&xml).unwrap();
    let mut ids: Vec<&str> = document.descendants().filter_map(|n| n.attribute("id")).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    for node in document.descendants() {
        for id in node.attribute("aria-labelledby").unwrap_or("").split_whitespace() {
            assert!(ids.binary_search(&id).is_ok(), "{id}");
        }
    }
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for load in ["http://", "https://", "src=", "@import", "url(", "<link", "<img", "<script"] {
        assert!(!without_namespace.contains(load), "{load}");
    }
}
