//! The smallest call of an engine, used where it has no empty call.

use flopgap_graph::op::{Elementwise, ElementwiseFunction};
use flopgap_graph::{Epilogue, Op, Step};

/// The absolute value of one number.
pub(crate) fn smallest() -> Step {
    let op = Op::Elementwise(Elementwise { function: ElementwiseFunction::Simple, elements: 1, read: 1 });
    Step { op, epilogue: Epilogue::default() }
}
