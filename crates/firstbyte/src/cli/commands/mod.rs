//! What can be done, one file a command.

pub(super) mod check;
pub(super) mod compare;
pub(super) mod demo;
pub(super) mod explain;
pub(super) mod lab;
pub(super) mod predict;
pub(super) mod probe;
pub(super) mod report;
pub(super) mod serve;
pub(super) mod wire;
