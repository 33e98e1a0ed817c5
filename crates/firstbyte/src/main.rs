//! The program `firstbyte`.

use std::process::ExitCode;

fn main() -> ExitCode {
    firstbyte::cli::run(std::env::args_os())
}
