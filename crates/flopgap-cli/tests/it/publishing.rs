//! Holds what a package needs so that it works outside the repository; `.ci/packages` packs all of
//! them and compiles a program against the result.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What only tests and benches need.
const UNPUBLISHED: [&str; 3] = ["flopgap-benches", "flopgap-python", "flopgap-testing"];

/// Slugs of <https://crates.io/category_slugs> that packages here may use: the registry refuses
/// others.
const CATEGORIES: [&str; 15] = [
    "api-bindings",
    "command-line-interface",
    "command-line-utilities",
    "compression",
    "data-structures",
    "database",
    "development-tools",
    "development-tools::profiling",
    "filesystem",
    "mathematics",
    "parser-implementations",
    "rust-patterns",
    "science",
    "simulation",
    "visualization",
];

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_owned()
}

fn bytes(path: &Path) -> u64 {
    if path.is_dir() {
        fs::read_dir(path).unwrap().map(|entry| bytes(&entry.unwrap().path())).sum()
    } else {
        path.metadata().unwrap().len()
    }
}

/// A clone brings all of them (CONTRIBUTING.md).
#[test]
fn fixtures_stay_under_16_mb() {
    let bytes = bytes(&root().join("fixtures"));
    assert!((1_000_000..16_000_000).contains(&bytes), "{bytes}");
}

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    metadata["packages"].as_array().expect("a list").clone()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().map(|values| values.iter().map(text).collect()).unwrap_or_default()
}

fn folder(package: &Value) -> PathBuf {
    Path::new(text(&package["manifest_path"])).parent().expect("a folder").to_owned()
}

/// The packages that the registry gets.
fn published() -> Vec<Value> {
    let (published, private): (Vec<Value>, Vec<Value>) =
        packages().into_iter().partition(|package| package["publish"].is_null());
    let mut private: Vec<&str> = private.iter().map(|package| text(&package["name"])).collect();
    private.sort_unstable();
    assert_eq!(private, UNPUBLISHED, "`publish.workspace = true` is missing, or UNPUBLISHED is out of date");
    published
}

/// The files below a folder with this extension.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}

/// Whether a relative path leads out of the folder that it starts `depth` folders below.
fn leaves(path: &str, mut depth: usize) -> bool {
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            _ => {}
        }
    }
    false
}

#[test]
fn packages_say_what_the_registry_shows() {
    let packages = published();
    for package in &packages {
        let name = text(&package["name"]);
        // `repository.workspace = true` in all of them, or in none.
        assert_eq!(package["repository"], packages[0]["repository"], "{name}: another repository");
        assert!(!text(&package["description"]).is_empty(), "{name}: no description");
        assert_eq!(text(&package["license"]), "MIT OR Apache-2.0", "{name}");
        assert!(!text(&package["rust_version"]).is_empty(), "{name}: no `rust-version.workspace = true`");
        let keywords = texts(&package["keywords"]);
        assert!((1..=5).contains(&keywords.len()), "{name}: {} keywords instead of 1 to 5", keywords.len());
        for keyword in keywords {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "_-+".contains(c);
            assert!(keyword.len() <= 20 && keyword.chars().all(allowed), "{name}: keyword `{keyword}`");
        }
        let categories = texts(&package["categories"]);
        assert!(!categories.is_empty(), "{name}: no categories");
        for category in categories {
            assert!(CATEGORIES.contains(&category), "{name}: category `{category}`");
        }
        let targets = package["targets"].as_array().expect("a list");
        let is_library = targets.iter().any(|target| texts(&target["kind"]).contains(&"lib"));
        let documented = texts(&package["metadata"]["docs"]["rs"]["targets"]);
        assert!(!is_library || documented == ["x86_64-unknown-linux-gnu"], "{name}: metadata of docs.rs");
    }
}

#[test]
fn packages_hold_the_license_and_no_tests() {
    for package in published() {
        let folder = folder(&package);
        for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let ours = fs::read(folder.join(license))
                .unwrap_or_else(|error| panic!("{}/{license}: {error}", folder.display()));
            assert_eq!(ours, fs::read(root().join(license)).expect("a license"), "{}", folder.display());
        }
        // The registry's copy has no fixtures/.
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        assert!(
            manifest.contains("\nexclude.workspace = true\n"),
            "{}: no `exclude.workspace = true`",
            folder.display()
        );
    }
}

#[test]
fn packages_depend_on_what_the_registry_gets() {
    for package in published() {
        let name = text(&package["name"]);
        let ours = package["dependencies"].as_array().expect("a list").iter();
        for dependency in ours.filter(|dependency| !dependency["path"].is_null()) {
            let (on, version) = (text(&dependency["name"]), text(&dependency["req"]));
            // A crate turns features of its own on for its tests: the registry has no older one.
            if UNPUBLISHED.contains(&on) || on == name {
                assert_eq!(text(&dependency["kind"]), "dev", "{name} is published and {on} is not");
                assert_eq!(version, "*", "{name}: cargo leaves {on} out only if it has no version");
            } else {
                assert_eq!(version, format!("^{}", text(&package["version"])), "{name}: {on}");
            }
        }
    }
}

#[test]
fn sources_and_readmes_stay_within_their_package() {
    let mut included = 0;
    for package in published() {
        let folder = folder(&package);
        let mut sources = Vec::new();
        for part in ["src", "examples", "build"] {
            files(&folder.join(part), "rs", &mut sources);
        }
        for source in sources {
            // Tests may read fixtures: what a package has under `cfg(test)` is not compiled by
            // others.
            let is_test = source.file_stem().is_some_and(|stem| stem == "tests");
            let depth = source.strip_prefix(&folder).expect("below it").components().count() - 1;
            let code = fs::read_to_string(&source).expect("UTF-8");
            let code = code.split("#[cfg(test)]").next().unwrap_or_default();
            for name in ["include_str!(\"", "include_bytes!(\""] {
                for rest in code.split(name).skip(1).filter(|_| !is_test) {
                    let path = rest.split('"').next().unwrap_or_default();
                    assert!(!leaves(path, depth), "{}: {path} is not in the package", source.display());
                    included += 1;
                }
            }
        }
        let readme = fs::read_to_string(folder.join("README.md")).expect("a README");
        for rest in readme.split("](").skip(1) {
            let link = rest.split(')').next().unwrap_or_default();
            let is_path = !link.contains("://") && !link.starts_with('#');
            let path = link.split('#').next().unwrap_or_default();
            assert!(
                !is_path || (!leaves(path, 0) && folder.join(path).exists()),
                "{}/README.md: the link to {link} does not work outside the repository",
                folder.display()
            );
        }
    }
    assert!(included > 40, "only {included} included files were found");
}

#[test]
fn paths_that_leave_a_folder() {
    assert!(!leaves("../README.md", 1));
    assert!(leaves("../../fixtures", 1));
    assert!(leaves("docs/../../x", 0));
    assert!(!leaves("docs/field.png", 0));
}
