//! Renders SVG to pixels with the bundled font, so that pictures are identical on every machine.

use std::fmt;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg;

use super::outlines;

/// Reasons why rendering failed.
#[derive(Debug)]
pub enum PngError {
    /// The drawing is not valid SVG.
    Drawing(usvg::Error),
    /// It has too many pixels.
    TooLarge {
        /// Width, pixels.
        width: u32,
        /// Height, pixels.
        height: u32,
    },
    /// The pixels could not be encoded.
    Encoding(String),
}

impl fmt::Display for PngError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drawing(error) => write!(f, "could not draw: {error}"),
            Self::TooLarge { width, height } => {
                write!(f, "a picture of {width} × {height} pixels is too large")
            }
            Self::Encoding(detail) => write!(f, "could not encode the picture: {detail}"),
        }
    }
}

impl std::error::Error for PngError {}

/// Maximum number of pixels (400 MB); nobody could view a larger picture.
const MOST_PIXELS: u64 = 100_000_000;

/// `svg` at `scale` times its size.
pub(crate) fn encode(svg: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    let svg = outlines::outlined(svg).map_err(|error| PngError::Drawing(error.into()))?;
    let options = usvg::Options::default();
    let tree = usvg::Tree::from_str(&svg, &options).map_err(PngError::Drawing)?;
    let size = tree.size();
    let (width, height) =
        ((size.width() * scale).ceil() as u32, (size.height() * scale).ceil() as u32);
    let too_large = PngError::TooLarge { width, height };
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(too_large);
    }
    let mut pixels = Pixmap::new(width, height).ok_or(too_large)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError::Encoding(error.to_string()))
}
