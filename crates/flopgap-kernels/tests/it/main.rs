//! Tests of the public interface.

mod properties;
mod table;
