//! Page loads: laid out on one time axis, and what changes would save them.
//!
//! Input: a [`Navigation`](firstbyte_core::timeline::Navigation) from any source. Output: what `page` shows and stores.
//! Nothing here measures or prints.
#![forbid(unsafe_code)]

pub mod document;
pub mod page_load;
pub mod page_savings;
