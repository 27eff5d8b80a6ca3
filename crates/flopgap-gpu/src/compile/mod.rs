//! Compiles CUDA C to machine code at run time, without a GPU.

mod cache;

pub use cache::Cache;

use std::ffi::{CString, c_int};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use cudarc::nvrtc::{result, sys};

use crate::capability::ComputeCapability;
use crate::library::{Library, LibraryError, probe};
use flopgap_files::{ErrorKind, Hint, Text};

/// A machine language of GPUs: `sm_90`, or `sm_90a` for code that runs on exactly 9.0 and may use
/// its own instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Architecture {
    /// The compute capability.
    pub capability: ComputeCapability,
    /// Whether instructions of exactly this architecture are allowed.
    pub specific: bool,
}

impl From<ComputeCapability> for Architecture {
    fn from(capability: ComputeCapability) -> Self {
        Architecture { capability, specific: false }
    }
}

impl Architecture {
    /// The same, with the instructions of exactly this architecture (`sm_90a`).
    #[must_use]
    pub fn specific(self) -> Self {
        Architecture { specific: true, ..self }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ComputeCapability { major, minor } = self.capability;
        write!(f, "sm_{major}{minor}{}", if self.specific { "a" } else { "" })
    }
}

impl FromStr for Architecture {
    type Err = CompileError;

    fn from_str(text: &str) -> Result<Self, CompileError> {
        let invalid = || CompileError::Architecture { text: text.to_owned() };
        let digits = text.strip_prefix("sm_").ok_or_else(invalid)?;
        let (digits, specific) = digits.strip_suffix('a').map_or((digits, false), |digits| (digits, true));
        let number: u32 = digits.parse().map_err(|_| invalid())?;
        if !(10..10_000).contains(&number) {
            return Err(invalid());
        }
        let capability = ComputeCapability { major: number / 10, minor: number % 10 };
        Ok(Architecture { capability, specific })
    }
}

/// Machine code for one architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    image: Vec<u8>,
    log: String,
    cached: bool,
}

impl Binary {
    /// The code: an ELF file, which [`Context::load`](crate::Context::load) takes.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// The compiler's output: warnings, and with the option `--ptxas-options=-v` registers and
    /// spills of every kernel. NVRTC 13.0 leaves these out once the process works on a GPU.
    pub fn log(&self) -> &str {
        &self.log
    }

    /// Whether it was taken from the cache.
    pub fn is_cached(&self) -> bool {
        self.cached
    }
}

/// An error of compiling source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// NVRTC is missing or too old.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The compiler found errors.
    #[error("{name}: does not compile for {architecture}:\n{log}")]
    Source {
        /// The name of the source.
        name: String,
        /// The architecture.
        architecture: Architecture,
        /// The compiler's log, with `name(line): error: ...`.
        log: String,
    },
    /// This NVRTC does not know the architecture.
    #[error("NVRTC {}.{} does not compile for {architecture}: it knows {}", version.0, version.1, list(known))]
    UnknownArchitecture {
        /// The requested architecture.
        architecture: Architecture,
        /// The version of NVRTC.
        version: (u32, u32),
        /// The supported architectures.
        known: Vec<Architecture>,
    },
    /// Text that names no architecture.
    #[error("{text:?} names no architecture of a GPU: expected sm_90 or sm_90a")]
    Architecture {
        /// The text.
        text: String,
    },
    /// Source, name or an option holds a zero byte.
    #[error("{name}: {what} holds a zero byte")]
    ZeroByte {
        /// The name of the source.
        name: String,
        /// Where the zero byte is.
        what: &'static str,
    },
    /// NVRTC failed for a reason that is not in the source.
    #[error("{name}: NVRTC failed: {code}")]
    Nvrtc {
        /// The name of the source.
        name: String,
        /// NVRTC's name for the error.
        code: String,
    },
}

impl Hint for CompileError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            CompileError::Library(error) => error.hint(),
            CompileError::UnknownArchitecture { .. } => {
                Some("install the NVRTC of a CUDA version that supports this GPU".into())
            }
            _ => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            CompileError::Library(_) | CompileError::UnknownArchitecture { .. } => ErrorKind::Absent,
            CompileError::Architecture { .. } => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        }
    }
}

fn list(architectures: &[Architecture]) -> String {
    architectures.iter().map(Architecture::to_string).collect::<Vec<_>>().join(", ")
}

/// NVRTC with a cache on disk.
///
/// ```no_run
/// use flopgap_gpu::compile::Compiler;
///
/// let compiler = Compiler::new()?;
/// let source = r#"extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2.0f; }"#;
/// let binary = compiler.compile("twice.cu", source, "sm_90".parse()?, &["--ptxas-options=-v"])?;
/// println!("{} bytes{}", binary.image().len(), if binary.is_cached() { ", cached" } else { "" });
/// # Ok::<(), flopgap_gpu::compile::CompileError>(())
/// ```
#[derive(Debug)]
pub struct Compiler {
    version: (u32, u32),
    path: PathBuf,
    architectures: Vec<Architecture>,
    cache: Option<Cache>,
}

impl Compiler {
    /// The NVRTC of this machine, with the user's cache ([`Cache::of_user`]).
    ///
    /// # Errors
    /// When NVRTC is missing.
    pub fn new() -> Result<Self, CompileError> {
        Ok(Self::without_cache()?.with_cache(Cache::of_user()))
    }

    /// The NVRTC of this machine, without a cache: it compiles every time.
    ///
    /// # Errors
    /// When NVRTC is missing.
    pub fn without_cache() -> Result<Self, CompileError> {
        let loaded = probe(Library::Nvrtc)?;
        // The functions below that came last: `cudarc` would panic where one is missing.
        for symbol in ["nvrtcGetCUBIN", "nvrtcGetSupportedArchs", "nvrtcGetNumSupportedArchs"] {
            if !loaded.has(symbol) {
                let path = loaded.path().to_owned();
                return Err(LibraryError::Symbol { library: Library::Nvrtc, path, symbol }.into());
            }
        }
        let failed = |error: result::NvrtcError| CompileError::Nvrtc {
            name: loaded.path().display().to_string(),
            code: error.to_string(),
        };
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: the pointers are valid for the calls.
        unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result().map_err(failed)?;
        // SAFETY: as above.
        unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }.result().map_err(failed)?;
        let mut numbers: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the array has as many elements as the call before said.
        unsafe { sys::nvrtcGetSupportedArchs(numbers.as_mut_ptr()) }.result().map_err(failed)?;
        let unsigned = |value: c_int| u32::try_from(value).unwrap_or(0);
        let capability = |number: u32| ComputeCapability { major: number / 10, minor: number % 10 };
        let architectures = numbers.into_iter().map(|number| capability(unsigned(number)).into()).collect();
        Ok(Compiler {
            version: (unsigned(major), unsigned(minor)),
            path: loaded.path().to_owned(),
            architectures,
            cache: None,
        })
    }

    /// With this cache, or none.
    #[must_use]
    pub fn with_cache(mut self, cache: Option<Cache>) -> Self {
        self.cache = cache;
        self
    }

    /// The version of NVRTC: `(13, 0)`.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The library: a full path, or the bare name where the system's loader found it.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The architectures that this NVRTC supports, oldest first.
    pub fn architectures(&self) -> &[Architecture] {
        &self.architectures
    }

    /// Compiles `source`, CUDA C without host code. `name` is how the log calls it.
    ///
    /// The result is taken from the cache if the same source was compiled before with the same
    /// options, for the same architecture, by the same version of NVRTC. A cache that cannot be
    /// written, or a damaged entry, costs time and is no error.
    ///
    /// # Errors
    /// [`CompileError::Source`] with the compiler's log; [`CompileError::UnknownArchitecture`].
    pub fn compile(
        &self,
        name: &str,
        source: &str,
        architecture: Architecture,
        options: &[&str],
    ) -> Result<Binary, CompileError> {
        if !self.architectures.contains(&architecture.capability.into()) {
            return Err(CompileError::UnknownArchitecture {
                architecture,
                version: self.version,
                known: self.architectures.clone(),
            });
        }
        let key = cache::key(name, source, architecture, options, self.version);
        if let Some((image, log)) = self.cache.as_ref().and_then(|cache| cache.get(&key)) {
            return Ok(Binary { image, log, cached: true });
        }
        let (image, log) = run_nvrtc(name, source, architecture, options, self.version)?;
        if let Some(cache) = &self.cache {
            cache.put(&key, &image, &log);
        }
        Ok(Binary { image, log, cached: false })
    }
}

/// A program of NVRTC, destroyed when dropped.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program was created and is destroyed once. Nothing can be done about an error
        // here.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

impl Program {
    fn log(&self) -> String {
        // SAFETY: the program is alive.
        let bytes = unsafe { result::get_program_log(self.0) }.unwrap_or_default();
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte.to_ne_bytes()[0]).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches(['\0', '\n']).to_owned()
    }

    fn image(&self) -> Result<Vec<u8>, result::NvrtcError> {
        let mut size = 0_usize;
        // SAFETY: the program is alive and compiled; the pointer is valid for the call.
        unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut size) }.result()?;
        let mut image = vec![0_u8; size];
        // SAFETY: the array has as many bytes as the call before said.
        unsafe { sys::nvrtcGetCUBIN(self.0, image.as_mut_ptr().cast()) }.result()?;
        Ok(image)
    }
}

/// The first version that keeps what it compiled, and has an option not to.
const KEEPS_RESULTS: (u32, u32) = (12, 9);

fn run_nvrtc(
    name: &str,
    source: &str,
    architecture: Architecture,
    options: &[&str],
    version: (u32, u32),
) -> Result<(Vec<u8>, String), CompileError> {
    let zero_byte = |what| move |_| CompileError::ZeroByte { name: name.to_owned(), what };
    let failed =
        |error: result::NvrtcError| CompileError::Nvrtc { name: name.to_owned(), code: error.to_string() };
    if options.iter().any(|option| option.contains('\0')) {
        return Err(CompileError::ZeroByte { name: name.to_owned(), what: "an option" });
    }
    let c_source = CString::new(source).map_err(zero_byte("the source"))?;
    let c_name = CString::new(name).map_err(zero_byte("the name"))?;
    let program = Program(result::create_program(&c_source, Some(&c_name)).map_err(failed)?);
    let target = format!("--gpu-architecture={architecture}");
    let mut all = vec![target.as_str()];
    if version >= KEEPS_RESULTS {
        // What NVRTC takes from a cache of its own has no log, and with it no registers.
        all.push("--no-cache");
    }
    all.extend_from_slice(options);
    // SAFETY: the program is alive; `c_source` and `c_name` outlive it, as it is dropped before
    // them.
    let compiled = unsafe { result::compile_program(program.0, &all) };
    let log = program.log();
    match compiled {
        Ok(()) => Ok((program.image().map_err(failed)?, log)),
        Err(result::NvrtcError(sys::nvrtcResult::NVRTC_ERROR_COMPILATION)) => {
            Err(CompileError::Source { name: name.to_owned(), architecture, log })
        }
        Err(error) if log.is_empty() => Err(failed(error)),
        Err(error) => Err(CompileError::Nvrtc { name: name.to_owned(), code: format!("{error}: {log}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_read_as_they_are_written() {
        for text in ["sm_75", "sm_90", "sm_90a", "sm_100a", "sm_120"] {
            assert_eq!(text.parse::<Architecture>().unwrap().to_string(), text);
        }
        for text in ["90", "sm_", "sm_a", "sm_9", "sm_90b", "compute_90"] {
            let error = text.parse::<Architecture>().unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
        let hundred: Architecture = "sm_100".parse().unwrap();
        assert_eq!(hundred.capability, ComputeCapability { major: 10, minor: 0 });
    }
}
