//! The reader and its reports on recorded traces.

mod attribution;
mod export;
mod golden;
mod projection;
mod robust;
mod support;
