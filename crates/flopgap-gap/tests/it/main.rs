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

use std::path::Path;

use flopgap_testing::{fixture, unpack};
use flopgap_trace::Recording;
use tempfile::TempDir;

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
        unpack(path, &unpacked);
    } else {
        std::fs::copy(path, &unpacked).unwrap();
    }
    let trace = flopgap_nsys::Trace::open(&unpacked).unwrap_or_else(|error| panic!("{name}: {error}"));
    Opened { trace: Box::new(trace), _folder: Some(folder) }
}
