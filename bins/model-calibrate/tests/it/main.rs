//! Integration tests.

mod compare;
mod estimate;
mod flops;
mod language;
mod messages;
mod probe;
mod report;
mod shard;
mod support;
mod sweep;
