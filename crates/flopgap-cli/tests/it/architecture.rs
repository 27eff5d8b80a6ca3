//! Holds the dependency rules of `docs/ARCHITECTURE.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Which of our crates each library may depend on. Binaries and benches may depend on any library.
const ALLOWED: [(&str, &[&str]); 8] = [
    ("flopgap-flops", &[]),
    ("flopgap-kernels", &[]),
    ("flopgap-ncu", &[]),
    ("flopgap-fs", &[]),
    ("flopgap-report", &[]),
    ("flopgap-phases", &["flopgap-flops", "flopgap-kernels", "flopgap-ncu"]),
    ("flopgap-sweep", &["flopgap-flops", "flopgap-fs", "flopgap-kernels", "flopgap-phases"]),
    ("flopgap-cli", &["flopgap-report"]),
];

/// What the binary of the README's first command must not pull in, because a newcomer would wait for it.
const HEAVY: [&str; 4] = ["polars", "arrow", "cudarc", "nvtx"];

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// The names of a package's dependencies that are compiled into it (not dev-dependencies).
fn dependencies(package: &serde_json::Value) -> BTreeSet<&str> {
    package["dependencies"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| dependency["name"].as_str().unwrap())
        .collect()
}

#[test]
fn crates_depend_only_on_what_the_architecture_allows() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: BTreeMap<&str, &serde_json::Value> = packages
        .iter()
        .filter(|package| package["source"].is_null())
        .map(|package| (package["name"].as_str().unwrap(), package))
        .collect();
    let libraries: BTreeSet<&str> = ours.keys().copied().filter(|name| name.starts_with("flopgap-")).collect();
    let listed: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).chain(["flopgap-benches"]).collect();
    assert_eq!(libraries, listed, "a crate is missing from the table above, or from the workspace");

    for (name, allowed) in ALLOWED {
        for dependency in dependencies(ours[name]).intersection(&libraries) {
            assert!(allowed.contains(dependency), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn the_first_command_links_nothing_heavy() {
    let metadata = metadata();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let node = |id: &str| nodes.iter().find(|node| node["id"] == id).unwrap();
    let root = metadata["packages"].as_array().unwrap().iter().find(|package| package["name"] == "hyper-profile");
    let mut open = vec![root.unwrap()["id"].as_str().unwrap()];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dependency in node(id)["deps"].as_array().unwrap() {
            let normal = dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null());
            if normal {
                open.push(dependency["pkg"].as_str().unwrap());
            }
        }
    }
    assert!(seen.len() > 10, "the walk reached only {} packages", seen.len());
    for id in seen {
        let name = metadata["packages"].as_array().unwrap().iter().find(|package| package["id"] == id).unwrap()
            ["name"]
            .as_str()
            .unwrap();
        assert!(!HEAVY.iter().any(|heavy| name.starts_with(heavy)), "hyper-profile links {name}");
    }
}
