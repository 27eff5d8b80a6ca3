//! Damaged recordings are read as far as they say something, and never end the reader.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flopgap_record::{Options, RecordError, export};
use proptest::prelude::*;

use crate::program::Recorded;

/// A recording of a few launches, as its bytes.
fn recording() -> &'static [u8] {
    static RECORDING: OnceLock<Vec<u8>> = OnceLock::new();
    RECORDING.get_or_init(|| {
        let recorded = Recorded::new(Options::default());
        assert!(recorded.program(&["launch", "20"]).status().unwrap().success());
        fs::read(&files(recorded.session.directory())[0]).unwrap()
    })
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|it| it == "fgr")).collect()
}

fn exported(bytes: &[u8]) -> Result<flopgap_record::Exported, RecordError> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("1.fgr"), bytes).unwrap();
    export(folder.path(), &folder.path().join("x.sqlite"))
}

#[test]
fn other_files_are_refused() {
    let refused = exported(b"SQLite format 3\0").unwrap_err().to_string();
    assert!(refused.ends_with("1.fgr: not a recording of flopgap"), "{refused}");
    let empty = tempfile::tempdir().unwrap();
    let refused = export(empty.path(), &empty.path().join("x.sqlite")).unwrap_err();
    assert!(matches!(refused, RecordError::Empty { .. }));
}

#[test]
fn a_recording_that_ends_early_has_what_came_before() {
    let whole = exported(recording()).unwrap();
    assert_eq!((whole.kernels, whole.ranges), (40, 20));
    let mut last = 0;
    for length in (4096..recording().len()).step_by(4096) {
        let part = exported(&recording()[..length]).unwrap();
        assert!(part.kernels >= last && part.kernels <= 40);
        last = part.kernels;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]
    /// Any number of bytes are anything, in places where a recording has something.
    #[test]
    fn damage_is_survived(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut bytes = recording().to_vec();
        let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        for (index, value) in damage {
            bytes[*index.get(&used)] = value;
        }
        // An error is as good as an export; neither is a panic or endless.
        let _ = exported(&bytes);
    }
}
