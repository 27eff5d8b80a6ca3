//! Products of 32-bit matrices on one thread of the CPU.

/// A matrix in memory: the element of row i and column j is at `i * row + j * column`.
#[derive(Debug)]
pub(crate) struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row: usize,
    column: usize,
}

impl<'a> Matrix<'a> {
    /// Row-major, without gaps.
    pub(crate) fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a matrix has rows * columns elements");
        Matrix { data, rows, columns, row: columns, column: 1 }
    }

    /// Rows as columns.
    pub(crate) fn transposed(self) -> Self {
        Matrix { data: self.data, rows: self.columns, columns: self.rows, row: self.column, column: self.row }
    }
}

/// `c = a * b`, or `c += a * b`, with `c` row-major.
pub(crate) fn product(c: &mut [f32], a: &Matrix<'_>, b: &Matrix<'_>, add: bool) {
    assert_eq!(a.columns, b.rows, "the inner sizes of a product are equal");
    assert_eq!(c.len(), a.rows * b.columns, "the result of a product has its rows and columns");
    // SAFETY: the three matrices lie within their slices, asserted here and in `Matrix::new`; `c` is borrowed for writing alone. Sizes
    // fit `isize`, as those of slices do.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            a.columns,
            c.as_mut_ptr(),
            1,
            b.columns.cast_signed(),
            add,
            a.data.as_ptr(),
            a.column.cast_signed(),
            a.row.cast_signed(),
            b.data.as_ptr(),
            b.column.cast_signed(),
            b.row.cast_signed(),
            1.0_f32,
            1.0_f32,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
