//! The functions of CUPTI, of the copy that the program has loaded or else of the one that the
//! environment names.

use std::ffi::{CStr, c_char, c_void};
use std::{env, fs};

use super::c::Loaded;
use super::format::variable;

/// What functions of CUPTI return; 0 is success.
pub(super) type Code = u32;
pub(super) const SUCCESS: Code = 0;
/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
pub(super) const SUBSCRIBED: Code = 39;
/// The domain of callbacks of the driver API.
pub(super) const DRIVER: u32 = 1;

pub(super) type Requested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub(super) type Completed = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
pub(super) type Callback = extern "C" fn(*mut c_void, u32, u32, *const c_void);

/// The functions, with the types of CUDA 12.4 and newer.
#[allow(clippy::type_complexity)]
pub(super) struct Cupti {
    pub(super) library: Loaded,
    pub(super) version: unsafe extern "C" fn(*mut u32) -> Code,
    pub(super) result: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
    pub(super) subscribe: unsafe extern "C" fn(*mut *mut c_void, Callback, *mut c_void) -> Code,
    pub(super) unsubscribe: unsafe extern "C" fn(*mut c_void) -> Code,
    pub(super) enable_callback: unsafe extern "C" fn(u32, *mut c_void, u32, u32) -> Code,
    pub(super) callback_name: unsafe extern "C" fn(u32, u32, *mut *const c_char) -> Code,
    pub(super) register: unsafe extern "C" fn(Requested, Completed) -> Code,
    pub(super) enable: unsafe extern "C" fn(u32) -> Code,
    pub(super) disable: unsafe extern "C" fn(u32) -> Code,
    pub(super) flush: unsafe extern "C" fn(u32) -> Code,
    pub(super) next: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> Code,
    pub(super) dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> Code,
    pub(super) attribute: unsafe extern "C" fn(u32, *mut usize, *mut c_void) -> Code,
    pub(super) thread_id_type: unsafe extern "C" fn(u32) -> Code,
    pub(super) node_id: unsafe extern "C" fn(*mut c_void, *mut u64) -> Code,
    graph_id: Option<unsafe extern "C" fn(*mut c_void, *mut u32) -> Code>,
    /// Switch records of one function, of newer versions than 12.4.
    pub(super) runtime_api: Option<unsafe extern "C" fn(u32, u8) -> Code>,
    pub(super) driver_api: Option<unsafe extern "C" fn(u32, u8) -> Code>,
}

impl Cupti {
    /// The functions, or why they cannot be called.
    pub(super) fn find() -> Result<Cupti, String> {
        let library = loaded().or_else(|| Loaded::open(&env::var(variable::CUPTI).ok()?, false));
        let library = library.or_else(|| Loaded::open("libcupti.so", false));
        let library = library.ok_or("CUPTI is not installed: libcupti.so was not found")?;
        Cupti::look_up(library).map_err(|missing| format!("CUPTI is older than CUDA 12: it has no {missing}"))
    }

    fn look_up(library: Loaded) -> Result<Cupti, String> {
        // SAFETY: each function has the type that `cupti_*.h` gives it, with enums as the integers
        // that they are in C; pointers to functions and to data have the same size on Linux.
        unsafe {
            Ok(Cupti {
                library,
                version: wanted(library, c"cuptiGetVersion")?,
                result: wanted(library, c"cuptiGetResultString")?,
                subscribe: wanted(library, c"cuptiSubscribe")?,
                unsubscribe: wanted(library, c"cuptiUnsubscribe")?,
                enable_callback: wanted(library, c"cuptiEnableCallback")?,
                callback_name: wanted(library, c"cuptiGetCallbackName")?,
                register: wanted(library, c"cuptiActivityRegisterCallbacks")?,
                enable: wanted(library, c"cuptiActivityEnable")?,
                disable: wanted(library, c"cuptiActivityDisable")?,
                flush: wanted(library, c"cuptiActivityFlushAll")?,
                next: wanted(library, c"cuptiActivityGetNextRecord")?,
                dropped: wanted(library, c"cuptiActivityGetNumDroppedRecords")?,
                attribute: wanted(library, c"cuptiActivitySetAttribute")?,
                thread_id_type: wanted(library, c"cuptiSetThreadIdType")?,
                node_id: wanted(library, c"cuptiGetGraphNodeId")?,
                graph_id: library.function(c"cuptiGetGraphExecId"),
                runtime_api: library.function(c"cuptiActivityEnableRuntimeApi"),
                driver_api: library.function(c"cuptiActivityEnableDriverApi"),
            })
        }
    }

    /// What a result means.
    pub(super) fn explain(&self, code: Code) -> String {
        let mut text = std::ptr::null();
        // SAFETY: the pointer is valid for the call; the text is a constant of CUPTI.
        let known = unsafe { (self.result)(code, &raw mut text) } == SUCCESS && !text.is_null();
        // SAFETY: as above.
        let text = known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        text.unwrap_or_else(|| format!("error {code} of CUPTI"))
    }

    /// The number of a graph that is launched, 0 where CUPTI does not say it.
    pub(super) fn graph(&self, executable: *mut c_void) -> u32 {
        let mut number = 0;
        if let Some(graph_id) = self.graph_id {
            // SAFETY: a graph that a launch was called with; the pointer is valid for the call.
            let _: Code = unsafe { graph_id(executable, &raw mut number) };
        }
        number
    }

    /// The name of a function of an API: `cudaLaunchKernel_v7000`.
    pub(super) fn function(&self, domain: u32, number: u32) -> Option<&'static CStr> {
        let mut name = std::ptr::null();
        // SAFETY: the pointer is valid for the call; the name is a constant of CUPTI.
        let code = unsafe { (self.callback_name)(domain, number, &raw mut name) };
        // SAFETY: as above.
        (code == SUCCESS && !name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
    }
}

/// A function that cannot be missing, or its name.
///
/// # Safety
/// As [`Loaded::function`].
pub(super) unsafe fn wanted<F: Copy>(library: Loaded, name: &CStr) -> Result<F, String> {
    // SAFETY: as the caller says.
    unsafe { library.function(name) }.ok_or_else(|| name.to_string_lossy().into_owned())
}

/// The CUPTI that the program has loaded (`PyTorch` links one): a second copy would not work.
fn loaded() -> Option<Loaded> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().filter_map(|line| line.split_once('/')).map(|(_, path)| format!("/{path}"));
    let mut libraries =
        path.filter(|path| path.rsplit('/').next().is_some_and(|it| it.starts_with("libcupti.so")));
    Loaded::open(&libraries.next()?, true)
}
