//! The reader and its reports on recorded traces.

mod attribution;
mod export;
mod filters;
mod golden;
mod projection;
mod recording;
mod records;
mod robust;
mod support;
mod unified;
