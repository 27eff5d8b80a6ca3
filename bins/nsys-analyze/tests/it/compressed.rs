//! Exports that are compressed.

use std::fs;
use std::io::Write as _;

use crate::{fixtures, run, trace};

#[test]
fn a_compressed_export_gives_what_the_export_gives() {
    let (folder, path) = trace("small_forward");
    let expected = run(&["passes", &path]);
    expected.succeeds_quietly();

    let zst = fixtures().join("small_forward.sqlite.zst");
    let zst = zst.to_str().unwrap();
    assert_eq!(run(&["passes", zst]).stdout, expected.stdout);
    let summary = run(&["summary", zst]).stdout;
    assert!(summary.contains(&format!("- file: {zst}\n")), "{summary}");

    // Without its name: the content decides.
    let gz = folder.path().join("small_forward.xz");
    let mut encoder =
        flate2::write::GzEncoder::new(fs::File::create(&gz).unwrap(), flate2::Compression::fast());
    encoder.write_all(&fs::read(&path).unwrap()).unwrap();
    encoder.finish().unwrap();
    let found = run(&["passes", gz.to_str().unwrap()]);
    assert_eq!((found.stdout, found.stderr.as_str()), (expected.stdout, ""));
}

#[test]
fn two_compressed_exports_are_compared() {
    let [before, after] = ["small_forward", "small_training_step"]
        .map(|name| fixtures().join(format!("{name}.sqlite.zst")).to_str().unwrap().to_owned());
    run(&["compare", &before, &after])
        .succeeds_quietly()
        .prints(&["A is one `step_*` (mean of 2) of small_forward, B"]);
}

#[test]
fn a_damaged_compressed_export_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let packed = fs::read(fixtures().join("small_forward.sqlite.zst")).unwrap();
    let path = folder.path().join("cut.sqlite.zst");
    fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    let output = run(&["summary", path.to_str().unwrap()]);
    output.refuses(1, &[]);
    let begin = format!("nsys-analyze: error: {}: cannot be unpacked in ", path.display());
    assert!(output.stderr.starts_with(&begin), "{}", output.stderr);
    output.says(&["hint: decompress the file yourself"]);
}

#[test]
fn a_compressed_file_that_is_not_an_export_is_refused() {
    let (_folder, [path]) = flopgap_testing::paths(["notes.zst"]);
    fs::write(&path, zstd::encode_all(&b"notes of a meeting"[..], 3).unwrap()).unwrap();
    run(&["summary", path.to_str().unwrap()])
        .refuses(1, &[&format!("{}: ", path.display()), "compressed with zstd\n  hint: decompress it first"]);
}
