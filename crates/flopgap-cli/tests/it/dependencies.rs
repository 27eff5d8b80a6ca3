//! Holds `deny.toml`: licenses and duplicate versions of what is linked, of all lock files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders that have a lock file: the workspace, and the one that is a workspace of its own.
const LOCKED: [&str; 2] = [".", "fuzz"];

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_owned()
}

/// The lines of a list in `deny.toml`, and of each the texts within quotation marks.
fn list(name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let start = format!("\n{name} = [\n");
    let (_, rest) = text.split_once(&start).unwrap_or_else(|| panic!("no list {name}"));
    let (lines, _) = rest.split_once("\n]").expect("an end of the list");
    let quoted = |line: &str| line.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    lines.lines().map(quoted).collect()
}

/// Every version of every package of a lock file.
fn versions(folder: &str) -> BTreeMap<String, BTreeSet<Vec<u64>>> {
    let lock = fs::read_to_string(root().join(folder).join("Cargo.lock")).expect("a lock file");
    let mut versions: BTreeMap<String, BTreeSet<Vec<u64>>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let line = package.lines().find(|line| line.starts_with(&format!("{name} = ")));
            line.and_then(|line| line.split('"').nth(1)).expect("a name and a version")
        };
        let release = field("version").split(['-', '+']).next().unwrap_or_default();
        let numbers = release.split('.').map(|number| number.parse().expect("a number"));
        versions.entry(field("name").to_owned()).or_default().insert(numbers.collect());
    }
    versions
}

#[test]
fn several_versions_of_a_package_are_listed_with_the_reason() {
    let listed: Vec<(String, String, Vec<u64>)> = list("skip")
        .into_iter()
        .map(|entry| {
            let [spec, reason] = entry.as_slice() else { panic!("{entry:?}: NAME:^VERSION and a reason") };
            assert!(!reason.is_empty(), "{spec}");
            let (name, version) = spec.split_once(":^").unwrap_or_else(|| panic!("{spec}: NAME:^VERSION"));
            let version = version.split('.').map(|number| number.parse().expect("a number")).collect();
            (spec.clone(), name.to_owned(), version)
        })
        .collect();
    let mut needed = BTreeSet::new();
    for folder in LOCKED {
        for (package, mut versions) in versions(folder) {
            let newest = versions.pop_last();
            for version in versions {
                let entry =
                    listed.iter().find(|(_, name, begin)| *name == package && version.starts_with(begin));
                let (spec, ..) = entry.unwrap_or_else(|| {
                    panic!("{folder}/Cargo.lock has {package} {version:?} beside {newest:?}: take one, or list it")
                });
                needed.insert(spec);
            }
        }
    }
    for (spec, ..) in &listed {
        assert!(needed.contains(spec), "deny.toml lists {spec}, which no lock file needs any more");
    }
}

#[test]
fn every_license_is_listed() {
    let allowed: BTreeSet<String> = list("allow").into_iter().flatten().collect();
    let mut used = BTreeSet::new();
    let mut checked = 0;
    for folder in LOCKED {
        // What other platforms need may not be downloaded; `cargo deny` looks at that, too.
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked", "--offline", "--all-features"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu", "--manifest-path"])
            .arg(root().join(folder).join("Cargo.toml"))
            .output()
            .expect("cargo runs");
        if !output.status.success() {
            // A build downloads what it needs: no feature that is off, no other workspace.
            let error = String::from_utf8_lossy(&output.stderr);
            let reason = error.lines().next().unwrap_or_default();
            return flopgap_testing::skip(
                "packages",
                format!("{folder}/: {reason}; `cargo fetch` gets them"),
            );
        }
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        for package in metadata["packages"].as_array().expect("a list") {
            let name = package["name"].as_str().expect("a name");
            let license = package["license"].as_str().unwrap_or_else(|| panic!("{name} has no license"));
            let license = spdx::Expression::parse_mode(license, spdx::ParseMode::LAX);
            let license = license.unwrap_or_else(|error| panic!("{name}: {error}"));
            let is_allowed = license.evaluate(|need| {
                let id = need.license.id().map(|id| id.name.to_owned()).unwrap_or_default();
                let allowed = allowed.contains(&id);
                if allowed {
                    used.insert(id);
                }
                allowed
            });
            assert!(
                is_allowed,
                "{folder}: {name} is under {license}: read it before you list it in deny.toml"
            );
            checked += 1;
        }
    }
    assert!(checked > 200, "only {checked} packages");
    assert!(used.len() > 3, "{used:?}");
}
