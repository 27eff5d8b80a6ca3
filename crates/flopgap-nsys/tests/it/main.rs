//! The reader and its reports on recorded traces.

mod altered;
mod attribution;
mod corpus;
mod export;
mod golden;
mod projection;
mod robust;
mod support;
