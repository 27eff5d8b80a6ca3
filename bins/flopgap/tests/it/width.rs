//! Tables fit the terminal, in every command, without losing a number.

use crate::{Ended, command, ended};

/// Commands that print tables, over recorded files.
const COMMANDS: [&str; 18] = [
    "nsys kernels fixtures/nsys/small_training_step.sqlite.zst",
    "nsys kernels fixtures/nsys/small_forward.sqlite.zst fixtures/nsys/small_training_step.sqlite.zst",
    "nsys kernels fixtures/kineto/ddp_rank0.json.gz fixtures/kineto/ddp_rank1.json.gz",
    "nsys passes fixtures/nsys/small_training_step.sqlite.zst",
    "nsys stats fixtures/nsys/small_forward.sqlite.zst --report cuda_gpu_kern_sum",
    "nsys stats fixtures/nsys/small_forward.sqlite.zst --report nvtx_gpu_proj_trace",
    "nsys rules fixtures/nsys/small_forward.sqlite.zst",
    "nsys compare fixtures/nsys/small_forward.sqlite.zst fixtures/nsys/small_training_step.sqlite.zst",
    "nsys diff fixtures/nsys/small_forward_backward.sqlite.zst fixtures/nsys/small_training_step.sqlite.zst",
    "nsys summary fixtures/nsys/small_training_step.sqlite.zst",
    "nsys summary fixtures/kineto/ddp_rank0.json.gz fixtures/kineto/ddp_rank1.json.gz",
    "ncu overhead --layers 10 --width 1024 --columns 128 --setup fixtures/ncu/n10_d1024_m128_setup.csv.zst \
     --forward fixtures/ncu/n10_d1024_m128_forward.csv.zst \
     --forward-backward fixtures/ncu/n10_d1024_m128_forward_backward.csv.zst",
    "ncu diff fixtures/ncu/n10_d1024_m128_setup.csv.zst fixtures/ncu/n10_d1024_m128_forward.csv.zst",
    "validate single -n 10 -d 1024 -m 128",
    "calibrate flops fixtures/models/resnet50.pt2",
    "calibrate flops fixtures/models/resnet50.pt2 --by module",
    "calibrate estimate fixtures/models/resnet50.pt2 --machine h200",
    "ncu kernels fixtures/ncu/n10_d1024_m128_forward.csv.zst --by kernel",
];

fn printed(line: &str, width: Option<u16>) -> Ended {
    let words: Vec<&str> = line.split_whitespace().collect();
    let cache = tempfile::tempdir().unwrap();
    let mut command = command(&words);
    command.env("XDG_CACHE_HOME", cache.path()).env_remove("COLUMNS");
    ended(command.envs(width.map(|width| ("COLUMNS", width.to_string()))))
}

#[test]
fn no_line_is_longer_than_columns_says() {
    let mut ran = 0;
    let mut wrong = Vec::new();
    for line in COMMANDS {
        let wide = printed(line, None);
        if wide.code != Some(0) {
            // A program of another feature, or one that finds what it judges.
            assert!(wide.code == Some(1) || wide.code == Some(3), "{line}: {}", wide.stderr);
            continue;
        }
        ran += 1;
        let width = 80_u16;
        let found = printed(line, Some(width));
        // A name that is longer has a line of its own in a sentence, so that it can be copied.
        let is_long = |text: &&str| text.chars().count() > usize::from(width) && text.trim().contains(' ');
        for text in found.stdout.lines().filter(is_long) {
            wrong.push(format!("{line}: at {width}: {text}"));
        }
        // No letters one below the other: a few lines more for headings, notes and sentences.
        let (few, many) = (wide.stdout.lines().count(), found.stdout.lines().count());
        if many > few * 2 + 20 {
            wrong.push(format!("{line}: {many} lines at {width}, {few} otherwise"));
        }
        let text = found.stdout.replace('\n', " ");
        if text.matches("Not shown in ").count() != text.matches(" shows all.").count() {
            wrong.push(format!("{line}: no way to see all"));
        }
        // What programs read is never fitted.
        assert!(!wide.stdout.contains("Not shown in "), "{line}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran >= 12, "{ran}");
}

#[test]
fn a_terminal_gets_no_markdown() {
    for line in [
        "nsys summary fixtures/nsys/small_training_step.sqlite.zst",
        "nsys passes fixtures/kineto/plain.json.gz",
    ] {
        let found = printed(line, Some(80)).stdout;
        for markup in ["\\_", "\\*", "\\<", "](", "**", "| ---"] {
            assert!(!found.contains(markup), "{line}: {markup}\n{found}");
        }
        assert!(!found.lines().any(|text| text.starts_with('#') || text.starts_with('|')), "{line}\n{found}");
    }
}
