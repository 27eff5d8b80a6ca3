//! What is wrong is reported with the file and what to do.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use flopgap_files::Hint as _;
use flopgap_table::{Error, Source};

use crate::{fixtures, open};

fn refused(path: &Path) -> Error {
    let error = Source::open(path).expect_err("not a source");
    assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error}");
    error
}

#[test]
fn files_that_are_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    for path in [file("a.txt", b"hello\n"), file("empty", b""), folder.path().to_owned()] {
        let error = refused(&path);
        assert!(matches!(error, Error::Unrecognized { .. }), "{error:?}");
        assert!(error.hint().unwrap().contains(".ncu-rep"));
    }
    let error = refused(&file("a.nsys-rep", b"\x01\x02\x03"));
    assert!(error.hint().unwrap().contains("nsys export"), "{error}");
    let error = refused(&file("a.json", b"{\"a\": 1}"));
    assert!(error.to_string().contains("traceEvents"), "{error}");
    let error = refused(&file("a.sqlite", &[b"SQLite format 3\0".as_slice(), &[0; 84]].concat()));
    assert!(error.hint().is_some(), "{error}");
    let error = refused(&folder.path().join("nothing.sqlite"));
    assert!(error.is_not_found() && error.hint().is_none());
}

/// A report that breaks off within its compression is an error of the file, and not a short table.
#[test]
fn a_damaged_archive_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["nsys/small_forward.sqlite.zst", "ncu/full_raw.csv.zst"] {
        let whole = fs::read(fixtures().join(name)).unwrap();
        let path = folder.path().join("half.zst");
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let read = Source::open(&path).and_then(|source| {
            let table = source.tables()[0].name.clone();
            Ok((source.table(&table)?, source.warnings()))
        });
        match read {
            Err(error) => assert!(error.to_string().contains("half.zst"), "{error}"),
            Ok((_, warnings)) => {
                assert!(warnings.iter().any(|warning| warning.contains("half.zst")), "{name} {warnings:?}");
            }
        }
    }
}

#[test]
fn unknown_tables_and_columns_are_named_with_those_there_are() {
    let source = open("nsys/small_forward.sqlite.zst");
    let error = source.table("kernel").unwrap_err();
    assert!(error.to_string().ends_with("an export of Nsight Systems has no table `kernel`"), "{error}");
    assert!(error.hint().unwrap().starts_with("it has kernels, copies, memsets"));
    let error = source.table("kernels").unwrap().select(&["name", "duration"]).unwrap_err();
    assert!(error.is_absence());
    assert!(error.to_string().ends_with("the table `kernels` has no column `duration`"), "{error}");
    assert!(error.hint().unwrap().contains("duration_ns"));
}

#[test]
fn what_was_not_recorded_is_an_absence() {
    let error = open("nsys/nvtx_only.sqlite.zst").table("kernels").unwrap_err();
    assert!(error.is_absence());
    assert!(error.hint().unwrap().contains("nsys profile"), "{error}");
}

/// Neither memory nor the disk for temporary files is filled by a small file.
#[test]
fn a_small_database_that_unpacks_without_end_is_refused() {
    let (_folder, [path]) = flopgap_testing::paths(["trace.sqlite.zst"]);
    let begin = zstd::encode_all(&b"SQLite format 3\0"[..], 1).unwrap();
    let frame = zstd::encode_all(io::repeat(0).take(16 << 20), 1).unwrap();
    fs::write(&path, [begin, frame.repeat(100)].concat()).unwrap();
    let error = refused(&path);
    assert!(
        matches!(&error, Error::Unpack { reason, .. } if reason.kind() == ErrorKind::FileTooLarge),
        "{error:?}"
    );
    assert_eq!(error.hint().as_deref(), Some(flopgap_files::unpack::HINT));
}
