//! `--sequence`: a connection as two lifelines with what went between them, and the same as a story
//! that drawings of it are made from.
//!
//! Input: a [`Sequence`](firstbyte_core::sequence::Sequence). Output: text. What is near each other,
//! what is folded and what it is called is decided in `story`, once for text and pictures.

pub(crate) mod story;
mod text;

pub use text::{diagram, sequence};

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
