//! Where Nsight Systems and other programs of NVIDIA are installed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Where installers put nsys, below the root of the file system; `*` is any one folder.
const INSTALLED: [&str; 7] = [
    "usr/local/cuda/bin",
    "usr/local/cuda-*/bin",
    "opt/nvidia/nsight-systems/*/bin",
    "opt/nvidia/nsight-systems/*/target-linux-x64",
    "opt/nvidia/nsight-systems-cli/*/bin",
    "opt/nvidia/nsight-systems-cli/*/target-linux-x64",
    "opt/nvidia/nsight-compute/*/host/target-linux-x64",
];

/// The folders that the importer of a target folder may lie in, beside it.
#[cfg(feature = "pages")]
const HOSTS: [&str; 2] = ["host-linux-x64", "linux-desktop-glibc_*"];

/// The first `nsys` of `path` (a list of folders, as in the variable `PATH`), or of the places
/// where it is installed below `root`, the newest version first.
///
/// # Errors
/// The places that were searched.
pub fn nsys(path: Option<&OsStr>, root: &Path) -> Result<PathBuf, Vec<String>> {
    program("nsys", &INSTALLED, path, root)
}

/// The first program of this name in `path`, or of the places where it is installed below `root`:
/// in each, `*` is any one folder, and the newest version comes first.
///
/// # Errors
/// The places that were searched.
pub fn program(
    name: &str,
    installed: &[&str],
    path: Option<&OsStr>,
    root: &Path,
) -> Result<PathBuf, Vec<String>> {
    let on_path =
        path.into_iter().flat_map(std::env::split_paths).filter(|folder| !folder.as_os_str().is_empty());
    let places = installed.iter().flat_map(|pattern| folders(root, pattern));
    let found = on_path.chain(places).map(|folder| folder.join(name)).find(|file| is_program(file));
    found.ok_or_else(|| {
        let places = installed.iter().map(|pattern| root.join(pattern).display().to_string());
        std::iter::once("the folders of PATH".to_owned()).chain(places).collect()
    })
}

/// The program that turns a raw recording into a report, which nsys itself calls.
#[cfg(feature = "pages")]
pub(crate) fn importer(nsys: &Path) -> Option<PathBuf> {
    // A link in `bin` leads to the folder beside which the importer lies.
    let program = nsys.canonicalize().ok()?;
    let installation = program.parent()?.parent()?;
    let found = HOSTS.iter().flat_map(|pattern| folders(installation, pattern));
    found.map(|folder| folder.join("QdstrmImporter")).find(|file| is_program(file))
}

/// The folders that a pattern stands for, those of higher versions first.
fn folders(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        let Some((before, after)) = part.split_once('*') else {
            for folder in &mut found {
                folder.push(part);
            }
            continue;
        };
        let matching = |folder: &PathBuf| {
            let names =
                std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
            let mut names: Vec<String> = names
                .filter_map(|name| name.into_string().ok())
                .filter(|name| name.len() >= before.len() + after.len())
                .filter(|name| name.starts_with(before) && name.ends_with(after))
                .collect();
            names.sort_by_cached_key(|name| std::cmp::Reverse(version(name)));
            names.into_iter().map(|name| folder.join(name)).collect::<Vec<_>>()
        };
        found = found.iter().flat_map(matching).collect();
    }
    found
}

/// The numbers of a name, so that 2025.10 comes after 2025.9.
fn version(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

fn is_program(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    }
    #[cfg(not(unix))]
    {
        file.is_file()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_path_comes_first_then_the_newest_installation() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let searched = nsys(Some(OsStr::new("")), root).unwrap_err();
        assert_eq!(searched.len(), 8);
        assert!(searched[2].ends_with("usr/local/cuda-*/bin"), "{searched:?}");

        let compute = root.join("opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys");
        program(&compute);
        assert_eq!(nsys(None, root), Ok(compute.clone()));
        for version in ["2025.9.1", "2025.10.1"] {
            program(&root.join(format!("opt/nvidia/nsight-systems/{version}/bin/nsys")));
        }
        assert_eq!(nsys(None, root), Ok(root.join("opt/nvidia/nsight-systems/2025.10.1/bin/nsys")));

        // A file that cannot be run is not it.
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/nsys"), "text").unwrap();
        let path = root.join("bin");
        assert_eq!(
            nsys(Some(path.as_os_str()), root),
            Ok(root.join("opt/nvidia/nsight-systems/2025.10.1/bin/nsys"))
        );
        program(&path.join("nsys"));
        assert_eq!(nsys(Some(path.as_os_str()), root), Ok(path.join("nsys")));

        assert_eq!(importer(&compute), None);
        let desktop = root
            .join("opt/nvidia/nsight-compute/2025.3.1/host/linux-desktop-glibc_2_11_3-x64/QdstrmImporter");
        program(&desktop);
        assert_eq!(importer(&compute), Some(desktop.canonicalize().unwrap()));
    }
}
