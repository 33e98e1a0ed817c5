//! Writes pieces to their targets.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use super::{Piece, Target};

/// Writes each piece to its target, in order.
///
/// If a file cannot be opened, its text goes to the previous piece's target instead. This matches curl, where such
/// an error does not fail a transfer.
///
/// # Errors
/// Returns errors from writing to an open target.
pub fn deliver(pieces: &[Piece], stdout: &mut dyn Write, stderr: &mut dyn Write) -> io::Result<()> {
    let mut open = Open::Stdout;
    for piece in pieces {
        match &piece.target {
            Target::Stdout => open = Open::Stdout,
            Target::Stderr => open = Open::Stderr,
            Target::File { path, append } => {
                if let Ok(file) = file(path, *append) {
                    open = Open::File(file);
                }
            }
        }
        let text = piece.text.as_bytes();
        match &mut open {
            Open::Stdout => stdout.write_all(text)?,
            Open::Stderr => stderr.write_all(text)?,
            Open::File(file) => file.write_all(text)?,
        }
    }
    Ok(())
}

enum Open {
    Stdout,
    Stderr,
    File(File),
}

fn file(path: &str, append: bool) -> io::Result<File> {
    OpenOptions::new().create(true).write(true).append(append).truncate(!append).open(path)
}
