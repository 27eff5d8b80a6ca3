//! ncu's CSV in all its layouts.

mod assembly;
mod cell;
mod chain;
mod header;
mod kind;
mod launch;
mod long;
mod noise;
pub(crate) mod number;
mod nvtx;
mod pending;
mod plain;
mod record;
mod renamed;
mod scan;
mod shape;
mod source;
mod text;
mod wide;

pub(crate) use cell::Decimal;
pub(crate) use source::CsvSource;
