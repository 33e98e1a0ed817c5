//! The command line of firstbyte.
fn main() {}
