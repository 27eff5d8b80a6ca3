//! Products of 32-bit matrices on one thread of the CPU.

/// A matrix in memory, row-major or transposed: element (i, j) is at `i * row + j * column`.
#[derive(Debug)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row: usize,
    column: usize,
}

impl<'a> Matrix<'a> {
    /// A row-major matrix without gaps.
    ///
    /// # Panics
    /// If `data` does not have `rows * columns` numbers.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a matrix has rows * columns elements");
        Matrix { data, rows, columns, row: columns, column: 1 }
    }

    /// The transpose, without copying.
    #[must_use]
    pub fn transposed(self) -> Self {
        Matrix { data: self.data, rows: self.columns, columns: self.rows, row: self.column, column: self.row }
    }
}

/// `c = a * b`, or `c += a * b` if `add`, with `c` row-major.
///
/// # Panics
/// If the inner sizes differ or `c` does not have the size of the product.
pub fn product(c: &mut [f32], a: &Matrix<'_>, b: &Matrix<'_>, add: bool) {
    assert_eq!(a.columns, b.rows, "the inner sizes of a product are equal");
    assert_eq!(c.len(), a.rows * b.columns, "the result of a product has its rows and columns");
    // SAFETY: the three matrices lie within their slices, asserted here and in `Matrix::new`; `c`
    // is borrowed for writing alone. Sizes fit `isize`, as those of slices do.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "small integers are exact")]
    fn products_of_matrices_as_they_are_and_transposed() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 2.0, 1.0, 0.0, 3.0]);
        let mut c = [0.0; 4];
        product(&mut c, &Matrix::new(&a, 2, 3), &Matrix::new(&b, 3, 2), false);
        assert_eq!(c, [5.0, 11.0, 14.0, 23.0]);
        product(&mut c, &Matrix::new(&a, 3, 2).transposed(), &Matrix::new(&b, 3, 2), true);
        assert_eq!(c, [12.0, 29.0, 24.0, 45.0]);
    }
}
