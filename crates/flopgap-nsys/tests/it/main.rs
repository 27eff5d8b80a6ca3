//! The reader and its reports on recorded traces.

mod export;
mod golden;
mod projection;
mod records;
mod robust;
mod support;
