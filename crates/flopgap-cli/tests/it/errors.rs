//! Holds the conventions of errors: `Display` never repeats a source, which the program prints
//! once, and errors name types of other packages only where that is meant.

use std::fs;
use std::path::{Path, PathBuf};

/// Libraries whose errors hold errors of another package, because its data is what they are about;
/// a new major version of that package is one of the library, too.
const MEANT: &[(&str, &str)] = &[("flopgap-gpu", "cudarc"), ("flopgap-table", "arrow_schema")];

/// The Rust sources below a directory.
fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The lines, from 1, of attributes of thiserror that print a source.
fn repeated(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut within = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        within |= line.starts_with("#[error(");
        if within && (line.contains("{source}") || line.contains("{source:")) {
            found.push(index + 1);
        }
        within &= !line.ends_with(")]");
    }
    found
}

#[test]
fn no_error_repeats_its_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for directory in ["crates", "bins"] {
        sources(&root.join(directory), &mut paths);
    }
    assert!(paths.len() > 500, "only {} files were found", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let shown = path.strip_prefix(&root).expect("below the root").display().to_string();
        wrong.extend(repeated(&text).into_iter().map(|line| format!("{shown}:{line}")));
    }
    wrong.retain(|place| !place.contains("tests/it/errors.rs"));
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn attributes_of_several_lines_are_read() {
    let wrong = "#[error(\n    \"{}: {source}\",\n    path.display()\n)]\nIo { source: Error }\n// {source}";
    assert_eq!(repeated(wrong), [2]);
    assert_eq!(repeated("#[error(\"{}\", path.display())]\n#[source]\nsource: Error,"), [0; 0]);
}

/// The packages, of `others`, whose types a public error of a source file holds.
fn held<'a>(text: &str, others: &[&'a str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let is_public =
        |head: &str| head.split(['{', '<', ' ']).next().is_some_and(|name| name.ends_with("Error"));
    for item in text.split("\npub enum ").skip(1).filter(|item| is_public(item)) {
        let body = item.split("\n}\n").next().unwrap_or_default();
        let words = |text: &str| -> Vec<String> {
            text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
        };
        let (in_body, uses) = (words(body), text.lines().filter(|line| line.starts_with("use ")));
        let uses: Vec<&str> = uses.collect();
        for &other in others {
            let imported = uses.iter().filter(|line| line.starts_with(&format!("use {other}::")));
            let mut names = imported.flat_map(|line| words(line).into_iter().skip(2));
            let path = format!("{other}::");
            let is_path = body.match_indices(&path).any(|(at, _)| {
                !body[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') && !body[..at].ends_with('[')
            });
            // A type, or the module of one.
            let is_held = |name: &str| match name.chars().next() {
                Some(first) if first.is_uppercase() => {
                    let converts = text.contains(&format!("impl From<{name}> for"));
                    converts || (name != "Error" && in_body.iter().any(|word| word == name))
                }
                Some(_) => body.contains(&format!("{name}::")),
                None => false,
            };
            let converts = text.contains(&format!("impl From<{other}::"));
            if is_path || converts || names.any(|name| is_held(&name)) {
                found.push(other);
            }
        }
    }
    found
}

#[test]
fn errors_hold_errors_of_other_packages_only_where_meant() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let mut found = Vec::new();
    for entry in fs::read_dir(&root).expect("a directory of the repository") {
        let folder = entry.expect("an entry").path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let (_, dependencies) = manifest.split_once("[dependencies]\n").unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        let names = dependencies.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
        let ours = |name: &str| name.is_empty() || name.starts_with(['#']) || name.starts_with("flopgap-");
        let names: Vec<String> = names
            .filter(|name| !ours(name) && *name != "thiserror")
            .map(|name| name.replace('-', "_"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut paths = Vec::new();
        sources(&folder.join("src"), &mut paths);
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        for path in paths {
            let text = fs::read_to_string(&path).expect("UTF-8");
            found.extend(held(&text, &names).into_iter().map(|other| (name.clone(), other.to_owned())));
        }
    }
    found.sort_unstable();
    found.dedup();
    let found: Vec<(&str, &str)> =
        found.iter().map(|(name, other)| (name.as_str(), other.as_str())).collect();
    assert_eq!(found, MEANT);
}

#[test]
fn errors_of_other_packages_are_found() {
    let text = "use csv::Error as _;\nuse arrow_schema::ArrowError;\npub enum AError {\n    Csv(csv::Error),\n    \
                B(ArrowError),\n}\nfn f(e: zip::Error) {}\n";
    assert_eq!(held(text, &["csv", "arrow_schema", "zip"]), ["csv", "arrow_schema"]);
    assert_eq!(held(text, &["zip", "sv"]), [""; 0]);
    let converted = "\npub enum AError {\n    Csv,\n}\nimpl From<csv::Error> for AError {}\n";
    assert_eq!(held(converted, &["csv", "zip"]), ["csv"]);
    let module = "use csv::tensor::View;\npub enum AError {\n    A { tensor: String },\n}\n";
    assert_eq!(held(module, &["csv"]), [""; 0], "a module of that name is no type");
}
