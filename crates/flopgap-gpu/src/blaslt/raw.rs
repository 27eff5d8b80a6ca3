//! Objects of cuBLASLt, each destroyed once.

use std::ffi::c_void;

use cudarc::cublaslt::{result, sys};

use crate::error::{During as _, GpuError};

/// A handle of the library on the context that was current.
#[derive(Debug)]
pub(crate) struct Handle(pub(super) sys::cublasLtHandle_t);

// SAFETY: the manual: handles may be used from several threads at a time.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    pub(super) fn new() -> Result<Self, GpuError> {
        result::create_handle().map(Handle).during("create a handle of cuBLASLt")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once. Nothing can be done about an error here.
        let _ = unsafe { result::destroy_handle(self.0) };
    }
}

/// The description of a product.
#[derive(Debug)]
pub(super) struct Description(pub(super) sys::cublasLtMatmulDesc_t);

impl Description {
    pub(super) fn new(compute: sys::cublasComputeType_t, scale: sys::cudaDataType) -> Result<Self, GpuError> {
        result::create_matmul_desc(compute, scale).map(Description).during("describe a product")
    }

    /// Sets an attribute, whose type is `T`.
    ///
    /// # Safety
    /// `T` must be what the manual says for the attribute.
    pub(super) unsafe fn set<T: Copy>(
        &self,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: T,
    ) -> Result<(), GpuError> {
        let pointer: *const c_void = (&raw const value).cast();
        // SAFETY: the description is alive; the library copies the value, whose type is the
        // caller's promise.
        unsafe { result::set_matmul_desc_attribute(self.0, attribute, pointer, size_of::<T>()) }
            .during("describe a product")
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

/// A matrix, column-major as the library sees it.
#[derive(Debug)]
pub(super) struct Layout(pub(super) sys::cublasLtMatrixLayout_t);

impl Layout {
    /// `batch` matrices without gaps.
    pub(super) fn new(
        element: sys::cudaDataType,
        rows: usize,
        columns: usize,
        batch: usize,
    ) -> Result<Self, GpuError> {
        use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
        let signed =
            |value: usize| i64::try_from(value).map_err(|_| GpuError::TooLarge { what: "a matrix", value });
        let layout = result::create_matrix_layout(element, rows as u64, columns as u64, signed(rows)?.max(1))
            .map(Layout)
            .during("describe a matrix")?;
        if batch > 1 {
            let count =
                i32::try_from(batch).map_err(|_| GpuError::TooLarge { what: "a batch", value: batch })?;
            let stride = signed(rows.saturating_mul(columns))?;
            // SAFETY: the manual: the count is an `int32_t`, the stride an `int64_t`.
            unsafe {
                layout.set(Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count)?;
                layout.set(Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride)?;
            }
        }
        Ok(layout)
    }

    /// # Safety
    /// As [`Description::set`].
    unsafe fn set<T: Copy>(
        &self,
        attribute: sys::cublasLtMatrixLayoutAttribute_t,
        value: T,
    ) -> Result<(), GpuError> {
        let pointer: *const c_void = (&raw const value).cast();
        // SAFETY: the layout is alive; the library copies the value, whose type is the caller's
        // promise.
        unsafe { result::set_matrix_layout_attribute(self.0, attribute, pointer, size_of::<T>()) }
            .during("describe a matrix")
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

/// Preferences of the heuristic.
#[derive(Debug)]
pub(super) struct Preference(pub(super) sys::cublasLtMatmulPreference_t);

impl Preference {
    /// The mode `BEST_FIT`, and so many bytes of workspace at most.
    pub(super) fn new(most_workspace: usize) -> Result<Self, GpuError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference =
            result::create_matmul_pref().map(Preference).during("ask cuBLASLt for an algorithm")?;
        let mode = sys::cublasLtMatmulSearch_t::CUBLASLT_SEARCH_BEST_FIT as u32;
        // SAFETY: the manual: the mode is a `uint32_t`, the bytes a `uint64_t`.
        unsafe {
            preference.set(Attribute::CUBLASLT_MATMUL_PREF_SEARCH_MODE, mode)?;
            preference.set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace as u64)?;
        }
        Ok(preference)
    }

    /// # Safety
    /// As [`Description::set`].
    unsafe fn set<T: Copy>(
        &self,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: T,
    ) -> Result<(), GpuError> {
        let pointer: *const c_void = (&raw const value).cast();
        // SAFETY: the preference is alive; the library copies the value, whose type is the caller's
        // promise.
        unsafe { result::set_matmul_pref_attribute(self.0, attribute, pointer, size_of::<T>()) }
            .during("ask cuBLASLt for an algorithm")
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}
