#![doc = include_str!("../../docs/sqlite.md")]

mod create;
mod database;
mod error;
mod find;
mod page;
mod record;
mod rows;
mod schema;
mod varint;
mod visited;
mod walk;

pub use database::Database;
pub use error::{Damage, Error, Fault, Unsupported};
pub use find::PageCache;
pub use record::{Record, Slot, Value};
pub use rows::Rows;
pub use schema::Table;
