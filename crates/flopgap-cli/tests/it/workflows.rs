//! Holds that the files, packages and options named in `.github/` exist. `zizmor` audits them in
//! CI; nothing runs them here.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_owned()
}

/// The YAML files below `.github/` and the action of the repository, with their texts.
fn configured() -> Vec<(PathBuf, String)> {
    let mut open = vec![root().join(".github")];
    let action = root().join("action.yml");
    let mut found = vec![(action.clone(), fs::read_to_string(action).expect("UTF-8"))];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                assert_eq!(path.extension().and_then(|end| end.to_str()), Some("yml"), "{}", path.display());
                found.push((path.clone(), fs::read_to_string(&path).expect("UTF-8")));
            }
        }
    }
    found
}

/// The words of a text as a shell or a list of YAML separates them, without comments.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| line.split_once("# ").map_or(line, |(code, _)| code));
    lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || "\"'[](),".contains(c)))
}

/// The part of a path before its first `*`, which must exist: the folder of it if the `*` is within
/// a name.
fn certain(path: &str) -> &str {
    let plain = path.split('*').next().unwrap_or_default();
    if plain.len() == path.len() { path } else { plain.rsplit_once('/').map_or("", |(folder, _)| folder) }
}

#[test]
fn named_files_exist() {
    let mut named = BTreeSet::new();
    for (file, text) in configured() {
        for word in words(&text) {
            // A path of the action itself begins where the action lies.
            let word = word.strip_prefix("$GITHUB_ACTION_PATH/").unwrap_or(word);
            let own = ["/.github/", ".ci/", ".github/", "bins/", "crates/", "python/", "fuzz/", "release/"];
            if own.iter().any(|folder| word.starts_with(folder)) {
                let path = certain(word.trim_start_matches('/'));
                assert!(root().join(path).exists(), "{}: {word} does not exist", file.display());
                named.insert(path.to_owned());
            }
        }
    }
    for program in [".ci/run", ".ci/packages", ".ci/fresh", ".ci/platforms", "release/build", "release/check"]
    {
        assert!(named.contains(program), "no workflow calls {program}; found: {named:?}");
        let mode = fs::metadata(root().join(program)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{program} is not executable");
    }
    for path in ["bins/flopgap", "python/Cargo.toml", "python/tests"] {
        assert!(named.contains(path), "no workflow names {path}; found: {named:?}");
    }
}

#[test]
fn actions_are_pinned() {
    let mut pinned = 0;
    for (file, text) in configured() {
        for used in text.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("uses: "))
        {
            let (action, rest) = used.split_once('@').expect("ACTION@COMMIT # VERSION");
            let (commit, version) = rest.split_once(" # v").expect("ACTION@COMMIT # VERSION");
            let is_commit = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
            assert!(is_commit && !version.is_empty(), "{}: {action} is not pinned: {used}", file.display());
            pinned += 1;
        }
    }
    assert!(pinned >= 5, "only {pinned} uses of actions were found");
}

#[test]
fn programs_are_named_after_their_folders() {
    // `cargo install --path bins/NAME` brings NAME.
    for entry in fs::read_dir(root().join("bins")).expect("a folder") {
        let folder = entry.expect("an entry").path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(manifest.contains(&format!("\nname = \"{name}\"\n")), "bins/{name}: another name");
        assert!(folder.join("src/main.rs").exists(), "bins/{name}: no program");
    }
}

#[test]
fn tools_have_the_versions_of_continuous_integration() {
    let ci = fs::read_to_string(root().join(".ci/run")).expect(".ci/run");
    let ours: BTreeSet<&str> = words(&ci).filter(|word| word.contains("==")).collect();
    let mut compared = 0;
    let build = root().join("release/build");
    let text = fs::read_to_string(&build).expect("release/build");
    for (file, text) in configured().into_iter().chain([(build, text)]) {
        for tool in
            words(&text).filter(|word| ["maturin==", "pytest=="].iter().any(|it| word.starts_with(it)))
        {
            assert!(ours.contains(tool), "{}: {tool} differs from .ci/run", file.display());
            compared += 1;
        }
    }
    assert!(compared >= 3, "only {compared} versions were found");
}

#[test]
fn paths_with_wildcards() {
    assert_eq!(certain("python/**"), "python");
    assert_eq!(certain("bins/*/"), "bins");
    assert_eq!(certain(".ci/run"), ".ci/run");
}
