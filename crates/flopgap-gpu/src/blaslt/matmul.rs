//! A product with its algorithm.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublaslt::{result, sys};
use sys::cublasLtMatmulDescAttributes_t as Attribute;
use sys::cublasStatus_t as Status;
use sys::cudaDataType_t as Type;

use crate::captured::Kept;
use crate::error::{During as _, GpuError};
use crate::stream::Stream;

use super::choice::Choice;
use super::raw::{Description, Handle, Layout, Preference};
use super::{Activation, Arithmetic, Product};

/// A product whose algorithm is chosen. It may be queued any number of times.
#[derive(Debug)]
pub struct Matmul {
    product: Product,
    /// Locked while a product is queued: the address of the bias is set in it.
    description: Mutex<Description>,
    w: Layout,
    x: Layout,
    y: Layout,
    algorithm: sys::cublasLtMatmulAlgo_t,
    choice: Choice,
    handle: Arc<Handle>,
}

/// The matrices of a product by their addresses on the device; 0 for what it does not have.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// `m x k`, row-major.
    pub x: u64,
    /// `n x k`, row-major.
    pub w: u64,
    /// `n` numbers, where the product has a bias.
    pub bias: u64,
    /// `m x n`, row-major, where the product has a residual.
    pub residual: u64,
    /// The result, `m x n`, row-major.
    pub y: u64,
    /// As many bytes as [`Matmul::workspace`] says.
    pub workspace: u64,
}

/// `CUBLAS_OP_T`.
const TRANSPOSED: i32 = 1;

/// The library's types for an arithmetic: of sums, of factors, of operands, of the result, of the
/// bias.
fn types(arithmetic: Arithmetic) -> (sys::cublasComputeType_t, [Type; 4]) {
    use sys::cublasComputeType_t as Compute;
    let f32 = Type::CUDA_R_32F;
    match arithmetic {
        Arithmetic::Fp32 => (Compute::CUBLAS_COMPUTE_32F_PEDANTIC, [f32; 4]),
        Arithmetic::Tf32 => (Compute::CUBLAS_COMPUTE_32F_FAST_TF32, [f32; 4]),
        Arithmetic::Fp16 => {
            let half = Type::CUDA_R_16F;
            (Compute::CUBLAS_COMPUTE_32F, [f32, half, half, half])
        }
        Arithmetic::Bf16 => {
            let half = Type::CUDA_R_16BF;
            (Compute::CUBLAS_COMPUTE_32F, [f32, half, half, half])
        }
        Arithmetic::Int8 => {
            let byte = Type::CUDA_R_8I;
            (Compute::CUBLAS_COMPUTE_32I, [f32, byte, byte, f32])
        }
        Arithmetic::Int8Sums => {
            let sum = Type::CUDA_R_32I;
            (Compute::CUBLAS_COMPUTE_32I, [sum, Type::CUDA_R_8I, sum, sum])
        }
    }
}

fn epilogue(product: &Product) -> sys::cublasLtEpilogue_t {
    use sys::cublasLtEpilogue_t as Epilogue;
    match (product.activation, product.bias) {
        (Activation::Identity, false) => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
        (Activation::Identity, true) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
        (Activation::Relu, false) => Epilogue::CUBLASLT_EPILOGUE_RELU,
        (Activation::Relu, true) => Epilogue::CUBLASLT_EPILOGUE_RELU_BIAS,
        (Activation::GeluTanh, false) => Epilogue::CUBLASLT_EPILOGUE_GELU,
        (Activation::GeluTanh, true) => Epilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
    }
}

impl Matmul {
    /// Queries the heuristic.
    pub(super) fn choose(
        handle: &Arc<Handle>,
        product: &Product,
        most_workspace: usize,
    ) -> Result<Option<Self>, GpuError> {
        product.lengths()?;
        let plain = !product.bias && !product.residual && product.activation == Activation::Identity;
        #[expect(clippy::float_cmp, reason = "exactly 1 is no factor")]
        if product.arithmetic == Arithmetic::Int8Sums && !(plain && product.alpha == 1.0) {
            return Ok(None);
        }
        let Product { m, n, k, batch, .. } = *product;
        if [m, n, k, batch].contains(&0) {
            return Err(GpuError::Length { what: "a product", needed: 1, found: 0 });
        }
        let (compute, [scale, operand, result, bias]) = types(product.arithmetic);
        let description = Description::new(compute, scale)?;
        // The library's matrices are column-major: ours are their transposes. It computes Yᵀ = W ·
        // Xᵀ, and W it must transpose. SAFETY: the manual: all of these are 32-bit integers.
        unsafe {
            description.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, TRANSPOSED)?;
            description.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(product) as u32)?;
            if product.bias {
                description.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias as i32)?;
            }
        }
        let (w, x) = (Layout::new(operand, k, n, batch)?, Layout::new(operand, k, m, batch)?);
        let y = Layout::new(result, n, m, batch)?;
        let preference = Preference::new(most_workspace)?;
        let Some(found) = heuristic(handle, &description, [&w, &x, &y], &preference)? else {
            return Ok(None);
        };
        Ok(Some(Matmul {
            product: *product,
            description: Mutex::new(description),
            w,
            x,
            y,
            algorithm: found.algo,
            choice: Choice::new(&found),
            handle: handle.clone(),
        }))
    }

    /// The algorithm.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Bytes of workspace that the algorithm needs.
    pub fn workspace(&self) -> usize {
        self.choice.workspace
    }

    /// Queues the product.
    ///
    /// # Errors
    /// What cuBLASLt returns.
    ///
    /// # Safety
    /// The addresses must be those of as many bytes as the product reads or writes there, from a
    /// [`Submission`](crate::Submission) that is alive or in memory that the caller takes care of
    /// until the product has run, and every time that a graph with it has run.
    pub unsafe fn queue_at(&self, stream: &Stream, at: &Addresses) -> Result<(), GpuError> {
        let submission = stream.submission();
        submission.keep(|| Kept::owner(self.handle.clone()))?;
        stream.context().cuda().bind_to_thread().during("use the GPU")?;
        let description = self.description.lock().unwrap_or_else(PoisonError::into_inner);
        if self.product.bias {
            // SAFETY: the manual: a pointer.
            unsafe {
                description.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias as *const c_void)?;
            };
        }
        let floats = [self.product.alpha, if self.product.residual { 1.0 } else { 0.0 }];
        let integers = [1_i32, 0];
        let scalars: [*const c_void; 2] = match self.product.arithmetic {
            Arithmetic::Int8Sums => [(&raw const integers[0]).cast(), (&raw const integers[1]).cast()],
            _ => [(&raw const floats[0]).cast(), (&raw const floats[1]).cast()],
        };
        // Without a residual nothing is read there: its factor is 0.
        let c = if self.product.residual { at.residual } else { at.y };
        // SAFETY: all objects are alive; the scalars are read during the call; the addresses are
        // the caller's promise.
        unsafe {
            result::matmul(
                self.handle.0,
                description.0,
                scalars[0],
                scalars[1],
                at.w as *const c_void,
                self.w.0,
                at.x as *const c_void,
                self.x.0,
                c as *const c_void,
                self.y.0,
                at.y as *mut c_void,
                self.y.0,
                &raw const self.algorithm,
                at.workspace as *mut c_void,
                self.choice.workspace,
                stream.handle().cast(),
            )
        }
        .during("multiply matrices")
    }
}

/// The first algorithm of the heuristic's list, or none.
fn heuristic(
    handle: &Handle,
    description: &Description,
    [w, x, y]: [&Layout; 3],
    preference: &Preference,
) -> Result<Option<sys::cublasLtMatmulHeuristicResult_t>, GpuError> {
    let (mut found, mut count) = (MaybeUninit::zeroed(), 0);
    // SAFETY: all objects are alive; there is room for the one result that is requested.
    let status = unsafe {
        sys::cublasLtMatmulAlgoGetHeuristic(
            handle.0,
            description.0,
            w.0,
            x.0,
            y.0,
            y.0,
            preference.0,
            1,
            found.as_mut_ptr(),
            &raw mut count,
        )
    };
    match status {
        // No kernel exists for these types, sizes or epilogue.
        Status::CUBLAS_STATUS_NOT_SUPPORTED | Status::CUBLAS_STATUS_INVALID_VALUE => return Ok(None),
        status => status.result().during("ask cuBLASLt for an algorithm")?,
    }
    if count < 1 {
        return Ok(None);
    }
    // SAFETY: the library wrote one result.
    let found = unsafe { found.assume_init() };
    Ok((found.state == Status::CUBLAS_STATUS_SUCCESS).then_some(found))
}
