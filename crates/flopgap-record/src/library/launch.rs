//! What a callback of CUPTI says about a launch.

use std::ffi::{CStr, c_char, c_void};

/// `CUpti_CallbackData`.
#[repr(C)]
pub(super) struct Call {
    site: u32,
    _function: *const c_char,
    parameters: *const c_void,
    result: *const u32,
    symbol: *const c_char,
    pub(super) context: *mut c_void,
    _context_number: u32,
    /// A word that CUPTI keeps from the beginning of a call to its end.
    pub(super) word: *mut u64,
    _correlation: u32,
}

/// The functions of the driver that are followed, by their numbers in CUPTI. Each also has a form
/// for programs that are compiled for a default stream per thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Kernel,
    KernelEx,
    Cooperative,
    Graph,
    BeginCapture,
    EndCapture,
}

pub(super) const FOLLOWED: [(u32, Function); 18] = [
    (307, Function::Kernel),
    (442, Function::Kernel),
    (652, Function::KernelEx),
    (653, Function::KernelEx),
    (477, Function::Cooperative),
    (478, Function::Cooperative),
    (514, Function::Graph),
    (515, Function::Graph),
    (495, Function::BeginCapture),
    (496, Function::BeginCapture),
    (539, Function::BeginCapture),
    (540, Function::BeginCapture),
    (720, Function::BeginCapture),
    (721, Function::BeginCapture),
    (783, Function::BeginCapture),
    (814, Function::BeginCapture),
    (497, Function::EndCapture),
    (498, Function::EndCapture),
];

/// A kernel with its sizes, or a graph.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Kernel {
        name: Vec<u8>,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
    },
    /// By the number that CUPTI gives it.
    Graph(u32),
}

/// A launch.
pub(super) struct Launch {
    pub(super) work: Work,
    pub(super) stream: usize,
}

/// `cuLaunchKernel_params` and `cuLaunchCooperativeKernel_params`, as far as they are read.
#[repr(C)]
struct Kernel {
    _function: *const c_void,
    shape: Shape,
}

/// Also the beginning of `CUlaunchConfig`.
#[repr(C)]
struct Shape {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: *const c_void,
}

/// `cuGraphLaunch_params`.
#[repr(C)]
struct Graph {
    executable: *mut c_void,
    stream: *const c_void,
}

/// The legacy default stream under its own name, which is also called null.
const LEGACY: usize = 1;

impl Call {
    pub(super) fn begins(&self) -> bool {
        self.site == 0
    }

    /// Whether the function, which has returned, did what it was asked to.
    pub(super) fn succeeded(&self) -> bool {
        // SAFETY: null, or the function's result.
        unsafe { self.result.as_ref() }.is_some_and(|&result| result == 0)
    }

    /// What is launched. `graph` gives the number of a graph.
    ///
    /// # Safety
    /// CUPTI passed this for this function.
    pub(super) unsafe fn launch(
        &self,
        function: Function,
        graph: impl FnOnce(*mut c_void) -> u32,
    ) -> Option<Launch> {
        // SAFETY: the parameters of the function, as `generated_cuda_meta.h` defines them; the
        // name is null or a C string.
        unsafe {
            let shape = match function {
                Function::Kernel | Function::Cooperative => &self.parameters.cast::<Kernel>().as_ref()?.shape,
                Function::KernelEx => self.parameters.cast::<*const Shape>().as_ref()?.as_ref()?,
                Function::Graph => {
                    let Graph { executable, stream } = self.parameters.cast::<Graph>().as_ref()?;
                    return Some(Launch { work: Work::Graph(graph(*executable)), stream: number(*stream) });
                }
                Function::BeginCapture | Function::EndCapture => return None,
            };
            let name = if self.symbol.is_null() { &[][..] } else { CStr::from_ptr(self.symbol).to_bytes() };
            let Shape { grid, block, shared, stream } = *shape;
            let work = Work::Kernel { name: name.to_vec(), grid, block, shared };
            Some(Launch { work, stream: number(stream) })
        }
    }
}

fn number(stream: *const c_void) -> usize {
    if stream.addr() == LEGACY { 0 } else { stream.addr() }
}

impl Work {
    /// Kernels that wait for others, on this GPU or elsewhere, are never made to run alone.
    pub(super) fn runs_alone(&self) -> bool {
        let Work::Kernel { name, .. } = self else { return true };
        let has = |word: &[u8]| name.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
        !name.is_empty() && !has(b"nccl") && !has(b"nvshmem")
    }
}
