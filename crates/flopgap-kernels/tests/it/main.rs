//! Tests of the public interface.

mod demangled;
mod properties;
mod table;
