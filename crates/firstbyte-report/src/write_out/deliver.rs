//! Brings pieces to where they belong.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use super::{Piece, Target};

/// Writes each piece to its target, in order. A file that cannot be opened is passed over, and its
/// text goes where the piece before went: so does curl, and a transfer does not fail for it.
///
/// # Errors
/// Those of writing to an open target.
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
