//! The libraries of CUDA: found and loaded before the first call, or an error that says what was
//! searched.
//!
//! Nothing of CUDA is linked. A library is looked for by name, as the system's loader does
//! (`LD_LIBRARY_PATH`, `ldconfig`), and then in the places where CUDA lies without the loader's
//! knowledge (see [`search_folders`]); it is loaded with its full path then. A library that is
//! loaded stays loaded until the process ends. A CUPTI that somebody else in the process has loaded
//! (`PyTorch` does) is used as it is: with two copies of it, the first one hides the GPU from the
//! second.

mod search;

pub use search::{python_packages, search_folders};

use flopgap_files::{ErrorKind, Hint, Text};
use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;

/// A library that this crate calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Library {
    /// The driver, `libcuda`: part of NVIDIA's kernel driver package.
    Driver,
    /// The run-time compiler, `libnvrtc`.
    Nvrtc,
    /// Dense linear algebra, `libcublas`.
    Cublas,
    /// Matrix products with fused epilogues, `libcublasLt`; `libcublas` calls it.
    CublasLt,
    /// Convolutions, `libcudnn`; it calls `libcublasLt` and `libnvrtc`.
    Cudnn,
    /// Counters, `libcupti`.
    Cupti,
    /// The metric definitions that CUPTI reads, `libnvperf_host`.
    NvperfHost,
    /// The counters' hardware side, `libnvperf_target`.
    NvperfTarget,
}

impl Library {
    /// All of them.
    pub const ALL: [Library; 8] = [
        Library::Driver,
        Library::Nvrtc,
        Library::Cublas,
        Library::CublasLt,
        Library::Cudnn,
        Library::Cupti,
        Library::NvperfHost,
        Library::NvperfTarget,
    ];

    /// The name in its file name: `nvrtc` for `libnvrtc.so.13`.
    pub fn stem(self) -> &'static str {
        match self {
            Library::Driver => "cuda",
            Library::Nvrtc => "nvrtc",
            Library::Cublas => "cublas",
            Library::CublasLt => "cublasLt",
            Library::Cudnn => "cudnn",
            Library::Cupti => "cupti",
            Library::NvperfHost => "nvperf_host",
            Library::NvperfTarget => "nvperf_target",
        }
    }

    /// What it is, for a message.
    pub fn title(self) -> &'static str {
        match self {
            Library::Driver => "the NVIDIA driver",
            Library::Nvrtc => "NVRTC (the run-time compiler of CUDA)",
            Library::Cublas => "cuBLAS",
            Library::CublasLt => "cuBLASLt",
            Library::Cudnn => "cuDNN",
            Library::Cupti => "CUPTI (the counters of CUDA)",
            Library::NvperfHost | Library::NvperfTarget => "the performance library of CUPTI",
        }
    }

    /// How to get it.
    pub fn remedy(self) -> &'static str {
        match self {
            Library::Driver => {
                "install NVIDIA's driver; in a container, start it with the GPUs (docker run --gpus all)"
            }
            Library::Nvrtc => {
                "install it with `pip install nvidia-cuda-nvrtc` or the CUDA toolkit (cuda-nvrtc)"
            }
            Library::Cublas | Library::CublasLt => {
                "install it with `pip install nvidia-cublas` or the CUDA toolkit (libcublas)"
            }
            Library::Cudnn => {
                "install version 9 with `pip install nvidia-cudnn-cu13` or from NVIDIA (libcudnn9)"
            }
            Library::Cupti | Library::NvperfHost | Library::NvperfTarget => {
                "install it with `pip install nvidia-cuda-cupti` or the CUDA toolkit (cuda-cupti)"
            }
        }
    }

    /// Whether a process should have one copy of it: CUPTI refuses who comes second, and a second
    /// copy of it does not know of the first. (The others are called through `cudarc`, which looks
    /// for them by itself.)
    fn is_one_of_a_process(self) -> bool {
        matches!(self, Library::Cupti | Library::NvperfHost | Library::NvperfTarget)
    }

    /// Libraries that must be loaded before this one, because it opens them by name from a
    /// directory that the loader does not search.
    fn companions(self) -> &'static [&'static str] {
        match self {
            Library::Nvrtc => &["nvrtc-builtins"],
            Library::Cublas => &["cublasLt"],
            Library::Cupti => &["nvperf_host", "nvperf_target"],
            // cuDNN loads its parts from its own directory.
            Library::Driver
            | Library::CublasLt
            | Library::Cudnn
            | Library::NvperfHost
            | Library::NvperfTarget => &[],
        }
    }

    /// The file names that the loader is requested, in the order in which `cudarc` asks, so that
    /// both find the same file.
    fn loader_names(self) -> Vec<String> {
        let mut names = cudarc::get_lib_name_candidates(self.stem());
        names.dedup();
        names
    }
}

/// A library that is loaded.
#[derive(Debug)]
pub struct Loaded {
    library: Library,
    path: PathBuf,
    handle: libloading::Library,
}

impl Loaded {
    /// Which library this is.
    pub fn library(&self) -> Library {
        self.library
    }

    /// The full path, or the bare name where the system's loader found it by itself.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The address of an exported symbol.
    ///
    /// # Errors
    /// [`LibraryError::Symbol`] when this version of the library does not have it.
    ///
    /// # Safety
    /// `T` must be the type of that symbol: a function pointer with its exact signature.
    pub(crate) unsafe fn symbol<T: Copy>(&self, name: &'static str) -> Result<T, LibraryError> {
        // SAFETY: the caller gives the type. The library is never unloaded, so the copied pointer
        // stays valid.
        let found = unsafe { self.handle.get::<T>(name.as_bytes()) };
        found.map(|symbol| *symbol).map_err(|_| LibraryError::Symbol {
            library: self.library,
            path: self.path.clone(),
            symbol: name,
        })
    }

    /// Whether the library exports `name`.
    pub fn has(&self, name: &'static str) -> bool {
        // SAFETY: the address is only compared with null, never called.
        unsafe { self.symbol::<*const ()>(name) }.is_ok()
    }
}

/// Why a library of CUDA cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// It was not found, or cannot be loaded.
    #[error("{}", describe_missing(*library, names, searched, refused))]
    Missing {
        /// Which.
        library: Library,
        /// The file names that the system's loader was requested.
        names: Vec<String>,
        /// The directories searched after that.
        searched: Vec<PathBuf>,
        /// Files that were found but not loaded, with the loader's reason.
        refused: Vec<(PathBuf, String)>,
    },
    /// It is too old: it lacks a function.
    #[error("{} at {} is too old: it has no {symbol}", library.title(), path.display())]
    Symbol {
        /// Which.
        library: Library,
        /// Where.
        path: PathBuf,
        /// The function.
        symbol: &'static str,
    },
}

impl LibraryError {
    /// Which library this is about.
    pub fn library(&self) -> Library {
        match self {
            LibraryError::Missing { library, .. } | LibraryError::Symbol { library, .. } => *library,
        }
    }
}

impl Hint for LibraryError {
    fn hint(&self) -> Option<Text<'_>> {
        Some(self.library().remedy().into())
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Absent
    }
}

fn describe_missing(
    library: Library,
    names: &[String],
    searched: &[PathBuf],
    refused: &[(PathBuf, String)],
) -> String {
    use fmt::Write as _;
    let mut text = String::new();
    if refused.is_empty() {
        // The bare name says it; the loader was requested every version.
        let name = names.first().map_or("", String::as_str);
        let _ = write!(text, "{} not found: {name} is neither on the loader's path ", library.title());
        text.push_str("(LD_LIBRARY_PATH, ldconfig), nor in ");
        match searched {
            [] => text.push_str("a directory of CUDA"),
            folders => {
                for (index, folder) in folders.iter().enumerate() {
                    let _ = write!(text, "{}{}", if index > 0 { ", " } else { "" }, folder.display());
                }
            }
        }
    } else {
        let _ = write!(text, "{} could not be loaded", library.title());
        for (path, reason) in refused {
            let _ = write!(text, ": {}: {reason}", path.display());
        }
    }
    text
}

/// The libraries loaded so far. They are leaked: calls into them may come from any thread until the
/// process ends.
static LOADED: Mutex<Vec<&'static Loaded>> = Mutex::new(Vec::new());

/// Loads a library, or says why not. Loading again costs a lookup; a library that was missing is
/// searched for again.
///
/// ```
/// use flopgap_gpu::library::{Library, probe};
/// use flopgap_files::Hint as _;
///
/// match probe(Library::Nvrtc) {
///     Ok(loaded) => println!("{}", loaded.path().display()),
///     Err(error) => println!("{error}\n  hint: {}", error.hint().unwrap_or_default()),
/// }
/// ```
///
/// # Errors
/// [`LibraryError::Missing`], with everything that was searched.
pub fn probe(library: Library) -> Result<&'static Loaded, LibraryError> {
    let mut loaded = LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(found) = loaded.iter().find(|found| found.library == library) {
        return Ok(found);
    }
    let found: &'static Loaded = Box::leak(Box::new(search::load(library, &search_folders())?));
    loaded.push(found);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_names_what_was_searched_and_what_to_install() {
        let dir = tempfile::tempdir().unwrap();
        // A name that no system has: the loader cannot find it by itself.
        let error = search::load_named(
            Library::Nvrtc,
            &["libflopgap-none.so".to_owned()],
            "flopgap-none",
            &[dir.path().to_owned()],
        )
        .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("NVRTC"), "{text}");
        assert!(text.contains("libflopgap-none.so"), "{text}");
        assert!(text.contains(&dir.path().display().to_string()), "{text}");
        assert!(error.hint().unwrap().contains("nvidia-cuda-nvrtc"), "{:?}", error.hint());
    }

    #[test]
    fn a_file_that_is_no_library_is_refused_with_the_loaders_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("libflopgap-none.so.13");
        std::fs::write(&path, "not a library").unwrap();
        let error = search::load_named(
            Library::Cupti,
            &["libflopgap-none.so".to_owned()],
            "flopgap-none",
            &[dir.path().to_owned()],
        )
        .unwrap_err();
        let LibraryError::Missing { refused, .. } = &error else { panic!("{error}") };
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].0, path);
        assert!(error.to_string().contains("libflopgap-none.so.13"), "{error}");
    }

    #[test]
    fn every_library_says_how_to_get_it() {
        for library in Library::ALL {
            assert!(library.remedy().contains("install"), "{library:?}");
            assert!(library.loader_names()[0].contains(library.stem()), "{library:?}");
        }
    }
}
