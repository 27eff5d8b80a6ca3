//! cuBLAS with pinned arithmetic and workspace.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublas::{CudaBlas, result, sys};

use crate::captured::Kept;
use crate::error::{During as _, GpuError};
use crate::library::{Library, probe};
use crate::memory::{Buffer, DeviceSlice, DeviceSliceMut};
use crate::stream::{Stream, Submission};

/// A handle of cuBLAS on one stream.
///
/// Its arithmetic is `CUBLAS_PEDANTIC_MATH`: 32-bit multiplications and additions, nothing else, on
/// every GPU: no TF32, and no emulation from smaller types, which newer GPUs can do. The workspace
/// is our own buffer, so that a captured graph does not depend on memory that cuBLAS allocates, and
/// that the algorithm (cuBLAS picks it by the workspace, too) is the same in every run.
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

/// A product of column-major matrices without gaps: `C = op(A) * op(B)`, with `op(A)` of `m` by `k`
/// and `op(B)` of `k` by `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl Gemm {
    /// `C = A * B`.
    pub fn new(m: usize, n: usize, k: usize) -> Self {
        Gemm { transpose_a: false, transpose_b: false, m, n, k }
    }

    /// With A transposed.
    #[must_use]
    pub fn transpose_a(self) -> Self {
        Gemm { transpose_a: true, ..self }
    }

    /// With B transposed.
    #[must_use]
    pub fn transpose_b(self) -> Self {
        Gemm { transpose_b: true, ..self }
    }

    /// Elements that A, B and C must have.
    fn lengths(&self) -> Result<[usize; 3], GpuError> {
        let length = |what, rows: usize, columns: usize| {
            rows.checked_mul(columns).ok_or(GpuError::TooLarge { what, value: columns })
        };
        Ok([
            length("matrix A", self.m, self.k)?,
            length("matrix B", self.k, self.n)?,
            length("matrix C", self.m, self.n)?,
        ])
    }
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

fn int(value: usize) -> Result<i32, GpuError> {
    i32::try_from(value).map_err(|_| GpuError::TooLarge { what: "a matrix", value })
}

impl Blas {
    /// The workspace that NVIDIA recommends: 32 MiB from Hopper on, 4 MiB before.
    pub fn recommended_workspace(stream: &Stream) -> usize {
        if stream.context().device().compute_capability.major >= 9 { 32 << 20 } else { 4 << 20 }
    }

    /// A handle on `stream`, with the recommended workspace.
    ///
    /// # Errors
    /// When cuBLAS is missing, or there is not enough memory for its state and the workspace.
    pub fn new(stream: &Stream) -> Result<Self, GpuError> {
        probe(Library::Cublas)?;
        let mut workspace = stream.zeros::<u8>(Self::recommended_workspace(stream))?;
        // SAFETY: the stream is not captured with it.
        let cuda = CudaBlas::new(unsafe { stream.cuda() }.clone()).during("create a handle of cuBLAS")?;
        let (address, bytes) = (stream.submission().write(&mut workspace)?, workspace.len());
        // SAFETY: the buffer is `bytes` long and lives as long as the handle; every product enters
        // it again.
        unsafe { sys::cublasSetWorkspace_v2(*cuda.handle(), address as *mut _, bytes) }
            .result()
            .during("set the workspace of cuBLAS")?;
        // SAFETY: the handle is alive.
        unsafe { sys::cublasSetMathMode(*cuda.handle(), sys::cublasMath_t::CUBLAS_PEDANTIC_MATH) }
            .result()
            .during("set the arithmetic of cuBLAS")?;
        Ok(Blas { cuda: Arc::new(cuda), stream: stream.clone(), workspace: Mutex::new(workspace) })
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
        let (rows, columns, inner) = (int(gemm.m)?, int(gemm.n)?, int(gemm.k)?);
        enough_for_all(gemm.lengths()?, [a.len(), b.len(), c.len()])?;
        let (one, zero) = (1.0_f32, 0.0_f32);
        self.queue("multiply matrices", |submission| {
            let [a, b, c] = [submission.read(a)?, submission.read(b)?, submission.write(c)?];
            // SAFETY: the three matrices lie within their memory, checked above; the scalars are on
            // the host, as a new handle expects them.
            Ok(unsafe {
                result::sgemm(
                    *self.cuda.handle(),
                    operation(gemm.transpose_a),
                    operation(gemm.transpose_b),
                    rows,
                    columns,
                    inner,
                    &raw const one,
                    a as *const f32,
                    if gemm.transpose_a { inner } else { rows },
                    b as *const f32,
                    if gemm.transpose_b { columns } else { inner },
                    &raw const zero,
                    c as *mut f32,
                    rows,
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
        call(&submission)?.during(action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_plain_and_transposed_matrices() {
        assert_eq!(Gemm::new(2, 3, 5).lengths().unwrap(), [10, 15, 6]);
        assert_eq!(Gemm::new(2, 3, 5).transpose_a().transpose_b().lengths().unwrap(), [10, 15, 6]);
        assert!(Gemm::new(usize::MAX, 3, 5).lengths().is_err());
    }
}
