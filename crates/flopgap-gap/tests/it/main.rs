//! Steps taken apart: recorded, generated, and of programs with a planted cause.

mod activity;
mod causes;
mod clocks;
mod copies;
mod differences;
mod executed;
mod experiments;
mod first;
mod floor;
mod frames;
mod frequency;
mod graphs;
mod pieces;
mod ranks;
mod sums;
mod tokens;
mod whole;

use std::path::{Path, PathBuf};

use flopgap_trace::Recording;
use tempfile::TempDir;

/// A file of `fixtures/`.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// An open trace, and the folder that it was unpacked to.
struct Opened {
    trace: Box<dyn Recording>,
    _folder: Option<TempDir>,
}

fn open(path: &Path) -> Opened {
    let name = path.to_string_lossy();
    if name.contains(".json") {
        let trace = flopgap_kineto::Job::open(&[path]).unwrap_or_else(|error| panic!("{name}: {error}"));
        return Opened { trace: Box::new(trace), _folder: None };
    }
    let folder = TempDir::new().unwrap();
    let unpacked = folder.path().join("trace.sqlite");
    if name.ends_with(".zst") {
        std::fs::write(&unpacked, zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap()).unwrap();
    } else {
        std::fs::copy(path, &unpacked).unwrap();
    }
    let trace = flopgap_nsys::Trace::open(&unpacked).unwrap_or_else(|error| panic!("{name}: {error}"));
    Opened { trace: Box::new(trace), _folder: Some(folder) }
}
