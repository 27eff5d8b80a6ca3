//! Launches that do nothing, by which a profiler over this process separates parts of the work.

use crate::compile::{CompileError, Compiler};
use crate::context::{Context, Kernel};
use crate::error::GpuError;
use crate::launch::{Arguments, Launch};
use crate::stream::Stream;
use flopgap_files::{ErrorKind, Hint, Text};

/// Empty kernels, each with a name of its own.
///
/// A profiler that lists launches, as Nsight Compute does, lists these too, in their place in the
/// queue and with all counts 0. NVTX ranges would do the same, but not every profiler records them.
///
/// ```no_run
/// use flopgap_gpu::{Context, Marks, compile::Compiler};
///
/// let gpu = Context::new(0)?;
/// let marks = Marks::new(&Compiler::new()?, &gpu, &["begin", "end"])?;
/// let stream = gpu.stream()?;
/// marks.launch(&stream, 0)?;
/// // launch kernels here
/// marks.launch(&stream, 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Marks {
    kernels: Vec<Kernel>,
}

/// Why marks could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MarkError {
    /// A name is no identifier of C.
    #[error("{name:?} cannot be the name of a kernel: letters, digits and _ only, and no digit first")]
    Name {
        /// The name.
        name: String,
    },
    /// They could not be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// They could not be loaded.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl Hint for MarkError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            MarkError::Compile(error) => error.hint(),
            MarkError::Gpu(error) => error.hint(),
            MarkError::Name { .. } => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            MarkError::Compile(error) => error.kind(),
            MarkError::Gpu(error) => error.kind(),
            MarkError::Name { .. } => ErrorKind::Usage,
        }
    }
}

impl Marks {
    /// Compiles an empty kernel for each name.
    ///
    /// # Errors
    /// [`MarkError::Name`] for what C does not take, and what compiling and loading return.
    pub fn new(compiler: &Compiler, gpu: &Context, names: &[&str]) -> Result<Self, MarkError> {
        let source = source(names)?;
        let binary = compiler.compile("marks.cu", &source, gpu.device().compute_capability.into(), &[])?;
        let module = gpu.load(&binary)?;
        let kernels = names.iter().map(|name| module.kernel(name)).collect::<Result<_, _>>()?;
        Ok(Marks { kernels })
    }

    /// Queues the mark with this number, counted from 0 in the order of the names.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// # Panics
    /// When there is no mark with this number.
    pub fn launch(&self, stream: &Stream, index: usize) -> Result<(), GpuError> {
        // SAFETY: the kernel takes no arguments and touches no memory.
        unsafe { Launch::new(1, 1).queue(stream, &self.kernels[index], Arguments::default()) }
    }
}

fn source(names: &[&str]) -> Result<String, MarkError> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let kernels = names.iter().map(|&name| {
        if name.starts_with(|c: char| is_word(c) && !c.is_ascii_digit()) && name.chars().all(is_word) {
            Ok(format!("extern \"C\" __global__ void {name}() {{}}\n"))
        } else {
            Err(MarkError::Name { name: name.to_owned() })
        }
    });
    kernels.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_identifiers_are_refused() {
        assert_eq!(source(&["a_1", "_b"]).unwrap().lines().count(), 2);
        for name in ["", "1a", "a b", "a(){} int", "ä"] {
            assert_eq!(source(&["a", name]), Err(MarkError::Name { name: name.to_owned() }));
        }
    }
}
