//! Integration tests.

mod compare;
mod estimate;
mod probe;
mod report;
mod support;
mod sweep;
