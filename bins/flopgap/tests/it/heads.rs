//! The first line of every program's and command's help, and of its man page, says what it does.

use std::collections::BTreeMap;
use std::fs;

use super::flopgap;
use super::programs::SUBCOMMANDS;

/// What each command's help begins with; the first is that of `flopgap` itself. `run-table`, which
/// is another executable, has a test of its own.
const HEADS: &[(&str, &str)] = &[
    ("flopgap", "Answer the likeliest question about any trace, report, run or model"),
    ("gap", "What a step consists of, why the GPU does nothing, and what to change first"),
    (
        "nsys",
        "Answers from Nsight Systems exports (`nsys export --type sqlite`), also compressed (.gz, .zst)",
    ),
    ("nsys stats", "The reports of `nsys stats`: same names, columns, rows, order and digits"),
    ("nsys rules", "The expert rules of `nsys analyze`, which suggest what could be faster"),
    (
        "nsys passes",
        "Times of steps and passes: on the host, on the GPU, and compared with outside measurements",
    ),
    (
        "nsys kernels",
        "GPU time of a trace or a range by kernel: class, calls, time, share; two traces are shown side by side",
    ),
    ("nsys compare", "GPU time of two traces by kind of work, for example inference and training"),
    ("nsys attention", "Attention: times and FLOPs of its products and its softmax"),
    ("nsys diff", "What became slower or faster between two traces; for CI with --fail-if-slower"),
    ("nsys gap", "What a step consists of, why the GPU does nothing, and what to change first"),
    ("nsys summary", "Everything on one page: passes, kernels, shares, attention, memory, idle times"),
    ("nsys batch", "A summary page and CSV reports of every trace below a directory, with an index"),
    ("nsys capture", "Record a program with nsys, export the trace and summarize it"),
    ("nsys export", "Convert the trace for other tools: a timeline for Perfetto, or plain CSV tables"),
    ("ncu", "FLOPs, overheads and differences from Nsight Compute reports"),
    ("ncu overhead", "Compare counted with theoretical FLOPs of a square sigmoid MLP, forward and backward"),
    (
        "ncu kernels",
        "Show launches, FLOPs by precision, bytes and time of each kernel or kernel class of a report",
    ),
    ("ncu diff", "Compare the kernels of two reports"),
    (
        "profile",
        "Profile MLPs over (n, d, m) grids: counted and theoretical FLOPs as tables, surfaces and a report",
    ),
    ("profile new", "Measure a grid of networks on this machine's GPUs, then analyze it"),
    ("profile resume", "Measure what is missing in an interrupted run, or other sizes, then analyze it"),
    ("profile analyze", "Analyze the raw counters of a run: metrics.csv, 3D surfaces and report.html"),
    ("profile compare", "Compare two runs launch by launch: kernel, grid, block and counts"),
    ("validate", "Compare FLOPs of a square sigmoid MLP: theory, the framework's formula, hardware counters"),
    ("validate single", "Compare one network by class and pass, and explain the differences"),
    ("validate sweep", "Compare many networks with theory, as a table and plots over d"),
    (
        "bench",
        "Time one small MLP in several implementations, forward and backward, checked against 64 bits and compared with its floor",
    ),
    (
        "bench kernels",
        "List registers, spills and shared memory of the kernels for any architecture, without a GPU",
    ),
    ("bench show", "Show the results of --format json as tables"),
    ("bench diff", "Compare two results of --format json"),
    (
        "calibrate",
        "Measure networks on this machine, predict any network with an interval, and report the errors",
    ),
    (
        "calibrate probe",
        "Measure the peaks of this machine: arithmetic by precision, bandwidth by working set, launches",
    ),
    ("calibrate sweep", "Measure networks on this machine into a run directory"),
    ("calibrate fit", "Fit a predictor to measured rows and report its errors on rows that it has not seen"),
    (
        "calibrate report",
        "Compare measurements with estimates: errors, bottlenecks, efficiency factors, memory levels",
    ),
    ("calibrate estimate", "Estimate time, memory, energy and FLOPs of a model, with intervals"),
    (
        "calibrate machines",
        "List the machines that are built in, what was measured on each, by whom, and the errors",
    ),
    ("calibrate compare", "Compare two calibrations of one machine, point by point"),
    ("calibrate flops", "Count FLOPs and bytes of a model, by layer or module"),
    ("gate", "Decide whether a change makes a program do more, exactly, or take longer beyond scatter"),
    #[cfg(feature = "record")]
    ("record", "Record what a program and its children do on GPUs, and show where the time of a step goes"),
    #[cfg(feature = "record")]
    ("record start", "Start recording in programs that run"),
    #[cfg(feature = "record")]
    ("record stop", "Stop recording in programs that run, and write what is recorded"),
    #[cfg(feature = "record")]
    ("record convert", "Write what a directory has as an export, such as after a crash"),
    ("example", "Write recordings to try every answer on, and print the commands"),
    ("doctor", "Show what is installed, what each part makes possible, and what to do where it is missing"),
    #[cfg(feature = "mcp")]
    ("mcp", "Serve the answers to language models: the Model Context Protocol on stdin and stdout"),
    ("completions", "Print a script that completes the command lines of flopgap and its programs in a shell"),
    ("man", "Write the man pages of flopgap and its programs"),
];

fn words(command: &str) -> Vec<&str> {
    command.split_whitespace().filter(|word| *word != "flopgap").collect()
}

/// The first paragraph, on one line.
fn head(help: &str) -> String {
    let lines: Vec<&str> = help.lines().take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// Adds the commands below one, each with its head.
fn collect(command: &clap::Command, above: &str, into: &mut BTreeMap<String, String>) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    into.insert(above.to_owned(), about);
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, &format!("{above} {}", below.get_name()), into);
    }
}

#[test]
fn every_help_begins_with_what_the_command_does() {
    let expected: BTreeMap<&str, &str> = HEADS.iter().copied().collect();
    assert_eq!(expected.len(), HEADS.len());
    for (command, expected) in HEADS {
        for help in ["--help", "-h"] {
            let printed = flopgap(&[&words(command)[..], &[help]].concat());
            printed.expect(0, &[]);
            assert_eq!(head(&printed.stdout), *expected, "{command} {help}");
        }
    }

    // No command is without a row, and the programs on their own say the same.
    let mut found = BTreeMap::new();
    for command in [
        nsys_analyze::command().name("nsys"),
        ncu_analyze::command().name("ncu"),
        hyper_profile::command().name("profile"),
        hyper_profile::validate::command().name("validate"),
        mlp_bench::command().name("bench"),
        model_calibrate::command().name("calibrate"),
    ] {
        collect(&command, command.get_name(), &mut found);
    }
    for (command, about) in &found {
        assert_eq!(expected.get(command.as_str()), Some(&about.as_str()), "{command}");
    }
    // Besides them there are `flopgap`, `flopgap gap`, and the commands of flopgap itself.
    let own = ["gate", "example", "doctor", "completions", "man"].len() + usize::from(cfg!(feature = "mcp"));
    // With `start`, `stop` and `convert`.
    let own = own + if cfg!(feature = "record") { 4 } else { 0 };
    assert_eq!(found.len() + 2 + own, HEADS.len());
}

#[test]
fn every_man_page_is_named_by_what_the_command_does() {
    let folder = tempfile::tempdir().unwrap();
    flopgap(&["man", "-o", folder.path().to_str().unwrap()]).expect(0, &[]);
    let mut pages = 0;
    for (command, expected) in HEADS {
        let words = words(command);
        let within = [&["flopgap"][..], &words].concat().join("-");
        let alone = SUBCOMMANDS.iter().find(|(subcommand, _)| words.first() == Some(subcommand));
        let alone = alone.map(|(_, program)| [&[*program][..], &words[1..]].concat().join("-"));
        for name in std::iter::once(within).chain(alone) {
            let page = fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
            let line = page.lines().skip_while(|line| *line != ".SH NAME").nth(1).unwrap();
            let line = line.replace("\\*(Aq", "'").replace('\\', "");
            assert_eq!(line, format!("{name} - {expected}"));
            pages += 1;
        }
    }
    // That of `flopgap table` names its program.
    let found = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(pages + 1, found);
}
