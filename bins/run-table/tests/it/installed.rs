//! What the program has where it is built alone, as `cargo install` does. A test that runs the
//! program that the workspace built does not see that: features of all packages come together
//! there.

use std::process::Command;

use crate::{done, fixtures, rows};

/// Help and README promise sources of any kind, so every feature of their reader is asked for by
/// name.
#[test]
fn every_feature_of_the_reader_is_asked_for() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = |list: &serde_json::Value, name: &str| -> Vec<serde_json::Value> {
        let all = list.as_array().unwrap().iter();
        all.filter(|one| one["name"] == name && one["kind"].is_null()).cloned().collect()
    };
    let package = |name: &str| named(&metadata["packages"], name).remove(0);
    let features = package("flopgap-table")["features"].as_object().unwrap().clone();
    assert!(features.contains_key("calibration") && features.contains_key("parquet"), "{features:?}");
    let asked = named(&package("run-table")["dependencies"], "flopgap-table").remove(0);
    // The default is made of these.
    for feature in features.keys().filter(|feature| *feature != "default") {
        let has_it = asked["features"].as_array().unwrap().iter().any(|asked| asked == feature);
        assert!(has_it, "bins/run-table/Cargo.toml: flopgap-table without its feature `{feature}`");
    }
}

#[test]
fn calibrations_are_collected() {
    let (_folder, [output]) = flopgap_testing::paths(["out"]);
    let input = fixtures().join("calibration/xeon-native.jsonl.zst");
    done(&[
        "collect",
        input.to_str().unwrap(),
        "-o",
        output.to_str().unwrap(),
        "--table",
        "calibration",
        "--format",
        "csv",
    ])
    .prints(&["xeon-native,calibration,collected,1,"]);
    let counted = rows(&output, "select count(*) as n from calibration where median_ns > 0");
    assert!(counted[0].parse::<u64>().unwrap() > 100, "{counted:?}");
}
