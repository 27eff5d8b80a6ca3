//! Keeps the words and phrases that `docs/GLOSSARY.md` refuses out of sources, documents and help.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories of the repository whose files are read.
const READ: [&str; 6] = ["bins", "benches", "crates", "docs", "fuzz", "python"];

/// What still has such words. Remove an entry with its last word; add none.
const NOT_YET: &[&str] = &[];

/// The same for phrases.
const PHRASES_NOT_YET: &[&str] = &[];

/// Words that a program must recognize in what others write: a file, and a word that it may hold as
/// a text of its own, between quotation marks.
const QUOTED: &[(&str, &str)] = &[("crates/flopgap-timings/src/kind.rs", "optimiser")];

/// What others wrote, or machines: recordings, bundled scripts, build outputs.
const FOREIGN: [&str; 5] = ["fixtures", "plotly", "target", "node_modules", "data"];

/// The page that must name the words.
const GLOSSARY: &str = "docs/GLOSSARY.md";

/// This file plants a few of them.
const THIS: &str = "crates/flopgap-cli/tests/it/language.rs";

/// A word that is refused, in lower case.
struct Refused {
    word: String,
    /// Whether longer words that begin with it are refused, too.
    open: bool,
}

impl Refused {
    fn has(&self, word: &str) -> bool {
        if self.open { word.starts_with(&self.word) } else { word == self.word }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What the first column of the table under a heading has between backticks.
fn first_column<'a>(glossary: &'a str, heading: &str) -> Vec<&'a str> {
    let section = glossary.split("\n## ").find(|section| section.starts_with(heading));
    let rows = section.expect("the glossary has the section").lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    // Between backticks: every second piece.
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

fn refused(glossary: &str) -> Vec<Refused> {
    let words = first_column(glossary, "Words that are refused").into_iter();
    words
        .map(|word| Refused { word: word.trim_end_matches('*').to_owned(), open: word.ends_with('*') })
        .collect()
}

fn refused_phrases(glossary: &str) -> Vec<Vec<String>> {
    first_column(glossary, "Phrases that are refused").into_iter().map(words).collect()
}

/// The words of a line in lower case. Identifiers are split at underscores and before capitals.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for character in line.chars() {
        if !character.is_alphabetic() || (lower && character.is_uppercase()) {
            words.push(String::new());
        }
        if character.is_alphabetic() {
            words.last_mut().expect("never empty").extend(character.to_lowercase());
        }
        lower = character.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The refused words of a text, each with its line from 1.
fn found(text: &str, refused: &[Refused]) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate();
    let words = lines.flat_map(|(index, line)| words(line).into_iter().map(move |word| (index + 1, word)));
    words.filter(|(_, word)| refused.iter().any(|refused| refused.has(word))).collect()
}

/// The text of a file without the words that it must recognize in what others write.
fn without_quoted(shown: &Path, text: &str) -> String {
    let quoted = QUOTED.iter().filter(|(file, _)| shown == Path::new(file));
    quoted.fold(text.to_owned(), |text, (_, word)| text.replace(&format!("\"{word}\""), "\"\""))
}

/// The refused phrases of a text, each with the line of its first word. They may go over several
/// lines, also of a comment.
fn found_phrases(text: &str, refused: &[Vec<String>]) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate();
    let (numbers, words): (Vec<usize>, Vec<String>) =
        lines.flat_map(|(index, line)| words(line).into_iter().map(move |word| (index + 1, word))).unzip();
    let mut found = Vec::new();
    for phrase in refused {
        for (first, window) in words.windows(phrase.len()).enumerate() {
            if window == phrase.as_slice() {
                found.push((numbers[first], phrase.join(" ")));
            }
        }
    }
    found
}

/// The files below `directory` that people write, in a fixed order.
fn files(directory: &Path, into: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).expect("a directory of the repository");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().expect("a name").to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !FOREIGN.contains(&&*name) {
                files(&path, into);
            }
        } else if path.extension().is_some_and(|extension| {
            ["rs", "md", "cu", "cuh", "toml", "py", "pyi", "js", "css", "html"]
                .contains(&&*extension.to_string_lossy())
        }) {
            into.push(path);
        }
    }
}

#[test]
fn no_file_has_a_refused_word() {
    let root = root();
    let glossary = fs::read_to_string(root.join(GLOSSARY)).expect("the glossary");
    let refused = refused(&glossary);
    assert!(refused.len() > 30, "only {} words were found in the glossary", refused.len());
    let phrases = refused_phrases(&glossary);
    assert!(phrases.len() > 10, "only {} phrases were found in the glossary", phrases.len());

    let mut paths = Vec::new();
    for directory in READ {
        files(&root.join(directory), &mut paths);
    }
    for name in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Cargo.toml"] {
        paths.push(root.join(name));
    }
    assert!(paths.len() > 500, "only {} files were found", paths.len());

    let mut report = String::new();
    for path in paths {
        let shown = path.strip_prefix(&root).expect("below the root");
        if [GLOSSARY, THIS].iter().any(|exempt| shown == Path::new(exempt))
            || NOT_YET.iter().any(|not_yet| shown.starts_with(not_yet))
        {
            continue;
        }
        // Files that are not UTF-8 are not text.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let text = without_quoted(shown, &text);
        let mut findings = found(&text, &refused);
        if !PHRASES_NOT_YET.iter().any(|not_yet| shown.starts_with(not_yet)) {
            findings.extend(found_phrases(&text, &phrases));
        }
        for (line, word) in findings {
            writeln!(report, "{}:{line}: {word}", shown.display()).expect("a string grows");
        }
    }
    assert!(report.is_empty(), "docs/GLOSSARY.md has better words for these:\n{report}");
}

#[test]
fn words_of_others_are_exempt_where_they_are_quoted_alone() {
    let refused = refused(&fs::read_to_string(root().join(GLOSSARY)).expect("the glossary"));
    for (file, word) in QUOTED {
        let text = fs::read_to_string(root().join(file)).expect("a file of the repository");
        assert!(!found(&text, &refused).is_empty(), "{file} needs no exemption for {word}");
        let prose = format!("// {word}\n\"{word}\" \"my {word}\"");
        assert_eq!(found(&without_quoted(Path::new(file), &prose), &refused).len(), 2);
        assert_eq!(found(&without_quoted(Path::new("other.rs"), &prose), &refused).len(), 3);
    }
}

/// Lines that rustdoc hides are shown by every other reader of a README.
#[test]
fn examples_of_readmes_have_no_hidden_lines() {
    let mut paths = Vec::new();
    files(&root().join("crates"), &mut paths);
    paths.retain(|path| path.ends_with("README.md"));
    assert!(paths.len() > 15, "only {} READMEs were found", paths.len());
    for path in paths {
        let text = fs::read_to_string(&path).expect("a README");
        // Between the fences: every second piece. A comment of a shell is no hidden line.
        for example in text.split("\n```").skip(1).step_by(2).filter(|example| example.starts_with("rust")) {
            let hidden = example.lines().find(|line| *line == "#" || line.starts_with("# "));
            assert_eq!(hidden, None, "{}", path.display());
        }
    }
}

#[test]
fn refused_words_are_found_in_prose_and_in_identifiers() {
    let refused =
        refused("# G\n\n## Words that are refused\n\n| not | but |\n|---|---|\n| `told`, `colour*` | x |\n");
    let text = "untold\nlet told_apart = ColourOf(\"Told\");\ncolor\n// the colours";
    let expected = [(2, "told"), (2, "colour"), (2, "told"), (4, "colours")];
    assert_eq!(found(text, &refused), expected.map(|(line, word)| (line, word.to_owned())));
}

#[test]
fn refused_phrases_are_found_across_lines_of_comments() {
    let refused = refused_phrases(
        "# G\n\n## Phrases that are refused\n\n| not | but |\n|---|---|\n| `of ours` | our |\n",
    );
    let text = "/// A kernel of\n/// Ours, of course.\nfn one_of_ours() {}\nof yours";
    assert_eq!(found_phrases(text, &refused), [(1, "of ours".to_owned()), (3, "of ours".to_owned())]);
}
