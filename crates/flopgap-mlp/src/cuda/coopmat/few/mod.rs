//! Few samples: not enough for a tile of them to every multiprocessor. The work is cut along the
//! columns, too, into tiles so small that all multiprocessors have one.

mod backward;
mod forward;

pub(super) use backward::backward;
pub(super) use forward::forward;

use super::super::request::Request;
use crate::Precision;

/// Warps of a block.
const WARPS: usize = 8;
const THREADS: u32 = 32 * 8;

/// Samples that tiles and buffers are chosen for.
const NOMINAL_BATCH: usize = 256;

/// A block's product: its rows and columns, and those of a warp. The warps that are left share the
/// inner dimension. As `Product` in `half.cuh` and `single.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tile {
    rows: usize,
    columns: usize,
    warp_rows: usize,
    warp_columns: usize,
    bytes: usize,
}

impl Tile {
    /// 32 or 64 rows and columns, in numbers of this precision.
    fn new(rows: usize, columns: usize, precision: Precision) -> Self {
        let bytes = precision.bytes();
        let (warp_rows, warp_columns) =
            if bytes == 4 || (rows, columns) == (64, 64) { (32, 32) } else { (16, 32) };
        Tile { rows, columns, warp_rows, warp_columns, bytes }
    }

    /// Warps that share the inner dimension.
    fn groups(&self) -> usize {
        WARPS / (self.rows / self.warp_rows * (self.columns / self.warp_columns))
    }

    /// Numbers of the inner dimension that are in shared memory together.
    fn slab(&self) -> usize {
        if self.bytes == 4 { (8 * self.groups()).max(32) } else { (32 * self.groups()).max(64) }
    }

    /// Bytes of a slab of both operands, the left one along the inner dimension or across it, the
    /// right one across it.
    fn stage(&self, left_along: bool) -> usize {
        let (slab, pad) = (self.slab(), if self.bytes == 4 { 0 } else { 8 });
        let along = if self.bytes == 4 { slab + 4 } else { slab + 8 };
        let left = if left_along { self.rows * along } else { slab * (self.rows + pad) };
        self.bytes * (left + slab * (self.columns + pad))
    }

    /// Bytes of shared memory for an inner dimension of this length: all of it and one slab more,
    /// or what fits; and what the warps that share it have found.
    fn shared(&self, left_along: bool, inner: usize, most: usize) -> usize {
        let stage = self.stage(left_along);
        let stages = (inner.div_ceil(self.slab()) + 1).min(most / stage);
        let biases = if self.bytes == 4 { WARPS } else { self.groups() };
        let found = 4 * (self.groups() * self.rows * (self.columns + 8) + biases * self.rows);
        (stages * stage).max(found)
    }

    /// Tiles of so many rows and columns.
    fn count(&self, rows: usize, columns: usize) -> usize {
        rows.div_ceil(self.rows) * columns.div_ceil(self.columns)
    }
}

/// Shared memory that a block takes at most: two blocks to a multiprocessor where there is enough.
fn most_shared(request: &Request<'_>) -> usize {
    request.target.shared_bytes.min(100 * 1024)
}
