#![cfg_attr(feature = "tables", doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "tables"), doc = "Recognizes what profilers wrote, and opens traces.")]

#[cfg(feature = "tables")]
pub mod answers;
#[cfg(feature = "tables")]
mod bench;
#[cfg(feature = "calibration")]
mod calibration;
#[cfg(feature = "tables")]
mod column;
#[cfg(feature = "tables")]
pub mod csv;
mod decompressed;
#[cfg(feature = "tables")]
mod dictionary;
mod error;
#[cfg(feature = "tables")]
mod finding;
#[cfg(feature = "tables")]
mod held;
#[cfg(feature = "tables")]
mod info;
mod kind;
#[cfg(feature = "tables")]
mod kineto;
#[cfg(feature = "tables")]
mod ncu;
#[cfg(feature = "tables")]
mod nsys;
#[cfg(feature = "parquet")]
pub mod parquet;
#[cfg(feature = "tables")]
mod run;
#[cfg(feature = "tables")]
mod source;
#[cfg(feature = "tables")]
mod table;
mod trace;
#[cfg(feature = "tables")]
mod unified;

pub use error::Error;
#[cfg(feature = "tables")]
pub use info::TableInfo;
pub use kind::Kind;
#[cfg(feature = "tables")]
pub use source::{Source, table_names};
#[cfg(feature = "tables")]
pub use table::Table;
pub use trace::{Export, Trace};

/// The Arrow crates whose types are part of this crate's interface.
#[cfg(feature = "tables")]
pub use {arrow_array, arrow_schema};
