//! The program without default features: what it answers, and what it says of the rest.

use crate::flopgap;

const STEP: &str = "fixtures/nsys/small_training_step.sqlite.zst";

#[test]
fn traces_and_reports_are_answered() {
    let screen = flopgap(&[STEP]);
    screen.expect(0, &[]).prints(&["small_training_step on NVIDIA H200\n", "What to change first"]);
    let reports: [&[&str]; 4] = [
        &["fixtures/kineto/ddp_rank0.json.gz", "fixtures/kineto/ddp_rank1.json.gz"],
        &["fixtures/ncu/n4_d512_m64_forward.csv"],
        &["gap", STEP, "--format", "json"],
        &["nsys", "kernels", STEP, "--format", "csv"],
    ];
    for words in reports {
        let answer = flopgap(words);
        assert_eq!(answer.code, 0, "{words:?}: {}", answer.stderr);
    }
}

#[test]
fn what_is_left_out_says_which_feature_it_needs() {
    let absent: [(&[&str], &str); 9] = [
        (&["--all", STEP], "pages"),
        (&["gap", STEP, "-o", "page.html"], "pages"),
        (&["gap", STEP, "--format", "html"], "pages"),
        (&["nsys", "summary", STEP, "-o", "page.html"], "pages"),
        (&["nsys", "batch", ".", "--output", "x"], "pages"),
        (&["nsys", "capture", "--", "true"], "pages"),
        (&["nsys", "export", STEP, "--format", "csv", "--table", "kernels"], "tables"),
        (&["completions", "bash"], "completions"),
        (&["man", "-o", "man1"], "completions"),
    ];
    for (words, feature) in absent {
        let needs = format!("need the feature `{feature}`, which this program was built without\n");
        let hint = format!("hint: install flopgap with its default features, or with `--features {feature}`");
        flopgap(words).expect(3, &[&needs, &hint]);
    }
    let help = flopgap(&["help", "nsys"]);
    help.expect(0, &[]).prints(&["summary", "batch", "capture", "export"]);
    let tried = tempfile::tempdir().unwrap();
    let example = flopgap(&["example", "-o", tried.path().to_str().unwrap()]);
    assert!(!example.stdout.contains(".html"), "{}", example.stdout);
}
