//! cuBLAS with pinned arithmetic and workspace.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublas::{CudaBlas, result, sys};

use crate::captured::Kept;
use crate::error::GpuError;
use crate::library::{Library, probe};
use crate::memory::{Buffer, DeviceSlice, DeviceSliceMut};
use crate::stream::{Stream, Submission};

/// How cuBLAS may compute a product of 32-bit floats. None of these uses TF32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fp32 {
    /// `CUBLAS_PEDANTIC_MATH`: 32-bit multiplications and additions, nothing else, on every GPU.
    /// Emulation from smaller types, which newer GPUs can do, is off.
    #[default]
    Pedantic,
    /// `CUBLAS_DEFAULT_MATH`: what `PyTorch` sets where TF32 is not allowed.
    Default,
}

/// A handle of cuBLAS on one stream, with the arithmetic and the workspace set once.
///
/// The workspace is our own buffer, so that a captured graph does not depend on memory that
/// cuBLAS allocates, and that the algorithm (cuBLAS picks it by the workspace, too) is the same in
/// every run.
#[derive(Debug)]
pub struct Blas {
    cuda: Arc<CudaBlas>,
    stream: Stream,
    // Freed after the handle: fields are dropped in this order. Locked while a product is queued: a
    // handle serves one thread at a time.
    workspace: Mutex<Buffer<u8>>,
}

/// The version of this machine's cuBLAS, which is loaded for it: `(13, 0, 2)`. No GPU is needed.
///
/// # Errors
/// When cuBLAS is missing or too old to tell.
pub fn version() -> Result<(u32, u32, u32), GpuError> {
    let library = probe(Library::Cublas)?;
    // SAFETY: the signature of `cublasGetProperty` in `cublas_api.h`; both enums are C enums of int
    // size.
    let get: unsafe extern "C" fn(u32, *mut i32) -> u32 = unsafe { library.symbol("cublasGetProperty")? };
    let part = |property: u32| {
        let mut value = 0;
        // SAFETY: the pointer is valid for the call.
        let status = unsafe { get(property, &raw mut value) };
        match u32::try_from(value) {
            Ok(value) if status == 0 => Ok(value),
            _ => Err(GpuError::Cublas {
                action: "ask cuBLAS for its version",
                status: format!("status {status}"),
            }),
        }
    };
    // MAJOR_VERSION, MINOR_VERSION and PATCH_LEVEL of `library_types.h`.
    Ok((part(0)?, part(1)?, part(2)?))
}

/// A product of column-major matrices: `C = alpha * op(A) * op(B) + beta * C`, with `op(A)` of `m`
/// by `k` and `op(B)` of `k` by `n`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gemm {
    /// Whether `op(A)` is A transposed: A is `k` by `m` then.
    pub transpose_a: bool,
    /// Whether `op(B)` is B transposed: B is `n` by `k` then.
    pub transpose_b: bool,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Length of the inner sums.
    pub k: usize,
    /// Elements from one column of A to the next.
    pub lda: usize,
    /// Elements from one column of B to the next.
    pub ldb: usize,
    /// Elements from one column of C to the next.
    pub ldc: usize,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of what is in C; 0 does not read C.
    pub beta: f32,
}

impl Gemm {
    /// `C = A * B` of matrices without gaps.
    pub fn new(m: usize, n: usize, k: usize) -> Self {
        Gemm {
            transpose_a: false,
            transpose_b: false,
            m,
            n,
            k,
            lda: m,
            ldb: k,
            ldc: m,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// With A transposed, without gaps.
    #[must_use]
    pub fn transpose_a(mut self) -> Self {
        self.transpose_a = true;
        self.lda = self.k;
        self
    }

    /// With B transposed, without gaps.
    #[must_use]
    pub fn transpose_b(mut self) -> Self {
        self.transpose_b = true;
        self.ldb = self.n;
        self
    }

    /// With what is in C multiplied by `beta` and added.
    #[must_use]
    pub fn beta(mut self, beta: f32) -> Self {
        self.beta = beta;
        self
    }

    /// As cuBLAS takes them.
    fn sizes(&self) -> Result<Sizes, GpuError> {
        let size = |value| int("a matrix", value);
        let leading = |value| int("a leading dimension", value);
        Ok(Sizes {
            m: size(self.m)?,
            n: size(self.n)?,
            k: size(self.k)?,
            lda: leading(self.lda)?,
            ldb: leading(self.ldb)?,
            ldc: leading(self.ldc)?,
        })
    }

    /// Elements that A, B and C must have.
    fn lengths(&self) -> Result<[usize; 3], GpuError> {
        let (a_rows, a_columns) = if self.transpose_a { (self.k, self.m) } else { (self.m, self.k) };
        let (b_rows, b_columns) = if self.transpose_b { (self.n, self.k) } else { (self.k, self.n) };
        Ok([
            length("matrix A", a_rows, a_columns, self.lda)?,
            length("matrix B", b_rows, b_columns, self.ldb)?,
            length("matrix C", self.m, self.n, self.ldc)?,
        ])
    }
}

/// The sizes of a [`Gemm`] as cuBLAS takes them.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    m: i32,
    n: i32,
    k: i32,
    lda: i32,
    ldb: i32,
    ldc: i32,
}

/// Elements from the first to the last of a column-major matrix.
fn length(what: &'static str, rows: usize, columns: usize, leading: usize) -> Result<usize, GpuError> {
    if leading < rows.max(1) {
        return Err(GpuError::Length { what, needed: rows.max(1), found: leading });
    }
    if columns == 0 || rows == 0 {
        return Ok(0);
    }
    let before_last = leading.checked_mul(columns - 1);
    before_last.and_then(|before| before.checked_add(rows)).ok_or(GpuError::TooLarge { what, value: columns })
}

fn enough(what: &'static str, needed: usize, found: usize) -> Result<(), GpuError> {
    if found < needed { Err(GpuError::Length { what, needed, found }) } else { Ok(()) }
}

fn enough_for_all(needed: [usize; 3], found: [usize; 3]) -> Result<(), GpuError> {
    let names = ["matrix A", "matrix B", "matrix C"];
    (0..3).try_for_each(|index| enough(names[index], needed[index], found[index]))
}

fn operation(transposed: bool) -> sys::cublasOperation_t {
    if transposed { sys::cublasOperation_t::CUBLAS_OP_T } else { sys::cublasOperation_t::CUBLAS_OP_N }
}

fn int(what: &'static str, value: usize) -> Result<i32, GpuError> {
    i32::try_from(value).map_err(|_| GpuError::TooLarge { what, value })
}

impl Blas {
    /// The workspace that NVIDIA recommends: 32 MiB from Hopper on, 4 MiB before.
    pub fn recommended_workspace(stream: &Stream) -> usize {
        if stream.context().device().compute_capability.major >= 9 { 32 << 20 } else { 4 << 20 }
    }

    /// A handle on `stream`, with this arithmetic and `workspace` bytes.
    ///
    /// # Errors
    /// When cuBLAS is missing, or there is not enough memory for its state and the workspace.
    pub fn new(stream: &Stream, math: Fp32, workspace: usize) -> Result<Self, GpuError> {
        probe(Library::Cublas)?;
        let mut workspace = stream.zeros::<u8>(workspace)?;
        // SAFETY: the stream is not captured with it.
        let cuda = CudaBlas::new(unsafe { stream.cuda() }.clone())
            .map_err(|error| GpuError::cublas("create a handle of cuBLAS", error))?;
        let (address, bytes) = (stream.submission().write(&mut workspace)?, workspace.len());
        // SAFETY: the buffer is `bytes` long and lives as long as the handle; every product enters
        // it again.
        unsafe { sys::cublasSetWorkspace_v2(*cuda.handle(), address as *mut _, bytes) }
            .result()
            .map_err(|error| GpuError::cublas("set the workspace of cuBLAS", error))?;
        let workspace = Mutex::new(workspace);
        let mut blas = Blas { cuda: Arc::new(cuda), stream: stream.clone(), workspace };
        blas.set_math(math)?;
        Ok(blas)
    }

    /// Sets the arithmetic of the products that follow.
    ///
    /// # Errors
    /// When cuBLAS refuses.
    pub fn set_math(&mut self, math: Fp32) -> Result<(), GpuError> {
        let mode = match math {
            Fp32::Pedantic => sys::cublasMath_t::CUBLAS_PEDANTIC_MATH,
            Fp32::Default => sys::cublasMath_t::CUBLAS_DEFAULT_MATH,
        };
        // SAFETY: the handle is alive.
        unsafe { sys::cublasSetMathMode(*self.cuda.handle(), mode) }
            .result()
            .map_err(|error| GpuError::cublas("set the arithmetic of cuBLAS", error))
    }

    /// The version of cuBLAS: `(13, 0, 2)`.
    ///
    /// # Errors
    /// When cuBLAS refuses.
    pub fn version(&self) -> Result<(u32, u32, u32), GpuError> {
        let mut version = 0;
        // SAFETY: the handle is alive, the pointer valid for the call.
        unsafe { sys::cublasGetVersion_v2(*self.cuda.handle(), &raw mut version) }
            .result()
            .map_err(|error| GpuError::cublas("ask cuBLAS for its version", error))?;
        let version = u32::try_from(version).unwrap_or(0);
        // 120805 is 12.8.5, 130002 is 13.0.2.
        Ok((version / 10_000, version / 100 % 100, version % 100))
    }

    /// Queues a product of 32-bit floats. Matrices may be views of buffers.
    ///
    /// # Errors
    /// [`GpuError::Length`] when a matrix does not have the elements that `gemm` says, and what
    /// cuBLAS returns.
    pub fn sgemm(
        &self,
        gemm: &Gemm,
        a: &impl DeviceSlice<f32>,
        b: &impl DeviceSlice<f32>,
        c: &mut impl DeviceSliceMut<f32>,
    ) -> Result<(), GpuError> {
        let sizes = gemm.sizes()?;
        enough_for_all(gemm.lengths()?, [a.len(), b.len(), c.len()])?;
        self.queue("multiply matrices", |submission| {
            let [a, b, c] = [submission.read(a)?, submission.read(b)?, submission.write(c)?];
            // SAFETY: the three matrices lie within their memory, checked above; the scalars are on
            // the host, as a new handle expects them.
            Ok(unsafe {
                result::sgemm(
                    *self.cuda.handle(),
                    operation(gemm.transpose_a),
                    operation(gemm.transpose_b),
                    sizes.m,
                    sizes.n,
                    sizes.k,
                    &raw const gemm.alpha,
                    a as *const f32,
                    sizes.lda,
                    b as *const f32,
                    sizes.ldb,
                    &raw const gemm.beta,
                    c as *mut f32,
                    sizes.ldc,
                )
            })
        })
    }

    /// Queues the work of `call`, which uses the workspace.
    fn queue(
        &self,
        action: &'static str,
        call: impl FnOnce(&Submission<'_>) -> Result<Result<(), result::CublasError>, GpuError>,
    ) -> Result<(), GpuError> {
        let submission = self.stream.submission();
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        submission.write(&mut *workspace)?;
        submission.keep(|| Kept::owner(self.cuda.clone()))?;
        call(&submission)?.map_err(|error| GpuError::cublas(action, error))
    }

    /// The stream on which products are queued.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_plain_and_transposed_matrices() {
        assert_eq!(Gemm::new(2, 3, 5).lengths().unwrap(), [10, 15, 6]);
        assert_eq!(Gemm::new(2, 3, 5).transpose_a().transpose_b().lengths().unwrap(), [10, 15, 6]);
        // A is 2 by 5 with 8 elements from column to column: 4 whole columns and 2 elements of the
        // last.
        assert_eq!(Gemm { lda: 8, ..Gemm::new(2, 3, 5) }.lengths().unwrap()[0], 34);
        assert_eq!(
            Gemm::new(0, 3, 5).lengths().unwrap_err().to_string(),
            "matrix A: expected 1 elements, the buffer has 0"
        );
    }

    #[test]
    fn impossible_shapes_are_refused() {
        assert!(Gemm { lda: 1, ..Gemm::new(2, 3, 5) }.lengths().is_err());
        assert!(Gemm { lda: usize::MAX, ..Gemm::new(2, 3, 5) }.lengths().is_err());
    }
}
