//! Results on their way to where they go: what all commands that write them share.
//!
//! A command names its outputs to [`cli::files`](super::files), which checks and opens them before anything is measured.
//! Rows go out as they come, by an [`Exporter`] for each form; a page, a picture or an object goes out at the end, whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};

use super::exit::Problem;
use super::files::cannot_write;
use crate::plans::Destination;
use firstbyte_report::style::without_controls;

/// Where bytes go.
pub(super) type Sink = Box<dyn Write + Send>;

/// Begins an output: a file is emptied.
pub(super) fn sink(to: &Destination) -> io::Result<Sink> {
    Ok(match to {
        Destination::StandardOutput => Box::new(BufWriter::new(io::stdout())),
        Destination::File(path) => Box::new(BufWriter::with_capacity(1 << 16, File::create(path)?)),
    })
}

/// Writes `bytes`, all there is of an output.
pub(super) fn whole(to: &Destination, bytes: &[u8]) -> Result<(), Problem> {
    let written = match to {
        Destination::StandardOutput => io::stdout().lock().write_all(bytes),
        Destination::File(path) => fs::write(path, bytes),
    };
    written.map_err(|error| cannot_write(to.path(), &error))
}

/// Writes a result for people to standard output.
pub(super) fn print(text: &str) -> Result<(), Problem> {
    whole(&Destination::StandardOutput, without_controls(text).as_bytes())
}

/// One form that rows are written in: its beginning is written by who makes it.
pub(super) trait Exporter<Row: ?Sized, End: ?Sized = ()> {
    /// Writes a row.
    fn export(&mut self, row: &Row) -> io::Result<()>;

    /// Hands over what is buffered to who reads along. What cannot be read before its end has nothing to hand over.
    fn flush(&mut self) -> io::Result<()>;

    /// Writes what comes behind the last row.
    fn finish(self: Box<Self>, end: &End) -> io::Result<()>;
}

/// Rows as lines, each written by itself.
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

/// One form, and where it goes.
type Begun<'a, Row, End> = (&'a Destination, Box<dyn Exporter<Row, End> + 'a>);

/// The rows of a command, in every form that was asked for.
pub(super) struct Exports<'a, Row: ?Sized, End: ?Sized = ()> {
    opened: Vec<Begun<'a, Row, End>>,
}

impl<Row: ?Sized, End: ?Sized> Default for Exports<'_, Row, End> {
    fn default() -> Self {
        Self { opened: Vec::new() }
    }
}

impl<'a, Row: ?Sized, End: ?Sized> Exports<'a, Row, End> {
    /// Begins one of them, where it was asked for.
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

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.opened.is_empty()
    }

    /// Writes a row to all of them.
    pub(super) fn export(&mut self, row: &Row) -> Result<(), Problem> {
        self.each(|exporter| exporter.export(row))
    }

    /// Hands over what is buffered.
    pub(super) fn flush(&mut self) -> Result<(), Problem> {
        self.each(|exporter| exporter.flush())
    }

    /// Which fails gets nothing more, also not its end; the others are as whole as they can be.
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

    /// Writes their ends, of all that can be written.
    pub(super) fn finish(self, end: &End) -> Result<(), Problem> {
        let mut all = Ok(());
        for (to, exporter) in self.opened {
            let ended = exporter.finish(end).map_err(|error| cannot_write(to.path(), &error));
            all = all.and(ended);
        }
        all
    }
}
