//! The answers on recorded traces, against numbers that plain SQL gives.

#![expect(clippy::float_cmp, reason = "means of integers are exact to the last bit")]

mod answers;
mod gate;
mod operators;
mod passes;
mod support;
