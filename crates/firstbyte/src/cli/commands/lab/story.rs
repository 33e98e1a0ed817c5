//! A study's story, from its plan and its figures. Also checks that the plan has the figures that its sentence uses.

use firstbyte_report::study::{StoryFigure, StudyStory, figures_of_sentence};
use firstbyte_report::study_story::render_story;

use crate::cli::exit::Problem;
use crate::cli::exports::print;
use crate::cli::plan::plan_file::StoryPlan;
use crate::cli::terminal;
use crate::plans::RenderPlan;

/// The story of the study `name`, with its measured figures compared with `reference`.
pub(super) fn story_of_study(
    name: &str,
    plan: Option<&StoryPlan>,
    reference: &'static str,
    figures: Vec<StoryFigure>,
) -> StudyStory {
    let StoryPlan { source, sentence } = plan.cloned().unwrap_or_default();
    StudyStory { study: name.to_owned(), source, reference, figures, sentence }
}

/// Why the sentence cannot be told: it refers to a figure that is not among `names`.
pub(super) fn sentence_problem(plan: Option<&StoryPlan>, names: &[&str]) -> Option<String> {
    let unknown = figures_of_sentence(&plan?.sentence).find(|name| !names.contains(name))?;
    let known = names.join("; ");
    Some(format!(
        "story: no expect says {unknown:?}, which the sentence rests on; there are: {known}"
    ))
}

/// Prints the story, to standard error if data goes to standard output.
pub(super) fn print_story(story: &StudyStory, render: &RenderPlan) -> Result<(), Problem> {
    if render.outputs.use_stdout() {
        let text = render_story(story, &terminal::style_beside(render.colors));
        terminal::show_beside(text.trim_end());
        return Ok(());
    }
    print(&render_story(story, &terminal::style(render.colors)))
}
