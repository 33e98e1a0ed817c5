//! `firstbyte lab export`: writes a docker-compose project with nginx, to run on your own host.

use std::fs;
use std::io;
use std::path::Path;

use crate::cli::exit::{self, Problem};
use crate::cli::files::cannot_write;
use crate::cli::terminal::note;
use crate::plans::LabExportPlan;

const COMPOSE: &str = include_str!("export/compose.yaml");
const NGINX: &str = include_str!("export/nginx.conf");
const README: &str = include_str!("export/README.md");
/// The `.gitignore`: keeps private keys out of shared copies.
const IGNORED: &str = "certificates/*.pem\n";

pub(in crate::cli) fn run(plan: &LabExportPlan) -> Result<u8, Problem> {
    let directory = &plan.directory;
    check_empty(directory, plan.force)?;
    for (name, content) in files(plan) {
        let file = directory.join(name);
        file.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&file, content))
            .map_err(|error| cannot_write(&file, &error))?;
    }
    let certificates = directory.join("certificates");
    fs::create_dir_all(&certificates).map_err(|error| cannot_write(&certificates, &error))?;
    note(&format!("wrote {}; its README.md describes the next steps", directory.display()));
    Ok(exit::OK)
}

/// The project's files: path within it, content.
fn files(plan: &LabExportPlan) -> Vec<(&'static str, Vec<u8>)> {
    let early_data = if plan.early_data { "on" } else { "off" };
    vec![
        ("compose.yaml", COMPOSE.into()),
        ("nginx.conf", NGINX.replace("@EARLY_DATA@", early_data).into()),
        ("README.md", README.replace("@EARLY_DATA@", early_data).into()),
        (".gitignore", IGNORED.into()),
        ("html/index.html", page(plan.page_bytes as usize)),
        ("html/image.jpg", image(plan.image_bytes as usize)),
    ]
}

fn check_empty(directory: &Path, force: bool) -> Result<(), Problem> {
    let mut entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot_write(directory, &error)),
    };
    if force || entries.next().is_none() {
        return Ok(());
    }
    let message = format!("{} is not empty", directory.display());
    Err(Problem::new(exit::WRITE, message).hint("--force writes into it anyway"))
}

/// A page of exactly this many bytes.
fn page(bytes: usize) -> Vec<u8> {
    let head = "<!doctype html><title>firstbyte</title><h1>It works</h1>\n";
    let filling = "The quick brown fox jumps over the lazy dog.\n";
    head.bytes().chain(filling.bytes().cycle()).take(bytes).collect()
}

/// Incompressible bytes, from a linear congruential generator (Knuth, MMIX).
fn image(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}
