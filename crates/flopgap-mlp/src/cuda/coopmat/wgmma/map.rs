//! Maps of matrices for the copy engine.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use flopgap_gpu::GpuError;
use flopgap_gpu::cudarc::driver::sys;

use crate::Precision;

use super::CHUNK;

/// A row-major matrix in global memory, `rows x columns` without gaps, of which boxes of `box_rows
/// x 64` are copied to shared memory, swizzled as `wgmma` wants them.
///
/// # Errors
/// The driver's, for one when the address is no multiple of 16.
pub(super) fn map(
    precision: Precision,
    address: u64,
    rows: usize,
    columns: usize,
    box_rows: usize,
) -> Result<sys::CUtensorMap, GpuError> {
    let element = match precision {
        Precision::Bf16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Precision::F16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Precision::F32 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    };
    let dimensions = [columns as u64, rows as u64];
    let strides = [(columns * precision.bytes()) as u64];
    let side = |value: usize| {
        u32::try_from(value).map_err(|_| GpuError::TooLarge { what: "a box of the copy engine", value })
    };
    let sides = [side(CHUNK)?, side(box_rows)?];
    let steps = [1_u32; 2];
    let mut map = MaybeUninit::<sys::CUtensorMap>::uninit();
    // SAFETY: two dimensions, as the arrays have; the driver writes the map, or says that it has
    // not. It does not read the matrix.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            map.as_mut_ptr(),
            element,
            2,
            address as *mut c_void,
            dimensions.as_ptr(),
            strides.as_ptr(),
            sides.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        .result()?;
        Ok(map.assume_init())
    }
}
