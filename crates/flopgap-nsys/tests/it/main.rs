//! The reader and its reports on recorded traces.

mod altered;
mod attribution;
mod corpus;
mod export;
mod filters;
mod golden;
mod projection;
mod records;
mod robust;
mod schema;
mod sqlite;
mod support;
mod types;
mod unified;
