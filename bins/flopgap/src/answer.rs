//! `flopgap FILE…`: the likeliest question about what was given, and its answer.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use flopgap_cli::{Exit, Failure, Restart};

use crate::PROGRAM;
use crate::content::{self, Content};
use crate::elsewhere::Then;
use crate::programs::{BENCH, CALIBRATE, NCU, NSYS, PROFILE, Program, TABLE};

/// The machine that models are estimated for: a GPU of the built-in calibrations.
pub(crate) const MACHINE: &str = "h200";

/// A question to one program.
#[derive(Debug)]
struct Question {
    program: Program,
    arguments: Vec<OsString>,
}

/// The questions about some of the files.
#[derive(Debug)]
struct Answer {
    files: Vec<PathBuf>,
    /// If one is not answered, those after it are not asked.
    questions: Vec<Question>,
}

/// Answers. Every file is recognized before the first answer: if one of two reports is missing, the
/// question was not about the other.
pub(crate) fn run(files: &[PathBuf], all: bool, quiet: bool, restart: &Restart) -> Result<Exit, Failure> {
    let recognized: Vec<(PathBuf, Content)> =
        files.iter().map(|path| Ok((path.clone(), content::of(path)?))).collect::<Result<_, Failure>>()?;
    let answers = answers(&recognized, all);
    let several = answers.len() > 1;
    let mut exit = Exit::Done;
    for (at, answer) in answers.iter().enumerate() {
        if several {
            let names: Vec<String> = answer.files.iter().map(|path| path.display().to_string()).collect();
            let between = if at > 0 { "\n" } else { "" };
            flopgap_cli::print(&format!("{between}==> {} <==", names.join(" ")))?;
        }
        for (at, question) in answer.questions.iter().enumerate() {
            if at > 0 {
                flopgap_cli::print("")?;
            }
            if !quiet {
                flopgap_cli::note(PROGRAM, format_args!("the same as `{}`", question.written()));
            }
            let ended = question.ask(restart, quiet);
            if ended != Exit::Done {
                // The first that failed, as there is one code for all.
                if exit == Exit::Done {
                    exit = ended;
                }
                break;
            }
        }
    }
    Ok(exit)
}

impl Question {
    fn new<'a>(program: Program, command: &[&str], files: impl IntoIterator<Item = &'a Path>) -> Question {
        let files = files.into_iter().map(as_argument);
        Question { program, arguments: command.iter().map(OsString::from).chain(files).collect() }
    }

    fn ask(&self, restart: &Restart, quiet: bool) -> Exit {
        let name = OsString::from(self.program.within());
        // Last, since mlp-bench takes no options before a command.
        let arguments = self.arguments.iter().cloned().chain(quiet.then(|| "--quiet".into()));
        let arguments = std::iter::once(name).chain(arguments).collect();
        self.program.run(&restart.by(self.program.subcommand()), Then::Wait, arguments)
    }

    /// As it is written in a shell.
    fn written(&self) -> String {
        let words = self.arguments.iter().map(|word| in_shell(&word.to_string_lossy()));
        std::iter::once(self.program.within()).chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// A file whose name begins like an option.
pub(crate) fn as_argument(file: &Path) -> OsString {
    if file.as_os_str().as_encoded_bytes().starts_with(b"-") {
        return Path::new(".").join(file).into_os_string();
    }
    file.as_os_str().to_owned()
}

/// A word, in quotation marks if a shell would change it.
pub(crate) fn in_shell(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./,:+=@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// What is asked about which files, in the order of the first of each. Traces are one question: the
/// ranks of a job, or two to compare. Two reports are compared, and so are two results of
/// `mlp-bench`; of everything else each is its own.
fn answers(files: &[(PathBuf, Content)], everything: bool) -> Vec<Answer> {
    let mut answers = Vec::new();
    for (at, (path, content)) in files.iter().enumerate() {
        let kind = Together::of(*content);
        let alike = |(_, other): &&(PathBuf, Content)| kind.is_some() && Together::of(*other) == kind;
        let all: Vec<&(PathBuf, Content)> = files.iter().filter(alike).collect();
        match kind.and_then(|kind| kind.question(&all, everything)) {
            // It stands in the place of the first.
            Some(_) if files[..at].iter().any(|file| alike(&file)) => {}
            Some(question) => {
                let files = all.into_iter().map(|(path, _)| path.clone()).collect();
                answers.push(Answer { files, questions: vec![question] });
            }
            None => answers
                .push(Answer { files: vec![path.clone()], questions: alone(*content, path, everything) }),
        }
    }
    answers
}

/// Kinds whose files may be one question together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Together {
    Traces,
    Reports,
    Benches,
}

impl Together {
    fn of(content: Content) -> Option<Together> {
        match content {
            Content::Trace | Content::Recording => Some(Together::Traces),
            Content::Report => Some(Together::Reports),
            Content::Bench => Some(Together::Benches),
            _ => None,
        }
    }

    /// The question about all of several files; none if each has its own.
    fn question(self, files: &[&(PathBuf, Content)], everything: bool) -> Option<Question> {
        let (program, command): (Program, &[&str]) = match (self, files.len()) {
            (_, ..2) => return None,
            (Together::Traces, _) => {
                let is_recording = files.iter().any(|(_, content)| *content == Content::Recording);
                (NSYS, traces(everything, is_recording))
            }
            (Together::Reports, 2) => (NCU, &["diff"]),
            (Together::Benches, 2) => (BENCH, &["diff"]),
            (Together::Reports | Together::Benches, _) => return None,
        };
        Some(Question::new(program, command, files.iter().map(|(path, _)| path.as_path())))
    }
}

/// What is asked about traces; some may be recordings.
fn traces(everything: bool, is_recording: bool) -> &'static [&'static str] {
    match (everything, is_recording) {
        (false, false) => &["gap"],
        (false, true) => &["gap", "--export"],
        (true, false) => &["summary"],
        (true, true) => &["summary", "--export"],
    }
}

/// The questions about a file for itself.
fn alone(content: Content, path: &Path, everything: bool) -> Vec<Question> {
    let question = |program: Program, command: &[&str]| Question::new(program, command, [path]);
    match content {
        Content::Run => vec![question(PROFILE, &["analyze", "--no-files"])],
        Content::Model => {
            vec![question(CALIBRATE, &["flops"]), question(CALIBRATE, &["estimate", "--machine", MACHINE])]
        }
        Content::Language => vec![question(CALIBRATE, &["estimate", "--machine", MACHINE])],
        Content::Calibration if everything => vec![question(CALIBRATE, &["report", "--empirical"])],
        Content::Calibration => vec![question(CALIBRATE, &["report", "--no-fits", "--empirical"])],
        Content::DataSet => vec![question(TABLE, &["query"])],
        Content::Bench => vec![question(BENCH, &["show"])],
        Content::Trace => vec![question(NSYS, traces(everything, false))],
        Content::Recording => vec![question(NSYS, traces(everything, true))],
        Content::Report | Content::Record => vec![question(NCU, &["kernels"])],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(files: &[(&str, Content)]) -> Vec<String> {
        let files: Vec<(PathBuf, Content)> =
            files.iter().map(|(path, content)| (PathBuf::from(path), *content)).collect();
        let questions = answers(&files, false).into_iter().flat_map(|answer| answer.questions);
        questions.map(|question| question.written()).collect()
    }

    #[test]
    fn files_of_one_kind_are_one_question_where_that_is_asked_more_often() {
        use Content::{Bench, Language, Model, Recording, Report, Run, Trace};
        assert_eq!(asked(&[("a", Trace), ("b", Trace), ("c", Trace)]), ["flopgap nsys gap a b c"]);
        assert_eq!(asked(&[("a", Trace), ("b", Recording)]), ["flopgap nsys gap --export a b"]);
        assert_eq!(asked(&[("a", Report), ("b", Report)]), ["flopgap ncu diff a b"]);
        assert_eq!(
            asked(&[("a", Report), ("m", Model), ("b", Report), ("c", Report)]),
            [
                "flopgap ncu kernels a",
                "flopgap calibrate flops m",
                "flopgap calibrate estimate --machine h200 m",
                "flopgap ncu kernels b",
                "flopgap ncu kernels c"
            ]
        );
        assert_eq!(asked(&[("c", Language)]), ["flopgap calibrate estimate --machine h200 c"]);
        assert_eq!(asked(&[("a", Bench), ("b", Bench)]), ["flopgap bench diff a b"]);
        assert_eq!(
            asked(&[("r", Run), ("t", Trace), ("b", Bench), ("u", Trace)]),
            ["flopgap profile analyze --no-files r", "flopgap nsys gap t u", "flopgap bench show b"]
        );
    }

    #[test]
    fn commands_are_written_for_a_shell() {
        assert_eq!(
            asked(&[("-v", Content::Trace), ("it's a $trace", Content::Trace)]),
            [r"flopgap nsys gap ./-v 'it'\''s a $trace'"]
        );
    }
}
