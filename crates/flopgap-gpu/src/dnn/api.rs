//! The functions of cuDNN that this crate calls.
//!
//! They are looked up one by one, with plain numbers for the library's enumerations: a newer cuDNN
//! returns values that the enumerations of the bindings do not have, and a function that an older
//! one lacks is an error that names it.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::error::GpuError;
use crate::library::{Library, LibraryError, Loaded, probe};

/// `cudnnStatus_t`: 0 is success.
pub(super) type Status = u32;
/// `cudnnHandle_t`, a backend descriptor, or another opaque object of the library.
pub(super) type Object = *mut c_void;

/// The functions, with the signatures of `cudnn_graph.h` and `cudnn_ops.h` of cuDNN 9.
pub(super) struct Api {
    pub(super) version: unsafe extern "C" fn() -> usize,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    last_error: unsafe extern "C" fn(*mut c_char, usize),
    pub(super) create: unsafe extern "C" fn(*mut Object) -> Status,
    pub(super) destroy: unsafe extern "C" fn(Object) -> Status,
    pub(super) set_stream: unsafe extern "C" fn(Object, *mut c_void) -> Status,
    pub(super) create_descriptor: unsafe extern "C" fn(u32, *mut Object) -> Status,
    pub(super) destroy_descriptor: unsafe extern "C" fn(Object) -> Status,
    pub(super) set_attribute: unsafe extern "C" fn(Object, u32, u32, i64, *const c_void) -> Status,
    pub(super) get_attribute: unsafe extern "C" fn(Object, u32, u32, i64, *mut i64, *mut c_void) -> Status,
    pub(super) finalize: unsafe extern "C" fn(Object) -> Status,
    pub(super) execute: unsafe extern "C" fn(Object, Object, Object) -> Status,
    pub(super) create_tensor: unsafe extern "C" fn(*mut Object) -> Status,
    pub(super) destroy_tensor: unsafe extern "C" fn(Object) -> Status,
    pub(super) set_tensor: unsafe extern "C" fn(Object, u32, c_int, *const c_int, *const c_int) -> Status,
    pub(super) create_pooling: unsafe extern "C" fn(*mut Object) -> Status,
    pub(super) destroy_pooling: unsafe extern "C" fn(Object) -> Status,
    pub(super) set_pooling:
        unsafe extern "C" fn(Object, u32, u32, c_int, *const c_int, *const c_int, *const c_int) -> Status,
    pub(super) pooling_forward: unsafe extern "C" fn(
        Object,
        Object,
        *const c_void,
        Object,
        *const c_void,
        *const c_void,
        Object,
        *mut c_void,
    ) -> Status,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Api")
    }
}

/// The functions of the library that is loaded: one for the process.
static API: OnceLock<Api> = OnceLock::new();

impl Api {
    /// Loads cuDNN and what it calls, or says what is missing.
    ///
    /// # Errors
    /// [`GpuError::Library`].
    pub(super) fn load() -> Result<&'static Api, GpuError> {
        if let Some(api) = API.get() {
            return Ok(api);
        }
        // cuDNN opens cuBLASLt by its name, and ends the process where that is not found.
        probe(Library::CublasLt)?;
        // It opens the compiler in the same way, for kernels that it writes itself; without it,
        // cuDNN has the others.
        let _ = probe(Library::Nvrtc);
        let api = Api::new(probe(Library::Cudnn)?)?;
        Ok(API.get_or_init(|| api))
    }

    fn new(library: &Loaded) -> Result<Api, LibraryError> {
        // SAFETY: the types of the fields are the signatures of these functions; enumerations and
        // `int` have 4 bytes.
        unsafe {
            Ok(Api {
                version: library.symbol("cudnnGetVersion")?,
                error_string: library.symbol("cudnnGetErrorString")?,
                // Came with cuDNN 9: where it is missing, the library is too old.
                last_error: library.symbol("cudnnGetLastErrorString")?,
                create: library.symbol("cudnnCreate")?,
                destroy: library.symbol("cudnnDestroy")?,
                set_stream: library.symbol("cudnnSetStream")?,
                create_descriptor: library.symbol("cudnnBackendCreateDescriptor")?,
                destroy_descriptor: library.symbol("cudnnBackendDestroyDescriptor")?,
                set_attribute: library.symbol("cudnnBackendSetAttribute")?,
                get_attribute: library.symbol("cudnnBackendGetAttribute")?,
                finalize: library.symbol("cudnnBackendFinalize")?,
                execute: library.symbol("cudnnBackendExecute")?,
                create_tensor: library.symbol("cudnnCreateTensorDescriptor")?,
                destroy_tensor: library.symbol("cudnnDestroyTensorDescriptor")?,
                set_tensor: library.symbol("cudnnSetTensorNdDescriptor")?,
                create_pooling: library.symbol("cudnnCreatePoolingDescriptor")?,
                destroy_pooling: library.symbol("cudnnDestroyPoolingDescriptor")?,
                set_pooling: library.symbol("cudnnSetPoolingNdDescriptor")?,
                pooling_forward: library.symbol("cudnnPoolingForward")?,
            })
        }
    }

    /// An error that says what was attempted, unless the call succeeded.
    pub(super) fn check(&self, action: &'static str, status: Status) -> Result<(), GpuError> {
        if status == 0 { Ok(()) } else { Err(GpuError::Cudnn { action, status: self.describe(status) }) }
    }

    /// The library's name for the status and what it wrote about the last error of this thread.
    fn describe(&self, status: Status) -> String {
        // SAFETY: the library returns null or a constant string.
        let name = unsafe { crate::device::copy_c_string((self.error_string)(status)) };
        let name = name.unwrap_or_else(|| format!("status {status}"));
        let mut text = [0_u8; 4096];
        // SAFETY: at most so many bytes are written, a zero byte at the end.
        unsafe { (self.last_error)(text.as_mut_ptr().cast(), text.len()) };
        let length = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        match reason(&String::from_utf8_lossy(&text[..length])) {
            "" => name,
            details => format!("{name}: {details}"),
        }
    }
}

/// What cuDNN says of an error, in a line. It writes a trail of the conditions that were not met,
/// the first cause first, behind JSON of what it tried before; where several attempts left one, the
/// last counts.
fn reason(text: &str) -> &str {
    let attempt = text.rsplit("\n\n").find(|attempt| !attempt.trim().is_empty()).unwrap_or_default();
    let line = attempt.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('{'));
    let line = line.unwrap_or_default();
    line.rsplit_once("Reason: ").map_or(line, |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn errors_of_cudnn_take_one_line() {
        assert_eq!(reason(""), "");
        assert_eq!(reason("  no device \n"), "no device");
        let trail = "{\"engineId\":2}\n  Warning: CUDNN_STATUS_NOT_SUPPORTED_SHAPE; Reason: !is_aligned\n  Warning: \
                     CUDNN_STATUS_NOT_SUPPORTED; Reason: check_for_support()\n";
        assert_eq!(reason(trail), "!is_aligned");
        assert_eq!(
            reason(&format!("{trail}\n\n  {{\"engineId\":4}}\n  Warning: A; Reason: too many\n")),
            "too many"
        );
    }
}
