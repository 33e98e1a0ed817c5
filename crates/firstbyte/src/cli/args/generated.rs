//! Arguments of `firstbyte completions` and `firstbyte man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

const COMPLETIONS_HELP: &str = "\
Examples:
  firstbyte completions bash > /etc/bash_completion.d/firstbyte
  firstbyte completions zsh > ~/.zfunc/_firstbyte
  firstbyte completions fish > ~/.config/fish/completions/firstbyte.fish";

/// Print a completion script for bash, zsh or fish
#[derive(Args, Debug)]
#[command(after_help = COMPLETIONS_HELP)]
pub(in crate::cli) struct CompletionsArgs {
    /// Shell to print the script for
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

const MAN_HELP: &str = "\
Examples:
  firstbyte man | man -l -
  firstbyte man --output-dir ~/.local/share/man/man1";

/// Print the manual page, or write the pages of all commands
#[derive(Args, Debug)]
#[command(after_help = MAN_HELP)]
pub(in crate::cli) struct ManArgs {
    /// Write firstbyte.1 and a page for each command into DIR
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
}
