//! Products of matrices by cuBLASLt: one algorithm, chosen once, with what follows the product in
//! the same kernel.
//!
//! The layout is that of a fully connected layer:
//! `Y[m, n] = activation(X[m, k] · W[n, k]ᵀ + residual[m, n] + bias[n])`, all row-major without
//! gaps, the weights as `PyTorch` stores them. A [`Matmul`] has its algorithm from the library's
//! heuristic (mode `BEST_FIT`, the first result) and says which it is.
//!
//! ```no_run
//! use flopgap_gpu::Context;
//! use flopgap_gpu::blaslt::{Addresses, Arithmetic, BlasLt, Product};
//!
//! let gpu = Context::new(0)?;
//! let stream = gpu.stream()?;
//! let product = Product { bias: true, ..Product::new(Arithmetic::Fp32, 2, 3, 4) };
//! let matmul = BlasLt::new(&gpu)?.matmul(&product, 32 << 20)?.expect("fp32 is always there");
//!
//! let (x, w) = (stream.upload(&[1.0_f32; 2 * 4])?, stream.upload(&[0.5_f32; 3 * 4])?);
//! let (bias, mut y) = (stream.upload(&[1.0_f32, 2.0, 3.0])?, stream.zeros::<f32>(2 * 3)?);
//! let mut workspace = stream.zeros::<u8>(matmul.workspace())?;
//! let memory = stream.submission();
//! let at = Addresses {
//!     x: memory.read(&x)?,
//!     w: memory.read(&w)?,
//!     bias: memory.read(&bias)?,
//!     residual: 0,
//!     y: memory.write(&mut y)?,
//!     workspace: memory.write(&mut workspace)?,
//! };
//! // SAFETY: the arrays have the sizes of the product.
//! unsafe { matmul.queue_at(&stream, &at) }?;
//! drop(memory);
//! assert_eq!(stream.download(&y)?, [3.0, 4.0, 5.0, 3.0, 4.0, 5.0]);
//! # Ok::<(), flopgap_gpu::GpuError>(())
//! ```

mod choice;
mod matmul;
mod raw;

pub use choice::Choice;
pub use matmul::{Addresses, Matmul};

use std::sync::Arc;

use cudarc::cublaslt::sys;

use crate::context::Context;
use crate::error::{During as _, GpuError};
use crate::library::{Library, probe};

pub(crate) use raw::Handle;

/// The arithmetic of a product, and how its operands are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// 32-bit floats with 32-bit multiplications and additions (`COMPUTE_32F_PEDANTIC`): no TF32,
    /// no emulation.
    Fp32,
    /// 32-bit floats, multiplied with 10 bits of mantissa (`COMPUTE_32F_FAST_TF32`).
    Tf32,
    /// Half precision with 32-bit sums.
    Fp16,
    /// bfloat16 with 32-bit sums.
    Bf16,
    /// 8-bit integers with 32-bit sums, scaled by [`Product::alpha`], rounded and saturated to 8
    /// bits. Bias: 32-bit floats.
    Int8,
    /// 8-bit integers; the 32-bit sums are the result, without a scale, a bias, a residual or an
    /// activation.
    Int8Sums,
}

/// Functions that cuBLASLt can apply to the result before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activation {
    /// Nothing.
    #[default]
    Identity,
    /// `max(x, 0)`.
    Relu,
    /// GELU by tanh: `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
    GeluTanh,
}

/// A product: `Y[m, n] = activation(alpha · X[m, k] · W[n, k]ᵀ + residual[m, n] + bias[n])`,
/// `batch` times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    /// The arithmetic.
    pub arithmetic: Arithmetic,
    /// Products with operands of their own, one behind the other in memory.
    pub batch: usize,
    /// Rows of the result: samples.
    pub m: usize,
    /// Columns of the result: outputs.
    pub n: usize,
    /// Length of the inner sums: inputs.
    pub k: usize,
    /// Factor of the product.
    pub alpha: f32,
    /// Whether a bias by column is added, the same for all of the batch.
    pub bias: bool,
    /// Whether a matrix of the result's shape is added.
    pub residual: bool,
    /// The function applied last.
    pub activation: Activation,
}

impl Product {
    /// A plain product.
    pub fn new(arithmetic: Arithmetic, m: usize, n: usize, k: usize) -> Self {
        Product {
            arithmetic,
            batch: 1,
            m,
            n,
            k,
            alpha: 1.0,
            bias: false,
            residual: false,
            activation: Activation::Identity,
        }
    }

    /// Elements of X, W, bias and Y.
    fn lengths(&self) -> Result<[usize; 4], GpuError> {
        let elements = |what, rows: usize, columns: usize| {
            let all = rows.checked_mul(columns).and_then(|one| one.checked_mul(self.batch));
            let too_large = GpuError::TooLarge { what, value: rows.max(columns) };
            // The library takes 32-bit leading dimensions and 64-bit counts of rows; more than this
            // is no matrix.
            all.filter(|&all| isize::try_from(all).is_ok()).ok_or(too_large)
        };
        Ok([
            elements("matrix X", self.m, self.k)?,
            elements("matrix W", self.n, self.k)?,
            self.n,
            elements("matrix Y", self.m, self.n)?,
        ])
    }
}

/// cuBLASLt on one device.
#[derive(Debug, Clone)]
pub struct BlasLt {
    handle: Arc<Handle>,
    context: Context,
}

/// The version of this machine's cuBLASLt, which is loaded for it: `(13, 0, 2)`. No GPU is needed.
///
/// # Errors
/// When cuBLASLt is missing.
pub fn version() -> Result<(usize, usize, usize), GpuError> {
    probe(Library::CublasLt)?;
    // SAFETY: the library is loaded; the function takes nothing.
    let version = unsafe { sys::cublasLtGetVersion() };
    // 120805 is 12.8.5, 130002 is 13.0.2.
    Ok((version / 10_000, version / 100 % 100, version % 100))
}

impl BlasLt {
    /// A handle on this device.
    ///
    /// # Errors
    /// When cuBLASLt is missing or refuses.
    pub fn new(context: &Context) -> Result<Self, GpuError> {
        let library = probe(Library::CublasLt)?;
        // `cudarc` would panic where one is missing.
        for symbol in ["cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulAlgoConfigGetAttribute"] {
            if !library.has(symbol) {
                let (library, path) = (Library::CublasLt, library.path().to_owned());
                return Err(crate::library::LibraryError::Symbol { library, path, symbol }.into());
            }
        }
        context.cuda().bind_to_thread().during("use the GPU")?;
        Ok(BlasLt { handle: Arc::new(Handle::new()?), context: context.clone() })
    }

    /// Chooses the algorithm of a product that may use so many bytes of workspace. `None` where
    /// cuBLASLt has none: 8-bit integers whose sizes are no multiples of 4, or with a bias or an
    /// activation that this version does not fuse.
    ///
    /// # Errors
    /// [`GpuError::TooLarge`]; what cuBLASLt returns.
    pub fn matmul(&self, product: &Product, most_workspace: usize) -> Result<Option<Matmul>, GpuError> {
        self.context.cuda().bind_to_thread().during("use the GPU")?;
        Matmul::choose(&self.handle, product, most_workspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_every_product_of_a_batch() {
        let product = Product { batch: 3, ..Product::new(Arithmetic::Fp16, 2, 5, 7) };
        assert_eq!(product.lengths(), Ok([3 * 14, 3 * 35, 5, 3 * 10]));
        let product = Product::new(Arithmetic::Fp16, usize::MAX / 2, 1, 3);
        assert!(matches!(product.lengths(), Err(GpuError::TooLarge { what: "matrix X", .. })));
    }
}
