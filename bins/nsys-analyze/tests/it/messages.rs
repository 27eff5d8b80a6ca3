//! `--quiet`, `--verbose` and colors.

use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use flopgap_testing::Ended;

use super::{run, trace};

#[test]
fn a_quiet_program_says_nothing_of_its_success_and_a_verbose_one_what_it_read() {
    let (folder, path) = trace("small_forward");
    let page = folder.path().join("page.md");
    let summary = ["summary", &path, "-o", page.to_str().unwrap()];
    let said = |more: &str| run(&[&summary[..], &[more]].concat()).stderr;
    assert!(run(&summary).stderr.contains("nsys-analyze: wrote "));
    assert_eq!(said("--quiet"), "");
    let verbose = said("-v");
    assert!(verbose.contains("small_forward.sqlite: export of Nsight Systems, opened: 0."), "{verbose}");
    assert!(
        verbose.contains("nsys-analyze: wrote ") && verbose.contains("nsys-analyze: total: "),
        "{verbose}"
    );
    // The options are accepted before the command, too, and the answer is the same.
    let quiet = run(&["-q", "kernels", &path]);
    assert_eq!(quiet.stdout, run(&["kernels", &path, "-v"]).stdout);
    assert_eq!(run(&["kernels", &path, "-q", "-v"]).code, 2);
}

#[test]
fn a_quiet_program_still_says_what_is_missing() {
    let (_folder, path) = trace("small_forward");
    let loud = run(&["stats", &path, "--report", "nvtx_sum,um_sum"]);
    let quiet = run(&["stats", &path, "--report", "nvtx_sum,um_sum", "-q"]);
    quiet.says(&["SKIPPED: um_sum"]);
    assert_eq!((quiet.stdout, quiet.stderr), (loud.stdout, loud.stderr));
    assert!(run(&["stats", "absent.sqlite", "-q"]).stderr.contains("error: "));
}

#[test]
fn messages_have_colors_only_where_they_are_wanted() {
    let said = |variables: &[(&str, &str)]| {
        let mut command = Command::new(cargo_bin("nsys-analyze"));
        command.args(["stats", "absent.sqlite"]).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        Ended::of(command.envs(variables.iter().copied())).stderr
    };
    let plain = said(&[]);
    assert!(plain.starts_with("nsys-analyze: error: absent.sqlite"), "{plain}");
    let colored = said(&[("CLICOLOR_FORCE", "1")]);
    assert!(
        colored.starts_with("nsys-analyze: \u{1b}[1m\u{1b}[31merror:\u{1b}[0m absent.sqlite"),
        "{colored:?}"
    );
    assert_eq!(said(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), plain);
}
