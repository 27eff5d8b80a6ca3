//! All programs share one vocabulary of options, which `docs/GLOSSARY.md` holds, and the examples
//! in their help are command lines that they accept. This is a test of `run-table`, because no
//! other program may need what it takes to build that one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

/// Options that clap adds to every command.
const OF_CLAP: [&str; 2] = ["help", "version"];

/// Short names with two long names: `nsys stats -r` are reports and `nsys analyze -r` rules.
const OF_NSYS: [char; 1] = ['r'];

/// The formats; each command supports some of them.
const FORMATS: [&str; 8] = ["table", "json", "csv", "csv-escaped", "markdown", "html", "perfetto", "parquet"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn programs() -> Vec<Command> {
    vec![
        hyper_profile::command(),
        mlp_bench::command(),
        hyper_profile::validate::command(),
        model_calibrate::command(),
        ncu_analyze::command(),
        nsys_analyze::command(),
        run_table::command(),
    ]
}

/// Calls `visit` with each command that help shows, and its words: `nsys-analyze stats`.
fn each<'a>(command: &'a Command, above: &str, visit: &mut impl FnMut(&str, &'a Command)) {
    let words = format!("{above} {}", command.get_name()).trim_start().to_owned();
    visit(&words, command);
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        each(below, &words, visit);
    }
}

fn value(option: &Arg) -> String {
    if !option.get_action().takes_values() {
        return String::new();
    }
    match option.get_value_names() {
        Some(names) => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        None => option.get_id().as_str().to_uppercase(),
    }
}

fn help(option: &Arg) -> String {
    option.get_help().map(ToString::to_string).unwrap_or_default()
}

/// All options by long name, with the commands that have them.
fn options(programs: &[Command]) -> BTreeMap<&str, Vec<(String, &Arg)>> {
    let mut found: BTreeMap<&str, Vec<(String, &Arg)>> = BTreeMap::new();
    for program in programs {
        each(program, "", &mut |words, command| {
            for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
                if let Some(long) = option.get_long().filter(|long| !OF_CLAP.contains(long)) {
                    found.entry(long).or_default().push((words.to_owned(), option));
                }
            }
        });
    }
    found
}

/// A row of the table in `docs/GLOSSARY.md`.
struct Row {
    short: Option<char>,
    values: Vec<String>,
    begins: String,
}

fn vocabulary() -> BTreeMap<String, Row> {
    let text = fs::read_to_string(root().join("docs/GLOSSARY.md")).unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with("Options\n")).unwrap();
    let mut rows = BTreeMap::new();
    for line in section.lines().filter(|line| line.starts_with("| `-")) {
        let line = line.replace("\\|", "\u{1}");
        let cells: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
        let [names, value, begins] = cells.as_slice() else { panic!("{line}: three cells") };
        let values: Vec<String> = value.split(", ").map(str::to_owned).collect();
        let mut short = None;
        for name in names.replace('`', "").split(", ") {
            match name.strip_prefix("--") {
                Some(long) => {
                    let row = Row { short, values: values.clone(), begins: begins.clone() };
                    assert!(rows.insert(long.to_owned(), row).is_none(), "--{long} is in two rows");
                }
                None => short = name.chars().nth(1),
            }
        }
    }
    rows
}

#[test]
fn an_option_means_the_same_in_all_programs() {
    let (programs, vocabulary) = (programs(), vocabulary());
    let options = options(&programs);
    let mut wrong = Vec::new();
    for (long, found) in &options {
        let Some(row) = vocabulary.get(*long) else {
            if let [_, (also, _), ..] = found.as_slice() {
                wrong.push(format!("--{long} of {} and {also} is not in docs/GLOSSARY.md", found[0].0));
            }
            continue;
        };
        for (command, option) in found {
            if option.get_short() != row.short {
                wrong.push(format!("{command} --{long}: short name {:?}", option.get_short()));
            }
            if !row.values.contains(&value(option)) {
                wrong.push(format!("{command} --{long}: value {}", value(option)));
            }
            if !help(option).starts_with(&row.begins) {
                wrong.push(format!("{command} --{long}: {}", help(option)));
            }
        }
    }
    for long in vocabulary.keys().filter(|long| !options.contains_key(long.as_str())) {
        wrong.push(format!("--{long} of docs/GLOSSARY.md is in no program"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_short_name_has_one_long_name() {
    let programs = programs();
    let mut long_of: BTreeMap<char, &str> = BTreeMap::new();
    for (long, found) in options(&programs) {
        for (command, option) in found {
            let Some(short) = option.get_short().filter(|short| !OF_NSYS.contains(short)) else { continue };
            let known = *long_of.entry(short).or_insert(long);
            assert_eq!(known, long, "{command}: -{short}");
        }
    }
    assert!(long_of.len() >= 5, "{long_of:?}");
}

#[test]
fn formats_have_the_same_names() {
    let programs = programs();
    for (command, option) in &options(&programs)["format"] {
        let values = option.get_possible_values();
        assert!(values.len() > 1, "{command}");
        for value in values {
            assert!(FORMATS.contains(&value.get_name()), "{command} --format {}", value.get_name());
        }
    }
}

/// The command lines at the end of a command's help, continued lines joined.
fn examples(command: &Command) -> Vec<String> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let Some((_, below)) = text.split_once("Examples:\n") else { return Vec::new() };
    let indented = below.lines().take_while(|line| line.starts_with("  "));
    let joined = indented.map(str::trim).collect::<Vec<_>>().join("\n").replace("\\\n", "");
    joined.lines().map(str::to_owned).collect()
}

/// The words of a command line, as a shell would have them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for char in line.chars() {
        match (quote, char) {
            (None, ' ') => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            (None, '\'' | '"') => quote = Some(char),
            (Some(open), _) if open == char => quote = None,
            _ => word.push(char),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

/// `flopgap nsys stats` for `nsys-analyze stats`.
fn within(name: &str) -> String {
    let programs = [
        ("hyper-profile", "profile"),
        ("mlp-bench", "bench"),
        ("mlp-validate", "validate"),
        ("model-calibrate", "calibrate"),
        ("ncu-analyze", "ncu"),
        ("nsys-analyze", "nsys"),
        ("run-table", "table"),
    ];
    let (program, rest) = name.split_once(' ').unwrap_or((name, ""));
    let subcommand = programs.iter().find(|(alone, _)| *alone == program).unwrap().1;
    format!("flopgap {subcommand} {rest}").trim_end().to_owned()
}

#[test]
fn every_command_shows_examples_that_it_accepts() {
    let mut checked = 0;
    for program in programs() {
        each(&program, "", &mut |name, command| {
            let examples = examples(command);
            assert!(!examples.is_empty(), "{name}: no example");
            for example in examples {
                // As the command that the README's installation brings.
                let within = within(name);
                assert!(example.starts_with(&format!("{within} ")), "{name}: {example}");
                let words = words(&example).split_off(1);
                let parsed = program.clone().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{example}\n{}", parsed.unwrap_err());
                let is_file = |word: &&String| word.starts_with("fixtures/") || word.starts_with("bins/");
                for file in words.iter().filter(is_file) {
                    assert!(root().join(file).exists(), "{example}: {file} does not exist");
                }
                checked += 1;
            }
        });
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn help_begins_with_what_the_program_does() {
    let command = run_table::command();
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    assert_eq!(about(&command), "Many reports, traces and runs as one Parquet data set, and questions to it");
    let below: Vec<String> = command.get_subcommands().map(about).collect();
    assert_eq!(
        below,
        [
            "Write runs, reports, traces and calibration files into a data set that any engine reads",
            "Ask a data set: SQL, or one of the ready questions"
        ]
    );
}
