//! The programs as subcommands, completions and man pages.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use flopgap_testing::Ended;

use crate::{command, flopgap};

/// The name of each program on its own, by that as a command.
pub(crate) const SUBCOMMANDS: [(&str, &str); 6] = [
    ("nsys", "nsys-analyze"),
    ("ncu", "ncu-analyze"),
    ("profile", "hyper-profile"),
    ("validate", "mlp-validate"),
    ("bench", "mlp-bench"),
    ("calibrate", "model-calibrate"),
];

#[test]
fn help_names_every_program_and_programs_name_themselves() {
    let help = flopgap(&["--help"]);
    help.expect(0, &[]).prints(&["FILE → answer:", "Examples:", "completions", "man", "table"]);
    for (subcommand, program) in SUBCOMMANDS {
        assert!(help.stdout.contains(&format!("\n  {subcommand} ")), "{subcommand}: {}", help.stdout);
        let usage = format!("Usage: flopgap {subcommand}");
        flopgap(&[subcommand, "--help"]).expect(0, &[]).prints(&[&usage]);
        flopgap(&[subcommand, "--no-such-option"]).expect(2, &[&usage]);
        flopgap(&[subcommand, "--version"]).expect(0, &[]).prints(&[program]);
    }
    flopgap(&["--version"]).expect(0, &[]).prints(&["flopgap "]);
    flopgap(&["help", "nsys"]).expect(0, &[]).prints(&["summary"]);
    flopgap(&["nsys", "summary"]).expect(2, &["Usage: flopgap nsys summary"]);
}

#[test]
fn errors_and_warnings_begin_with_the_command() {
    for (command, program) in [
        ("nsys stats absent.sqlite", "nsys-analyze"),
        ("ncu kernels absent.csv", "ncu-analyze"),
        ("profile analyze absent", "hyper-profile"),
        ("validate sweep absent", "mlp-validate"),
        ("bench show absent.json", "mlp-bench"),
        ("calibrate flops absent.onnx", "model-calibrate"),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let failed = flopgap(&words);
        assert_ne!(failed.code, 0, "{command}");
        assert!(failed.stderr.starts_with(&format!("flopgap {}: error: ", words[0])), "{}", failed.stderr);
        assert!(!failed.stderr.contains(program), "{}", failed.stderr);
    }
    // Also where a file is answered by a program.
    flopgap(&["fixtures/models/mlp_old.onnx"]).says(&["\nflopgap calibrate: error: "]);
}

#[test]
fn a_file_that_is_named_like_a_command() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy("../../fixtures/ncu/n4_d512_m64_forward.csv", folder.path().join("nsys")).unwrap();
    let answer = Ended::of(command(&["./nsys"]).current_dir(folder.path()));
    answer.expect(0, &["`flopgap ncu kernels ./nsys`"]).prints(&["split-k-reduce"]);
}

#[test]
fn workers_are_started_as_the_subcommand() {
    // What the processes of several devices are started as: without a GPU, it says so as one.
    let mut worker = command(&["profile", "count-on", "--device", "0"]);
    let worker = Ended::of(worker.stdin(Stdio::null()).env("CUDA_VISIBLE_DEVICES", ""));
    worker.expect(0, &[]).prints(&["{\"error\":"]);
}

#[test]
fn run_table_is_found_beside_flopgap_or_in_the_path() {
    let (folder, [beside, path]) = flopgap_testing::paths(["bin", "path"]);
    fs::create_dir_all(&beside).unwrap();
    fs::create_dir_all(&path).unwrap();
    let flopgap = beside.join("flopgap");
    fs::copy(assert_cmd::cargo::cargo_bin("flopgap"), &flopgap).unwrap();
    let run = |arguments: &[&str]| Ended::of(Command::new(&flopgap).args(arguments).env("PATH", &path));

    let missing = run(&["table", "query", "data"]);
    missing.expect(3, &["neither beside flopgap nor in PATH", "cargo install run-table"]);

    let script = |at: &std::path::Path, text: &str| {
        let program = at.join("run-table");
        fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script(&path, "echo in the path \"$@\"; exit 3");
    run(&["table", "query", "--sql", "SELECT 1"])
        .expect(3, &[])
        .prints(&["in the path query --sql SELECT 1\n"]);
    script(&beside, "echo beside \"$@\"");
    run(&["table", "--help"]).expect(0, &[]).prints(&["beside --help\n"]);

    // A data set is asked by it.
    let data = folder.path().join("data");
    fs::create_dir_all(data.join("_runs")).unwrap();
    let data = data.to_str().unwrap();
    run(&[data])
        .expect(0, &[&format!("`flopgap table query {data}`")])
        .prints(&[&format!("beside query {data}\n")]);
}

#[test]
fn completions_are_scripts_of_their_shells() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = flopgap(&["completions", shell]);
        script.expect(0, &[]).prints(&["nsys-analyze", "hyper-profile", "summary"]);
        let file = folder.path().join(shell);
        fs::write(&file, &script.stdout).unwrap();
        // Where the shell is installed, it reads the script.
        if ["bash", "zsh", "fish"].contains(&shell)
            && let Ok(read) = Command::new(shell).arg("-n").arg(&file).output()
        {
            assert!(read.status.success(), "{shell}: {}", String::from_utf8_lossy(&read.stderr));
        }
    }
    let script = fs::read_to_string(folder.path().join("bash")).unwrap();
    for (subcommand, program) in SUBCOMMANDS {
        assert!(
            script.contains(&format!("flopgap__subcmd__{subcommand}"))
                || script.contains(&format!("flopgap__{subcommand}")),
            "{subcommand}"
        );
        assert!(
            script.contains(&format!(" {program}\n")) || script.contains(&format!(" {program} ")),
            "{program}"
        );
    }
}

#[test]
fn fish_completes_programs_files_and_values() {
    let (_folder, [file]) = flopgap_testing::paths(["flopgap.fish"]);
    fs::write(&file, flopgap(&["completions", "fish"]).stdout).unwrap();
    for (line, expected) in [
        ("flopgap nsys summ", "summary\t"),
        ("flopgap ncu kernels --by ", "kernel\t"),
        ("nsys-analyze diff --fail-if-sl", "--fail-if-slower\t"),
    ] {
        let script = format!("source {}; complete -C '{line}'", file.display());
        let Ok(read) = Command::new("fish").args(["--no-config", "-c", &script]).output() else { return };
        let (shown, wrong) = (String::from_utf8_lossy(&read.stdout), String::from_utf8_lossy(&read.stderr));
        assert_eq!(wrong, "", "{line}");
        assert!(shown.lines().any(|found| found.starts_with(expected)), "{line}: {shown}");
    }
}

#[test]
fn zsh_completes_programs_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    fs::write(folder.path().join("_flopgap"), flopgap(&["completions", "zsh"]).stdout).unwrap();
    fs::write(folder.path().join("step.sqlite"), "").unwrap();
    for (line, expected) in [
        ("flopgap nsys summ", "flopgap nsys summary"),
        ("flopgap st", "flopgap step.sqlite"),
        ("flopgap step.sqlite st", "flopgap step.sqlite step.sqlite"),
        ("flopgap ncu kernels --by cl", "flopgap ncu kernels --by class"),
        ("nsys-analyze summ", "nsys-analyze summary"),
    ] {
        // What the line becomes when the Tab key is pressed in a terminal.
        let script = format!(
            "zmodload zsh/zpty; cd {place}; rm -f line; zpty z zsh -f -i
             zpty -w z 'fpath=({place} $fpath); autoload -U compinit; compinit -u -d {place}/dump'
             zpty -w z 'show() {{ zle complete-word; print -r -- $BUFFER > {place}/line }}; zle -N show'
             zpty -w z 'bindkey ^T show; touch {place}/ready'
             for i in {{1..100}}; do [[ -e ready ]] && break; sleep 0.1; done; rm -f ready
             zpty -n -w z '{line}'$'\\x14'
             for i in {{1..100}}; do [[ -s line ]] && break; sleep 0.1; zpty -r -t z ignored; done
             cat line; zpty -d z"
        );
        let Ok(read) = Command::new("zsh").args(["-f", "-c", &script]).output() else { return };
        let shown = String::from_utf8_lossy(&read.stdout);
        assert_eq!(shown.trim(), expected, "{line}: {}", String::from_utf8_lossy(&read.stderr));
    }
}

#[test]
fn man_pages_are_written_for_every_program() {
    let (_folder, [output]) = flopgap_testing::paths(["man1"]);
    flopgap(&["man", "-o", output.to_str().unwrap()]).expect(0, &["man pages in "]);
    for name in SUBCOMMANDS
        .iter()
        .map(|(_, program)| format!("{program}.1"))
        .chain(SUBCOMMANDS.iter().map(|(subcommand, _)| format!("flopgap-{subcommand}.1")))
    {
        let text = fs::read_to_string(output.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{name}: {text}");
    }
    assert!(output.join("flopgap-nsys-summary.1").exists() && output.join("nsys-analyze-summary.1").exists());
    // Where groff is installed, it finds nothing wrong with them.
    for name in ["flopgap.1", "flopgap-nsys-summary.1", "model-calibrate.1"] {
        let Ok(read) =
            Command::new("groff").args(["-k", "-man", "-Tutf8", "-ww"]).arg(output.join(name)).output()
        else {
            return;
        };
        assert!(
            read.status.success() && read.stderr.is_empty(),
            "{name}: {}",
            String::from_utf8_lossy(&read.stderr)
        );
    }
}
