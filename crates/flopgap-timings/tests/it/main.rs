//! The answers on recorded traces, against numbers that plain SQL gives.

mod answers;
mod passes;
mod support;
