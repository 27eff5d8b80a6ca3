//! The reader and its reports on recorded traces.

mod golden;
mod projection;
mod robust;
mod support;
