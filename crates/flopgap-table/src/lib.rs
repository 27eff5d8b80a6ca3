#![doc = include_str!("../README.md")]

pub mod answers;
mod bench;
#[cfg(feature = "calibration")]
mod calibration;
mod column;
pub mod csv;
mod decompressed;
mod dictionary;
mod error;
mod held;
mod info;
mod kind;
mod kineto;
mod ncu;
mod nsys;
#[cfg(feature = "parquet")]
pub mod parquet;
mod run;
mod source;
mod table;
mod unified;

pub use error::Error;
pub use info::TableInfo;
pub use kind::Kind;
pub use source::{Source, Trace, table_names};
pub use table::Table;

/// The Arrow crates whose types are part of this crate's interface.
pub use {arrow_array, arrow_schema};
