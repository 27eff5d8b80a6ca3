//! Holds the dependency rules of `docs/ARCHITECTURE.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Which of our crates each library may depend on; `flopgap-files`, which depends on none, is for
/// all. Binaries and benches may depend on any library.
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "flopgap-answers",
        &[
            "flopgap-flops",
            "flopgap-gap",
            "flopgap-kernels",
            "flopgap-kineto",
            "flopgap-nsys",
            "flopgap-report",
            "flopgap-table",
            "flopgap-timings",
            "flopgap-trace",
        ],
    ),
    ("flopgap-testing", &[]),
    ("flopgap-flops", &[]),
    ("flopgap-kernels", &[]),
    ("flopgap-kineto", &["flopgap-flops", "flopgap-trace"]),
    ("flopgap-ncu", &[]),
    ("flopgap-nsys", &["flopgap-trace"]),
    ("flopgap-files", &[]),
    ("flopgap-report", &[]),
    ("flopgap-gpu", &[]),
    ("flopgap-mlp", &["flopgap-flops", "flopgap-gpu"]),
    ("flopgap-phases", &["flopgap-flops", "flopgap-kernels", "flopgap-ncu"]),
    ("flopgap-record", &["flopgap-kernels", "flopgap-ncu", "flopgap-phases"]),
    ("flopgap-timings", &["flopgap-flops", "flopgap-kernels", "flopgap-trace"]),
    ("flopgap-gap", &["flopgap-flops", "flopgap-kernels", "flopgap-timings", "flopgap-trace"]),
    ("flopgap-trace", &["flopgap-flops"]),
    (
        "flopgap-table",
        &[
            "flopgap-flops",
            "flopgap-kernels",
            "flopgap-kineto",
            "flopgap-ncu",
            "flopgap-nsys",
            "flopgap-phases",
            "flopgap-timings",
            "flopgap-trace",
        ],
    ),
    ("flopgap-cli", &["flopgap-report"]),
    ("flopgap-graph", &["flopgap-flops"]),
    ("flopgap-roofline", &["flopgap-flops", "flopgap-gpu", "flopgap-graph"]),
    ("flopgap-calibration", &["flopgap-flops", "flopgap-graph", "flopgap-report", "flopgap-roofline"]),
];

/// What the binary of the README's first command must not pull in, because a newcomer would wait
/// for it. That command turns optional dependencies off.
const HEAVY: [&str; 12] = [
    "polars",
    "parquet",
    "arrow-array",
    "cudarc",
    "nvtx",
    "libsqlite3-sys",
    "resvg",
    "minijinja",
    "rayon",
    "clap_complete",
    "signal-hook",
    "encoding_rs",
];

/// What cargo knows of the workspace. Without `--no-deps`, it would fetch the packages of every
/// platform.
fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// Our packages and their direct dependencies.
fn packages() -> BTreeMap<String, serde_json::Value> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("a list").iter();
    packages.map(|package| (package["name"].as_str().expect("a name").to_owned(), package.clone())).collect()
}

/// The names of the packages that cargo builds without `-p` or `--workspace`.
fn default_members() -> BTreeSet<String> {
    let metadata = metadata();
    let ids = metadata["workspace_default_members"].as_array().expect("a list");
    let packages = metadata["packages"].as_array().expect("a list").iter();
    let are_built = packages.filter(|package| ids.contains(&package["id"]));
    are_built.map(|package| package["name"].as_str().expect("a name").to_owned()).collect()
}

/// The names of a package's dependencies that are compiled into it (neither dev-dependencies nor
/// what a feature must turn on).
fn dependencies(package: &serde_json::Value) -> BTreeSet<String> {
    let dependencies = package["dependencies"].as_array().expect("a list").iter();
    let linked =
        dependencies.filter(|dependency| dependency["kind"].is_null() && dependency["optional"] == false);
    linked.map(|dependency| dependency["name"].as_str().expect("a name").to_owned()).collect()
}

/// The dependencies of every package of the lock file, by name.
fn locked() -> BTreeMap<String, BTreeSet<String>> {
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"))
        .expect("a lock file");
    let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let quoted = |line: &str| line.split('"').nth(1).map(str::to_owned);
        let name = package.lines().find(|line| line.starts_with("name = ")).and_then(quoted).expect("a name");
        let listed = package.lines().filter(|line| line.starts_with(" \"")).filter_map(quoted);
        // "name version" where a name has several versions.
        let names = listed.map(|entry| entry.split(' ').next().unwrap_or_default().to_owned());
        packages.entry(name).or_default().extend(names);
    }
    packages
}

#[test]
fn crates_depend_only_on_what_the_architecture_allows() {
    let packages = packages();
    let libraries: BTreeSet<String> =
        packages.keys().filter(|name| name.starts_with("flopgap-")).cloned().collect();
    let programs = ["flopgap-benches", "flopgap-python"];
    let listed: BTreeSet<String> =
        ALLOWED.iter().map(|(name, _)| *name).chain(programs).map(str::to_owned).collect();
    assert_eq!(libraries, listed, "a crate is missing from the table above, or from the workspace");

    for &(name, allowed) in ALLOWED {
        for dependency in dependencies(&packages[name]).intersection(&libraries) {
            let allowed = dependency == "flopgap-files" || allowed.contains(&dependency.as_str());
            assert!(allowed, "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn the_first_command_links_nothing_heavy() {
    let (packages, locked) = (packages(), locked());
    let mut open = vec!["flopgap".to_owned()];
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        // The lock file mixes dev-dependencies in, so it is only asked about the packages of
        // others.
        let next = packages.get(&name).map_or_else(|| locked[&name].clone(), dependencies);
        if seen.insert(name) {
            open.extend(next);
        }
    }
    assert!(seen.len() > 30, "the walk reached only {} packages", seen.len());
    for name in seen {
        assert!(!HEAVY.iter().any(|heavy| name.starts_with(heavy)), "flopgap links {name}");
    }
}

/// Polars takes longer to compile than everything else together: one program links it, and no
/// library makes others do so. What is built without `--workspace` is everything else, but for what
/// needs Python.
#[test]
fn only_run_table_links_polars() {
    let mut found = Vec::new();
    let packages = packages();
    let all: BTreeSet<String> = packages.keys().cloned().collect();
    let left_out: Vec<String> = all.difference(&default_members()).cloned().collect();
    assert_eq!(left_out, ["flopgap-benches", "flopgap-python", "run-table"]);
    for (name, package) in packages {
        for entry in package["dependencies"].as_array().expect("a list") {
            let dependency = entry["name"].as_str().expect("a name").to_owned();
            assert!(dependency != "run-table", "{name} needs what run-table needs");
            if dependency.starts_with("polars") {
                found.push((name.clone(), dependency));
            }
        }
    }
    assert_eq!(found, [("run-table".to_owned(), "polars".to_owned())]);
    let readme = include_str!("../../../../README.md");
    let first = readme.split("```sh\n").nth(1).and_then(|block| block.lines().next());
    assert!(first.is_some_and(|line| line.starts_with("cargo run --release -p ") && !line.contains("-p run-table")), "{first:?}");
}
