//! Writing results: shared by all commands that do so.
//!
//! A command names its outputs to [`cli::files`](super::files), which checks and opens them before anything is
//! measured. Rows are written as they come, by an [`Exporter`] for each form. A page, a picture or an object is
//! written at the end in one piece.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};

use super::exit::Problem;
use super::files::cannot_write;
use crate::plans::Destination;
use firstbyte_report::style::without_controls;

/// Destination of bytes.
pub(super) type Sink = Box<dyn Write + Send>;

/// Opens an output; a file is truncated.
pub(super) fn sink(to: &Destination) -> io::Result<Sink> {
    Ok(match to {
        Destination::StandardOutput => Box::new(BufWriter::new(io::stdout())),
        Destination::File(path) => Box::new(BufWriter::with_capacity(1 << 16, File::create(path)?)),
    })
}

/// Writes a whole output at once.
pub(super) fn whole(to: &Destination, bytes: &[u8]) -> Result<(), Problem> {
    let written = match to {
        Destination::StandardOutput => io::stdout().lock().write_all(bytes),
        Destination::File(path) => fs::write(path, bytes),
    };
    written.map_err(|error| cannot_write(to.path(), &error))
}

/// Writes human-readable results to standard output.
pub(super) fn print(text: &str) -> Result<(), Problem> {
    whole(&Destination::StandardOutput, without_controls(text).as_bytes())
}

/// One form of rows. Whoever creates it writes the beginning.
pub(super) trait Exporter<Row: ?Sized, End: ?Sized = ()> {
    fn export(&mut self, row: &Row) -> io::Result<()>;

    /// Flushes buffers for readers following along. Does nothing for a form that is unreadable without its end.
    fn flush(&mut self) -> io::Result<()>;

    /// Writes the part after the last row.
    fn finish(self: Box<Self>, end: &End) -> io::Result<()>;
}

/// Writes each row as a line.
pub(super) struct Lines<W, F> {
    pub out: W,
    pub line: F,
}

impl<W: Write, F, Row: ?Sized> Exporter<Row> for Lines<W, F>
where
    F: Fn(&Row, &mut dyn Write) -> io::Result<()>,
{
    fn export(&mut self, row: &Row) -> io::Result<()> {
        (self.line)(row, &mut self.out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(mut self: Box<Self>, (): &()) -> io::Result<()> {
        self.out.flush()
    }
}

/// One form and its destination.
type Begun<'a, Row, End> = (&'a Destination, Box<dyn Exporter<Row, End> + 'a>);

/// The rows of a command, in every requested form.
pub(super) struct Exports<'a, Row: ?Sized, End: ?Sized = ()> {
    opened: Vec<Begun<'a, Row, End>>,
}

impl<Row: ?Sized, End: ?Sized> Default for Exports<'_, Row, End> {
    fn default() -> Self {
        Self { opened: Vec::new() }
    }
}

impl<'a, Row: ?Sized, End: ?Sized> Exports<'a, Row, End> {
    /// Opens one form, if requested.
    pub(super) fn open<E: Exporter<Row, End> + 'a>(
        &mut self,
        to: &'a Option<Destination>,
        begin: impl FnOnce(Sink) -> io::Result<E>,
    ) -> Result<(), Problem> {
        let Some(to) = to else { return Ok(()) };
        let begun = sink(to).and_then(begin).map_err(|error| cannot_write(to.path(), &error))?;
        self.opened.push((to, Box::new(begun)));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.opened.is_empty()
    }

    /// Writes a row in all forms.
    pub(super) fn export(&mut self, row: &Row) -> Result<(), Problem> {
        self.each(|exporter| exporter.export(row))
    }

    pub(super) fn flush(&mut self) -> Result<(), Problem> {
        self.each(|exporter| exporter.flush())
    }

    /// A form that fails receives nothing more, not even its end; the others are completed as far as possible.
    fn each(
        &mut self,
        mut write: impl FnMut(&mut (dyn Exporter<Row, End> + 'a)) -> io::Result<()>,
    ) -> Result<(), Problem> {
        let mut all = Ok(());
        self.opened.retain_mut(|(to, exporter)| match write(exporter.as_mut()) {
            Ok(()) => true,
            Err(error) => {
                let failed = Err(cannot_write(to.path(), &error));
                all = std::mem::replace(&mut all, Ok(())).and(failed);
                false
            }
        });
        all
    }

    /// Writes the ends of all forms that have not failed.
    pub(super) fn finish(self, end: &End) -> Result<(), Problem> {
        let mut all = Ok(());
        for (to, exporter) in self.opened {
            let ended = exporter.finish(end).map_err(|error| cannot_write(to.path(), &error));
            all = all.and(ended);
        }
        all
    }
}
