//! The built `hyper-profile`: `analyze` on the recorded run here, `new` and `resume` on fake
//! counters in the modules.

mod browser;
#[cfg(unix)]
mod crash;
#[cfg(unix)]
mod disk;
mod fill;
mod messages;
#[cfg(unix)]
mod ncu;
mod script;
mod square;
mod support;
mod validate;

use std::fs;
use std::path::{Path, PathBuf};

use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use flopgap_testing::Ended;

fn recorded_run() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/h200-pytorch")
}

fn analyze(run: &Path, more: &[&str]) -> Ended {
    Ended::of(Command::new(cargo_bin("hyper-profile")).arg("analyze").arg(run).args(more))
}

/// A run with these raw files of the recorded one, and its manifest if asked for.
fn some_of_the_run(names: &[&str], manifest: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("raw")).unwrap();
    for name in names {
        let name = format!("{name}.csv.zst");
        fs::copy(recorded_run().join("raw").join(&name), folder.path().join("raw").join(&name)).unwrap();
    }
    if manifest {
        fs::copy(recorded_run().join("manifest.json"), folder.path().join("manifest.json")).unwrap();
    }
    folder
}

const COMPLETE: [&str; 3] = ["n2_d256_m16_setup", "n2_d256_m16_forward", "n2_d256_m16_forward_backward"];

/// The run that the README shows, without the pictures.
#[test]
fn the_default_grid_gives_the_recorded_table() {
    let run = recorded_run().join("../h200-default");
    let target = tempfile::tempdir().unwrap();
    let output = analyze(&run, &["--no-plots", "--output", target.path().to_str().unwrap()]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(!output.stderr.contains("warning"), "{}", output.stderr);
    let written = fs::read_to_string(target.path().join("processed/metrics.csv")).unwrap();
    assert_eq!(written, fs::read_to_string(run.join("processed/metrics.csv")).unwrap());
    assert_eq!(written.lines().count(), 1 + 1280 * 2);
}

#[test]
fn the_recorded_run_gives_the_recorded_table() {
    let target = tempfile::tempdir().unwrap();
    let output = analyze(&recorded_run(), &["--no-plots", "--output", target.path().to_str().unwrap()]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(!output.stderr.contains("warning"), "{}", output.stderr);
    let written = fs::read_to_string(target.path().join("processed/metrics.csv")).unwrap();
    let expected = fs::read_to_string(recorded_run().join("processed/metrics.csv")).unwrap();
    assert_eq!(written, expected);
    assert_eq!(written.lines().count(), 1 + 36 * 2);
    assert!(!target.path().join("plots").exists());
    assert!(!target.path().join("report.html").exists());
    output.prints(&["Overheads over the run"]);
}

#[test]
fn plots_and_report_are_written_for_every_metric_pass_and_n() {
    let run = some_of_the_run(&COMPLETE, false);
    analyze(run.path(), &[]).expect(0, &[]);
    for metric in ["epsilon", "rho", "kappa", "omega"] {
        assert!(run.path().join(format!("plots/heatmap_{metric}.svg")).exists());
        assert!(run.path().join(format!("plots/heatmap_{metric}.png")).exists());
        for pass in ["forward", "backward"] {
            let svg = fs::read_to_string(run.path().join(format!("plots/{metric}_{pass}_n2.svg"))).unwrap();
            assert!(svg.starts_with("<svg"));
            let png = fs::read(run.path().join(format!("plots/{metric}_{pass}_n2.png"))).unwrap();
            assert!(png.starts_with(b"\x89PNG\r\n"));
        }
    }
    let html = fs::read_to_string(run.path().join("report.html")).unwrap();
    // A click on a cell says which kernels: the steps of each point add up to what was counted.
    let data = html.split_once(r#"id="report-data">"#).unwrap().1.split_once("</script>").unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let sums = data["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|steps| steps.as_array().unwrap().iter().map(|step| step[4].as_i64().unwrap()).sum::<i64>());
    let metrics = fs::read_to_string(run.path().join("processed/metrics.csv")).unwrap();
    let totals = metrics.lines().skip(1).map(|line| line.split(',').nth(8).unwrap().parse::<i64>().unwrap());
    assert_eq!(sums.collect::<Vec<_>>(), totals.collect::<Vec<_>>());
    assert!(
        data["details"].as_array().unwrap().iter().any(|tile| tile.as_str().unwrap().contains('x')),
        "tiles"
    );
}

/// The grid is what was requested, not what is there: a width of which nothing was measured keeps
/// its place.
#[test]
fn a_width_that_was_not_measured_is_drawn_and_counted_as_missing() {
    let run = tempfile::tempdir().unwrap();
    fs::create_dir(run.path().join("raw")).unwrap();
    for entry in fs::read_dir(recorded_run().join("raw")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with("n2_") && !name.contains("_d1024_") {
            fs::copy(&path, run.path().join("raw").join(name)).unwrap();
        }
    }
    let manifest = fs::read_to_string(recorded_run().join("manifest.json")).unwrap();
    fs::write(run.path().join("manifest.json"), manifest.replace("[2, 4, 8]", "[2]")).unwrap();
    let output = analyze(run.path(), &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("9 of 12"), "the medians are over 9 of 12:\n{}", output.stdout);

    let plot = |name: &str| fs::read_to_string(run.path().join("plots").join(name)).unwrap();
    let heatmap = plot("heatmap_epsilon.svg");
    assert!(heatmap.contains("6 of 24 values missing (hatched)"), "both passes of three networks");
    let surface = plot("epsilon_forward_n2.svg");
    assert!(surface.contains("3 of 12 values missing (×)"));
    // The width has its place between its neighbors in each picture. (256 is a label of both
    // axes.)
    for width in ["512", "1,024", "2,048"] {
        let label = format!(">{width}</text>");
        assert_eq!(heatmap.matches(&label).count(), 2, "{width} below both grids");
        assert_eq!(surface.matches(&label).count(), 1, "{width}");
    }
}

#[test]
fn incomplete_and_damaged_configurations_are_listed_and_the_others_analyzed() {
    let run = some_of_the_run(
        &[&COMPLETE[..], &["n2_d256_m64_setup", "n2_d256_m64_forward", "n2_d512_m16_setup"]].concat(),
        true,
    );
    let raw = run.path().join("raw");
    fs::write(raw.join("n2_d512_m16_forward.csv"), "==ERROR== ERR_NVGPUCTRPERM - no permission\n").unwrap();
    fs::write(raw.join("n2_d512_m16_forward_backward.csv"), "").unwrap();
    fs::write(raw.join("notes.txt"), "mine").unwrap();
    let output = analyze(run.path(), &["--no-plots", "--format", "csv"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert_eq!(
        output.stdout.lines().count(),
        3,
        "the complete configuration, both passes:\n{}",
        output.stdout
    );
    for expected in [
        "n2_d256_m64: incomplete: no raw file for forward_backward",
        "n2_d512_m16_forward.csv:1: ncu was not permitted",
        "notes.txt: skipped",
        "error: 1 of 36 configurations refused; each is named above",
        "n8_d2048_m256: incomplete: no raw file for setup, forward, forward_backward\n  hint: name the files of",
    ] {
        assert!(output.stderr.contains(expected), "`{expected}` is not in\n{}", output.stderr);
    }
}

#[test]
fn a_run_with_nothing_complete_is_an_error() {
    let run = some_of_the_run(&COMPLETE[..1], false);
    analyze(run.path(), &[]).expect(3, &["of 1 configurations, none is complete and readable"]);
    assert!(!run.path().join("processed").exists());
}

#[test]
fn other_directories_are_not_runs() {
    let folder = tempfile::tempdir().unwrap();
    analyze(folder.path(), &[]).expect(3, &["not a run directory: it does not contain raw/\n  hint: "]);

    analyze(&folder.path().join("elsewhere"), &[]).expect(
        1,
        &[
            "elsewhere: cannot be accessed\n  caused by: No such file or directory",
            "hint: pass the directory of a run",
        ],
    );

    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    analyze(&file, &[]).expect(3, &["file: not a run directory"]);

    fs::create_dir(folder.path().join("raw")).unwrap();
    analyze(folder.path(), &[]).expect(3, &["no file in raw/ is named after a configuration"]);

    let run = some_of_the_run(&COMPLETE, false);
    fs::write(run.path().join("manifest.json"), r#"{"format":"flopgap-run","version":99}"#).unwrap();
    analyze(run.path(), &[]).expect(1, &["unsupported format `flopgap-run` version 99"]);
}

/// A binary report with NVTX ranges stands for the three CSV files of its configuration.
#[test]
fn one_binary_report_with_ranges_gives_the_same_rows() {
    let run = tempfile::tempdir().unwrap();
    fs::create_dir(run.path().join("raw")).unwrap();
    let report = recorded_run().join("../../ncu/phases_nvtx.ncu-rep.zst");
    fs::copy(report, run.path().join("raw/n4_d512_m64.ncu-rep.zst")).unwrap();
    analyze(run.path(), &["--no-plots"]).expect(0, &[]);
    let written = fs::read_to_string(run.path().join("processed/metrics.csv")).unwrap();
    let table = fs::read_to_string(recorded_run().join("processed/metrics.csv")).unwrap();
    let expected: Vec<&str> = table.lines().filter(|line| line.starts_with("4,512,64,")).collect();
    assert_eq!(written.lines().skip(1).collect::<Vec<_>>(), expected);
}

/// A record that lacks its last launch is named, and in no row and no median; `--force` shows it
/// with the reason.
#[test]
fn a_record_without_its_last_launch_is_named_and_left_out() {
    let default = recorded_run().join("../h200-default/raw");
    let (run, [raw]) = flopgap_testing::paths(["raw"]);
    fs::create_dir(&raw).unwrap();
    let [whole, cut] = ["n2_d128_m16", "n4_d128_m16"].map(|name| format!("{name}.counts.json.zst"));
    fs::copy(default.join(&whole), raw.join(&whole)).unwrap();
    let text = flopgap_testing::unpacked_text(default.join(&cut));
    let last = text.rfind(",\n[").unwrap();
    let rest = last + 2 + text[last + 2..].find(']').unwrap() + 1;
    fs::write(raw.join("n4_d128_m16.counts.json"), [&text[..last], &text[rest..]].concat()).unwrap();

    let output = analyze(run.path(), &["--no-plots", "--format", "csv"]);
    assert_eq!((output.code, output.stdout.lines().count()), (1, 3), "{}", output.stderr);
    assert!(output.stdout.lines().skip(1).all(|line| line.starts_with("2,128,16,")), "{}", output.stdout);
    let reason = "n4_d128_m16.counts.json: the backward phase has 3 of 4 split-K reductions; the one after";
    output.says(&[reason]);

    let forced = analyze(run.path(), &["--no-plots", "--format", "csv", "--force"]);
    assert_eq!((forced.code, forced.stdout.lines().count()), (0, 5), "{}", forced.stderr);
    forced.says(&[reason]);
}

/// 32 times theory, once accepted silently: a record under other sizes, of which the
/// first says what contradicts it.
#[test]
fn a_record_of_other_sizes_is_refused_with_those_that_ran() {
    let default = recorded_run().join("../h200-default/raw");
    let (run, [raw]) = flopgap_testing::paths(["raw"]);
    fs::create_dir(&raw).unwrap();
    let text = flopgap_testing::unpacked_text(default.join("n2_d512_m256.counts.json.zst"));
    for (name, columns) in [("n2_d512_m256", 256), ("n2_d512_m8", 8)] {
        let changed = text.replacen("\"m\":256", &format!("\"m\":{columns}"), 1);
        assert!(columns == 256 || changed != text);
        fs::write(raw.join(format!("{name}.counts.json")), changed).unwrap();
    }
    let output = analyze(run.path(), &["--no-plots", "--format", "csv"]);
    assert_eq!((output.code, output.stdout.lines().count()), (1, 3), "{}", output.stderr);
    for expected in [
        "n2_d512_m8.counts.json: the counts are not those of width 512 and 8 columns",
        "64.0000 for each of 4096 elements, and the gradient of a sigmoid takes 2",
        "they fit width 512 and 256 columns",
        "error: 1 of 2 configurations refused; each is named above",
    ] {
        assert!(output.stderr.contains(expected), "`{expected}` is not in\n{}", output.stderr);
    }
}

/// A refused network is drawn as refused, and lines at tiles stand where products are in the
/// metric.
#[test]
fn pictures_say_what_was_refused_and_what_their_lines_are() {
    let run = some_of_the_run(&[], false);
    let raw = run.path().join("raw");
    for (from, to) in
        [("n2_d256_m16", "n2_d256_m16"), ("n2_d256_m64", "n2_d256_m64"), ("n2_d512_m64", "n2_d512_m16")]
    {
        for stage in ["setup", "forward", "forward_backward"] {
            let source = recorded_run().join(format!("raw/{from}_{stage}.csv.zst"));
            fs::copy(source, raw.join(format!("{to}_{stage}.csv.zst"))).unwrap();
        }
    }
    analyze(run.path(), &[]).expect(1, &[]);
    let plot = |name: &str| fs::read_to_string(run.path().join("plots").join(name)).unwrap();
    let lines = "a tile of a recorded kernel is full";
    for (metric, lined) in [("epsilon", true), ("rho", false), ("kappa", false), ("omega", true)] {
        let picture = plot(&format!("heatmap_{metric}.svg"));
        assert!(picture.contains("2 of 6 values refused (crossed)"), "{metric}");
        assert!(!picture.contains("not measured"), "{metric}");
        assert_eq!(picture.contains(lines), lined, "{metric}");
    }
    let html = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(html.contains("2 complete, 0 incomplete, 1 refused"));
    assert!(html.contains("n2_d512_m16: the recording is not one of N=2 D=512 M=16"));
}

/// Damage of any kind must end in a message, never in a panic or a wrong row.
#[test]
fn truncated_raw_files_never_change_a_number() {
    let whole = fs::read(recorded_run().join("raw/n2_d256_m16_forward_backward.csv.zst")).unwrap();
    let run = some_of_the_run(&COMPLETE, false);
    let expected = analyze(run.path(), &["--no-plots", "--format", "csv"]).stdout;
    for part in [1, 3, 7] {
        let cut = whole.len() * part / 8;
        fs::write(run.path().join("raw/n2_d256_m16_forward_backward.csv.zst"), &whole[..cut]).unwrap();
        let output = analyze(run.path(), &["--no-plots", "--format", "csv"]);
        assert!(
            output.code == 3 || output.stdout == expected || output.stderr.contains("warning"),
            "{}",
            output.stdout
        );
        assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
    }
}
