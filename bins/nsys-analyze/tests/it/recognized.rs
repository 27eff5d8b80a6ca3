//! What is recognized as a trace, wherever it lies, and which traces are one job.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

use crate::{fixtures, run};

fn unpacked(name: &str) -> String {
    let packed = fs::File::open(fixtures().join("../kineto").join(name)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    text
}

/// A trace whose first key is of 200 kB, as some schedulers write them.
fn with_a_long_first_key(name: &str) -> String {
    unpacked(name).replacen('{', &format!("{{\"environment\": \"{}\",", "x]}\\\"".repeat(40_000)), 1)
}

fn packed(path: &Path, text: &str) {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    fs::write(path, encoder.finish().unwrap()).unwrap();
}

#[test]
fn what_stands_before_the_events_hides_no_trace() {
    let (folder, [input]) = flopgap_testing::paths(["in"]);
    fs::create_dir(&input).unwrap();
    fs::write(input.join("long.json"), with_a_long_first_key("plain.json.gz")).unwrap();
    packed(&input.join("long.json.gz"), &with_a_long_first_key("layer.json.gz"));
    fs::write(input.join("any name"), with_a_long_first_key("graph.json.gz")).unwrap();
    fs::write(input.join("package.json"), "{\"schemaVersion\": 2, \"name\": \"x\"}").unwrap();
    fs::write(input.join("picture.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
    let output = folder.path().join("out");
    let (from, to) = (input.to_str().unwrap(), output.to_str().unwrap());
    let done = run(&["batch", from, "--output", to, "--format", "json"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    for line in [
        "long.json: done",
        "long.json.gz: done",
        "any name: done",
        "SKIPPED: package.json: not recognized: JSON",
    ] {
        assert!(done.stderr.lines().any(|found| found.ends_with(line)), "{line}: {}", done.stderr);
    }
    done.says(&["SKIPPED: picture.png: not recognized: "]);
    let index = fs::read_to_string(output.join("index.json")).unwrap();
    assert!(index.contains("SKIPPED: package.json") && index.contains("SKIPPED: picture.png"), "{index}");
    // As it was: only the first key is new.
    let plain = fixtures().join("../kineto/plain.json.gz");
    let kernels = |path: &Path| run(&["kernels", path.to_str().unwrap(), "--format", "csv"]).stdout;
    assert_eq!(kernels(&input.join("long.json")), kernels(&plain));
}

#[test]
fn unrelated_traces_of_a_directory_are_not_one_job() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let path = folder.path().to_str().unwrap();
    let (first, second) = (unpacked("ddp_rank0.json.gz"), unpacked("ddp_rank1.json.gz"));
    write("a.json", &first);
    write("notes.txt", "x");
    let refused = |why: &str| {
        let done = run(&["kernels", path]);
        assert_eq!(done.code, 2, "{why}: {}", done.stderr);
        assert!(
            done.stderr.contains(why) && done.stderr.contains("flopgap nsys batch"),
            "{why}: {}",
            done.stderr
        );
    };
    // The same rank of a second run, a day later: of its base, all times.
    let at = second.find("\"baseTimeNanoseconds\": ").unwrap() + "\"baseTimeNanoseconds\": ".len();
    let end = at + second[at..].find(|c: char| !c.is_ascii_digit()).unwrap();
    let later = second[at..end].parse::<u64>().unwrap() + 86_400_000_000_000;
    write("b.json", &format!("{}{later}{}", &second[..at], &second[end..]));
    refused("b.json: was recorded at another time than");
    let size = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    write("b.json", &size(&second, "\"world_size\": 2", "\"world_size\": 4"));
    refused("b.json: is of a job of another size than");
    write("b.json", &second.replacen('{', "{\"job_id\": 17,", 1));
    write("a.json", &first.replacen('{', "{\"job_id\": 16,", 1));
    refused("b.json: names another job than");
    write("a.json", &first);
    write("b.json", &unpacked("plain.json.gz"));
    refused("b.json: does not say of which rank it is");
    write("b.json", &second);
    run(&["kernels", path]).expect(0, &["notes.txt: not recognized: "]);
}
