//! A comparison in the terminal.
