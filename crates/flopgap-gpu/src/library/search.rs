//! Where libraries of CUDA lie.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Library, LibraryError, Loaded};

/// The directories of this machine that may hold libraries of CUDA, in the order in which they are
/// searched after the system's loader:
///
/// 1. next to the executable, and in `lib` next to its directory;
/// 2. the toolkits: `$CUDA_HOME`, `$CUDA_PATH`, `/usr/local/cuda`, `/usr/local/cuda-*` (newest
///    first), with `lib64`, `extras/CUPTI/lib64` and `targets/*/lib`;
/// 3. the `nvidia` packages of PyPI (`site-packages/nvidia/*/lib`) in the [directories of
///    Python](python_packages);
/// 4. `$CONDA_PREFIX/lib`.
///
/// Only directories that exist are returned.
pub fn search_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(folder) = env::current_exe().ok().as_deref().and_then(Path::parent) {
        folders.push(folder.to_owned());
        folders.push(folder.join("../lib"));
    }
    let mut toolkits: Vec<PathBuf> =
        ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from).collect();
    toolkits.push("/usr/local/cuda".into());
    toolkits.extend(children_newest_first(Path::new("/usr/local"), |name| name.starts_with("cuda-")));
    for toolkit in toolkits {
        folders.push(toolkit.join("lib64"));
        folders.push(toolkit.join("extras/CUPTI/lib64"));
        folders.extend(
            children_newest_first(&toolkit.join("targets"), |_| true).into_iter().map(|dir| dir.join("lib")),
        );
        folders.push(toolkit.join("lib"));
    }
    for packages in python_packages() {
        folders.extend(
            children_newest_first(&packages.join("nvidia"), |_| true).into_iter().map(|dir| dir.join("lib")),
        );
    }
    if let Some(conda) = env::var_os("CONDA_PREFIX") {
        folders.push(PathBuf::from(conda).join("lib"));
    }
    let mut seen = Vec::new();
    folders.retain(|folder| {
        // Toolkits are linked to each other: a directory is searched once, under its first name.
        fs::canonicalize(folder).is_ok_and(|real| {
            let new = real.is_dir() && !seen.contains(&real);
            seen.push(real);
            new
        })
    });
    folders
}

/// The directories that Python may import packages from, as far as the environment and the usual
/// places tell: those of `$PYTHONPATH`, of the environment whose `python` this process was started
/// as, of `$VIRTUAL_ENV`, `$CONDA_PREFIX`, of the `python3` that a command line starts, of the user
/// and of the system. They need not exist.
pub fn python_packages() -> Vec<PathBuf> {
    let mut packages: Vec<PathBuf> =
        env::var_os("PYTHONPATH").map(|paths| env::split_paths(&paths).collect()).unwrap_or_default();
    // A virtual environment that nobody activated: `environment/bin/python script.py`.
    let mut roots: Vec<PathBuf> =
        env::args_os().next().and_then(|program| environment_of(&program)).into_iter().collect();
    roots.extend(["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env::var_os).map(PathBuf::from));
    let searched = env::var_os("PATH").unwrap_or_default();
    let mut commands = env::split_paths(&searched).filter(|folder| folder.join("python3").is_file());
    roots.extend(commands.next().as_deref().and_then(Path::parent).map(Path::to_owned));
    if let Some(home) = env::var_os("HOME") {
        roots.push(PathBuf::from(home).join(".local"));
    }
    roots.extend(["/usr/local".into(), "/usr".into()]);
    for root in roots {
        for python in children_newest_first(&root.join("lib"), |name| name.starts_with("python3")) {
            packages.push(python.join("site-packages"));
            packages.push(python.join("dist-packages"));
        }
    }
    packages
}

/// The environment of Python, from the path that it was started by.
fn environment_of(program: &OsStr) -> Option<PathBuf> {
    let program = Path::new(program);
    let is_python = program.file_name()?.as_encoded_bytes().starts_with(b"python");
    let folder = program.parent().filter(|folder| is_python && folder.ends_with("bin"))?;
    folder.parent().map(Path::to_owned)
}

/// The entries of `directory` whose name `wanted` accepts, highest version first.
fn children_newest_first(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| wanted(name))
        .collect();
    names.sort_by_key(|name| std::cmp::Reverse(version(name)));
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The numbers in a name, so that 13.0 comes after 9.2: `cuda-13.0` is `[13, 0]`.
fn version(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// Files of `directory` that hold the library `stem`, newest version first, the bare name last: it
/// is a link to one of the others.
fn files(folder: &Path, stem: &str) -> Vec<PathBuf> {
    let prefix = format!("lib{stem}.so");
    children_newest_first(folder, |name| {
        name.strip_prefix(&prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Loads `library` from wherever it is.
pub(super) fn load(library: Library, folders: &[PathBuf]) -> Result<Loaded, LibraryError> {
    load_named(library, &library.loader_names(), library.stem(), folders)
}

/// [`load`], with the names given.
pub(super) fn load_named(
    library: Library,
    names: &[String],
    stem: &str,
    folders: &[PathBuf],
) -> Result<Loaded, LibraryError> {
    if library.is_one_of_a_process() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        if let Some(path) = mapped(&maps, stem)
            && let Some(handle) = opened(&path)
        {
            load_companions(library, path.parent());
            return Ok(Loaded { library, path, handle });
        }
    }
    for name in names {
        if let Ok(handle) = open(name) {
            return Ok(Loaded { library, path: PathBuf::from(name), handle });
        }
    }
    let mut refused = Vec::new();
    for folder in folders {
        for path in files(folder, stem) {
            load_companions(library, Some(folder));
            match open(&path) {
                Ok(handle) => return Ok(Loaded { library, path, handle }),
                Err(error) => refused.push((path, error.to_string())),
            }
        }
    }
    Err(LibraryError::Missing { library, names: names.to_vec(), searched: folders.to_vec(), refused })
}

/// Loads what a library opens by name from its own directory. Whether it is needed shows there.
fn load_companions(library: Library, folder: Option<&Path>) {
    for companion in library.companions() {
        if let Some(Ok(handle)) =
            folder.and_then(|folder| files(folder, companion).into_iter().next()).map(open)
        {
            // Kept open: the library finds it by its name.
            std::mem::forget(handle);
        }
    }
}

/// The file of a library that this process has loaded, from what the kernel says of its memory
/// (`/proc/self/maps`).
fn mapped(maps: &str, stem: &str) -> Option<PathBuf> {
    let prefix = format!("lib{stem}.so");
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
    let found = paths.find(|path| {
        let rest = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix(&prefix));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') && !rest.ends_with(" (deleted)"))
    })?;
    Some(found.to_owned())
}

/// A library that is loaded already; nothing is loaded here.
#[cfg(unix)]
fn opened(path: &Path) -> Option<libloading::Library> {
    use libloading::os::unix::{Library as Unix, RTLD_LAZY};
    /// `RTLD_NOLOAD` of Linux.
    const NO_LOAD: std::ffi::c_int = 4;
    // SAFETY: no initializers run: the library is loaded.
    unsafe { Unix::open(Some(path), RTLD_LAZY | NO_LOAD) }.ok().map(Into::into)
}

#[cfg(not(unix))]
fn opened(_path: &Path) -> Option<libloading::Library> {
    None
}

fn open(path: impl AsRef<OsStr>) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: loading runs the library's initializers. These are NVIDIA's libraries, which a CUDA
    // program loads in the same way.
    unsafe { libloading::Library::new(path.as_ref()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_come_first() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "libnvrtc.so",
            "libnvrtc.so.9.2",
            "libnvrtc.so.13",
            "libnvrtc-builtins.so.13.0",
            "libnvrtc.alt.so.13",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let found: Vec<_> = files(dir.path(), "nvrtc")
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(found, ["libnvrtc.so.13", "libnvrtc.so.9.2", "libnvrtc.so"]);
    }

    #[test]
    fn a_python_in_bin_is_in_an_environment() {
        let of = |program: &str| environment_of(OsStr::new(program));
        assert_eq!(of("/home/venv/bin/python3.11"), Some("/home/venv".into()));
        assert_eq!(of("venv/bin/python"), Some("venv".into()));
        assert_eq!(of("bin/python"), Some("".into()));
        assert_eq!(of("python"), None);
        assert_eq!(of("target/release/python"), None);
        assert_eq!(of("/usr/local/bin/flopgap"), None);
    }

    #[test]
    fn a_loaded_library_is_found_in_the_memory_map() {
        let maps = "\
7f00-7f10 r--p 00000000 fe:00 12  /usr/lib/libcuptix.so.13
7f00-7f10 r--p 00000000 fe:00 12  /old/lib/libcupti.so.12 (deleted)
7f00-7f10 rw-p 00000000 00:00 0
7f00-7f10 r--p 00000000 fe:00 12  /my venv/nvidia/cu13/lib/libcupti.so.13
7f00-7f10 r-xp 00000000 fe:00 12  /my venv/nvidia/cu13/lib/libcupti.so.13
7f00-7f10 r--p 00000000 fe:00 12  /other/libcupti.so.12
";
        let found = mapped(maps, "cupti");
        assert_eq!(found.as_deref(), Some(Path::new("/my venv/nvidia/cu13/lib/libcupti.so.13")));
        assert_eq!(mapped(maps, "nvperf_host"), None);
    }

    /// The C library is loaded in every program.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_loaded_is_not_loaded_again() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let path = mapped(&maps, "c").unwrap();
        assert!(opened(&path).is_some(), "{}", path.display());
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("libflopgap-copy.so");
        fs::copy(&path, &copy).unwrap();
        assert!(opened(&copy).is_none(), "a file that is not loaded stays so");
    }

    #[test]
    fn only_folders_that_exist_are_searched_and_each_once() {
        let folders = search_folders();
        let mut real: Vec<_> = folders.iter().map(|folder| fs::canonicalize(folder).unwrap()).collect();
        real.sort();
        let count = real.len();
        real.dedup();
        assert_eq!(real.len(), count);
    }
}
