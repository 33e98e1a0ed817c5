//! `--sequence`: a connection as two lifelines with the messages between them, and the underlying story that
//! drawings are made from.
//!
//! Input: a [`Sequence`](firstbyte_core::sequence::Sequence). Output: text. `story` decides for text and pictures
//! alike what is close together, what is folded, and what it is called.

pub(crate) mod story;
mod text;

pub use text::{diagram, sequence};

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
