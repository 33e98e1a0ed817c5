//! Turns the arguments of `monitor annotate` into a plan.

use std::collections::BTreeMap;

use super::monitor_events::moment;
use super::usage;
use crate::cli::args::MonitorAnnotateArgs;
use crate::cli::exit::Problem;
use crate::monitor_server::check_annotation;
use crate::plans::MonitorAnnotatePlan;

pub(super) fn annotate(args: &MonitorAnnotateArgs) -> Result<MonitorAnnotatePlan, Problem> {
    let mut tags = BTreeMap::new();
    for written in &args.tag {
        let (name, value) = written.split_once('=').ok_or_else(|| {
            usage(format!("--tag {written:?}: no = in it")).hint("write --tag service=shop")
        })?;
        if tags.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(usage(format!("--tag: {name} is given twice")));
        }
    }
    check_annotation(&args.text, &tags).map_err(usage)?;
    Ok(MonitorAnnotatePlan {
        store: args.store.clone(),
        text: args.text.clone(),
        at: moment("--at", args.at.as_deref())?,
        tags,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(text: &str, tags: &[&str]) -> Result<MonitorAnnotatePlan, String> {
        let tag = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let args = MonitorAnnotateArgs { text: text.to_owned(), at: None, tag, store: None };
        annotate(&args).map_err(|problem| problem.to_string())
    }

    #[test]
    fn tags_have_names_and_values() {
        let plan = planned("deploy 4812", &["service=shop", "version=1=2"]).unwrap();
        assert_eq!((&*plan.tags["service"], &*plan.tags["version"]), ("shop", "1=2"));
        for (text, tags, part) in [
            (" ", &[] as &[&str], "the text is empty"),
            ("deploy", &["shop"], "--tag \"shop\": no = in it"),
            ("deploy", &["a=b", "a=c"], "--tag: a is given twice"),
            ("deploy", &["a b=c"], "\"a b\" is not a tag name"),
        ] {
            let why = planned(text, tags).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
