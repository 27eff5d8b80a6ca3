//! What a sweep measures: a grid of networks, and steps drawn over all sizes.
//!
//! Everything is drawn from a seed by integer arithmetic: the same request gives the same points on
//! every machine, in the same order, and a test holds that. Points come in no order of size, so
//! that a sweep that is cut off has covered everything a little.

mod conv;
mod gemm;
mod memory;
mod mlp;
mod plan;
mod random;
mod request;
mod samples;
mod scenario;

pub use plan::{Plan, PlanError, Point, Refusal, choose, plan};
pub use request::{Family, Request, SEED, Size, Target};
pub(crate) use scenario::working_set;
pub use scenario::{Caches, NoSuchLevel, Scenario};
