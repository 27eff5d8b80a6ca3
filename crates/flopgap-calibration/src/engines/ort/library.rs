//! Locates and loads ONNX Runtime's library before the first call; an error lists the searched
//! places.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flopgap_gpu::library::python_packages;
use ort::environment::Environment;

use crate::engines::error::EngineError;

const HINT: &str =
    "install it with `pip install onnxruntime` (1.24 or newer), or set ORT_DYLIB_PATH to the library";

/// The library that is loaded, until the process ends.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    pub(super) environment: Environment,
    /// `1.30.0`
    pub(super) version: String,
}

/// A process has one environment, and ONNX Runtime allows no second, also after the first is gone.
static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

/// Loads the library, or returns the loaded one.
pub(super) fn load() -> Result<Loaded, EngineError> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(loaded) = &*loaded {
        return Ok(loaded.clone());
    }
    let found = load_from(&candidates()?)?;
    *loaded = Some(found.clone());
    Ok(found)
}

/// The candidate paths, in the order in which they are tried.
struct Candidates {
    files: Vec<PathBuf>,
    /// A description of the searched places, for the error.
    searched: String,
}

/// Those of `ORT_DYLIB_PATH` alone if it is set; otherwise the Python packages `onnxruntime`, those
/// next to the executable, and what the system's loader finds.
fn candidates() -> Result<Candidates, EngineError> {
    if let Some(path) = env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        if !path.is_file() {
            return Err(missing(format!("ORT_DYLIB_PATH is {}, which is not a file", path.display())));
        }
        return Ok(Candidates { files: vec![path], searched: "ORT_DYLIB_PATH".to_owned() });
    }
    let packages = python_packages();
    let mut folders: Vec<PathBuf> =
        packages.iter().map(|packages| packages.join("onnxruntime/capi")).collect();
    folders.extend(env::current_exe().ok().as_deref().and_then(Path::parent).map(Path::to_owned));
    let mut files: Vec<PathBuf> = folders.iter().flat_map(|folder| libraries(folder)).collect();
    // By the bare name the loader looks for it.
    files.push(PathBuf::from("libonnxruntime.so"));
    let mut there: Vec<String> =
        packages.iter().filter(|folder| folder.is_dir()).map(|folder| folder.display().to_string()).collect();
    if there.is_empty() {
        there.push("site-packages, which this machine does not have".to_owned());
    }
    let searched = format!(
        "neither the system's loader (LD_LIBRARY_PATH, ldconfig) nor a package onnxruntime in {} has libonnxruntime.so",
        there.join(", ")
    );
    Ok(Candidates { files, searched })
}

/// `libonnxruntime.so*` of a directory, the newest first.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("libonnxruntime.so"))
    };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(named).collect();
    found.sort_by_key(|path| std::cmp::Reverse(numbers(&path.to_string_lossy())));
    found
}

/// The numbers at the end of a library's name: `[1, 30, 0]`.
fn numbers(path: &str) -> Vec<u32> {
    let version = path.rsplit_once(".so").map_or("", |(_, version)| version);
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

fn load_from(candidates: &Candidates) -> Result<Loaded, EngineError> {
    let mut refused = Vec::new();
    for file in &candidates.files {
        let builder = match ort::init_from(file) {
            Ok(builder) => builder,
            Err(error) => {
                // The bare name is tried always; that it is nowhere is no news.
                if file.is_absolute() {
                    refused.push(error.to_string());
                }
                continue;
            }
        };
        // It prints warnings otherwise. What fails comes back as an error.
        let quiet = Arc::new(|_: ort::logging::LogLevel, _: &str, _: &str, _: &str, _: &str| {});
        let environment = builder
            .with_name("flopgap")
            .with_telemetry(false)
            .with_logger(quiet)
            .build()
            .map_err(|error| missing(format!("{}: {error}", file.display())))?;
        let version = version(ort::info(), file);
        return Ok(Loaded { environment, version });
    }
    if refused.is_empty() {
        Err(missing(candidates.searched.clone()))
    } else {
        Err(missing(refused.join("; ")))
    }
}

/// The version, from the branch that the library says it was built from, else from its name.
fn version(info: &str, file: &Path) -> String {
    let from_branch = info.split("git-branch=rel-").nth(1).and_then(|rest| rest.split(',').next());
    let from_name = || {
        let real = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let numbers: Vec<String> = numbers(&real.to_string_lossy()).iter().map(u32::to_string).collect();
        (!numbers.is_empty()).then(|| numbers.join("."))
    };
    from_branch.map(str::to_owned).or_else(from_name).unwrap_or_else(|| "unknown".to_owned())
}

fn missing(reason: String) -> EngineError {
    EngineError::Missing { what: "ONNX Runtime", reason, hint: HINT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_library_of_a_folder_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "libonnxruntime.so.1.9.0",
            "libonnxruntime.so.1.30.0",
            "libonnxruntime_providers_shared.so",
            "x.py",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<String> = libraries(folder.path())
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["libonnxruntime.so.1.30.0", "libonnxruntime.so.1.9.0"]);
        assert!(libraries(&folder.path().join("none")).is_empty());
    }

    #[test]
    fn versions_come_from_the_branch_or_from_the_name() {
        let file = Path::new("/none/libonnxruntime.so.1.30.0");
        assert_eq!(version("ORT Build Info: git-branch=rel-1.30.0, git-commit-id=1", file), "1.30.0");
        assert_eq!(version("ORT Build Info: git-branch=HEAD, git-commit-id=1", file), "1.30.0");
        assert_eq!(version("", Path::new("/none/libonnxruntime.so")), "unknown");
    }

    #[test]
    fn a_file_that_is_no_library_is_refused_with_its_name() {
        let (_folder, [file]) = flopgap_testing::paths(["libonnxruntime.so.1.30.0"]);
        fs::write(&file, "not a library").unwrap();
        let candidates = Candidates { files: vec![file.clone()], searched: String::new() };
        let error = load_from(&candidates).unwrap_err();
        let EngineError::Missing { reason, hint, .. } = error else { panic!("{error}") };
        assert!(reason.contains(&file.display().to_string()), "{reason}");
        assert!(hint.contains("pip install onnxruntime"));
        let nowhere = Candidates { files: Vec::new(), searched: "nowhere".to_owned() };
        assert_eq!(load_from(&nowhere).unwrap_err().to_string(), "ONNX Runtime is not available: nowhere");
    }
}
