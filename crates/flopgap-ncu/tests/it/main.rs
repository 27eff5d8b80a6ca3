//! Tests on recorded reports.

mod corpus;
mod encodings;
mod endings;
mod evidence;
mod flops;
mod layouts;
mod locales;
mod naive;
mod nvtx;
mod robust;
mod support;
mod truncated;
