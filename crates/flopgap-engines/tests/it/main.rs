//! What engines compute and measure.

mod native;
