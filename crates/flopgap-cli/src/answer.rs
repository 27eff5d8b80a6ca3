//! `--format` and `--output`: how an answer is written, and where.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use flopgap_report::table::{Format, TextOptions};

use crate::{Console, Failure, print};

/// The options of every command whose answer is one text.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OutputArgs {
    /// Output format [default: by the ending of --output, otherwise table]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write to this file instead of standard output, which is `-`
    #[arg(long, short, value_name = "FILE", value_parser = file_for(ENDINGS))]
    output: Option<PathBuf>,
}

/// The endings of what [`Format`] writes.
const ENDINGS: &[&str] = &["txt", "csv", "json", "md"];

/// Endings that name a format: a file of one never holds something else. Others, such as `.log`,
/// say nothing about the content.
const KNOWN: [&str; 42] = [
    "txt", "csv", "json", "md", "html", "htm", "parquet", "arrow", "feather", "ipc", "avro", "orc", "pdf",
    "png", "svg", "jpg", "jpeg", "gif", "webp", "xlsx", "xls", "ods", "docx", "tex", "tsv", "jsonl",
    "ndjson", "yaml", "yml", "toml", "xml", "sqlite", "db", "npy", "npz", "pkl", "h5", "gz", "zst", "zip",
    "ncu-rep", "nsys-rep",
];

/// Reads the path of an output, as a `value_parser` of clap, for a command that writes files with
/// these endings. The ending of another format is refused.
pub fn file_for(offered: &'static [&'static str]) -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(move |path: OsString| {
        let path = PathBuf::from(path);
        check_ending(&path, offered).map(|()| path)
    })
}

/// Refuses a path whose ending names a format that is not among those offered.
///
/// # Errors
/// With the endings that are offered.
pub fn check_ending(path: &Path, offered: &[&str]) -> Result<(), String> {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase();
    if !KNOWN.contains(&ending.as_str()) || offered.contains(&ending.as_str()) {
        return Ok(());
    }
    let offered: Vec<String> = offered.iter().map(|ending| format!(".{ending}")).collect();
    Err(format!("the format .{ending} is not offered; choose from {}", offered.join(", ")))
}

impl OutputArgs {
    /// What was requested of a command that offers more formats than [`Format`].
    pub fn new(format: Option<Format>, output: Option<PathBuf>) -> OutputArgs {
        OutputArgs { format, output }
    }

    /// The requested format; without one, that of the file's ending.
    pub fn format(&self) -> Format {
        self.format.or_else(|| by_ending(self.file()?)).unwrap_or_default()
    }

    /// The file, unless the answer goes to standard output.
    pub fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Tables that fit standard output, and of any width in a file.
    pub fn text(&self) -> TextOptions {
        if self.file().is_some() { TextOptions::default() } else { TextOptions::for_stdout() }
    }

    /// As [`write_answer`], to the requested file; JSON says what it is, as [`json_document`].
    ///
    /// # Errors
    /// When standard output is closed or full, or the file cannot be written.
    pub fn write(&self, console: impl Into<Console>, answer: &str) -> Result<(), Failure> {
        let console = console.into();
        if self.format() == Format::Json {
            return write_answer(console, self.file(), &json_document(&console.document(), answer));
        }
        write_answer(console, self.file(), answer)
    }
}

/// A JSON document with what it is first: `format`, such as `flopgap-nsys-kernels`, and its
/// `version`. A list is the `rows` of such an object. What says its format itself stays as it is.
///
/// ```
/// let document = flopgap_cli::json_document("flopgap-demo", "[1, 2]\n");
/// assert_eq!(document, "{\n  \"format\": \"flopgap-demo\",\n  \"version\": 1,\n  \"rows\": [1, 2]\n}");
/// ```
pub fn json_document(format: &str, json: &str) -> String {
    /// Of all documents: a change of a key is a new one.
    const VERSION: u32 = 1;
    let head = format!("{{\n  \"format\": \"{format}\",\n  \"version\": {VERSION}");
    let json = json.trim();
    match json.strip_prefix('{') {
        Some(rest) if rest.trim_start().starts_with("\"format\"") => json.to_owned(),
        Some(rest) if rest.trim_start() == "}" => format!("{head}\n}}"),
        Some(rest) => format!("{head},{rest}"),
        None => format!("{head},\n  \"rows\": {json}\n}}"),
    }
}

/// Writes an answer to a file, or to standard output without one, with a line end if it has none.
/// A file gets all of it or none.
///
/// # Errors
/// When standard output is closed or full, or the file cannot be written.
pub fn write_answer(console: impl Into<Console>, file: Option<&Path>, answer: &str) -> Result<(), Failure> {
    let Some(path) = file else { return print(answer) };
    let end = if answer.ends_with('\n') { "" } else { "\n" };
    flopgap_files::write_atomic(path, format!("{answer}{end}").as_bytes())?;
    console.into().note(format_args!("wrote {}", path.display()));
    Ok(())
}

/// The format whose files have this ending.
fn by_ending(path: &Path) -> Option<Format> {
    match path.extension().and_then(OsStr::to_str)?.to_ascii_lowercase().as_str() {
        "csv" => Some(Format::Csv),
        "json" => Some(Format::Json),
        "md" => Some(Format::Markdown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Demo {
        #[command(flatten)]
        output: OutputArgs,
    }

    fn of(words: &[&str]) -> OutputArgs {
        Demo::parse_from(std::iter::once(&"demo").chain(words)).output
    }

    #[test]
    fn the_ending_gives_the_format_and_format_has_the_last_word() {
        assert_eq!(of(&[]).format(), Format::Table);
        assert_eq!(of(&["-o", "a.CSV"]).format(), Format::Csv);
        assert_eq!(of(&["--output", "a.json"]).format(), Format::Json);
        assert_eq!(of(&["-o", "a.txt"]).format(), Format::Table);
        assert_eq!(of(&["-o", "a.csv", "--format", "markdown"]).format(), Format::Markdown);
    }

    #[test]
    fn a_format_that_is_not_offered_is_refused() {
        for name in ["a.parquet", "a.PDF", "a.png", "a.html", "a.csv.gz", "a.xlsx"] {
            let parsed = Demo::try_parse_from(["demo", "-o", name, "--format", "csv"]);
            let error = parsed.map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("is not offered; choose from .txt, .csv, .json, .md"), "{error}");
        }
        for name in ["a", "a.txt", "a.log", "a.v2", "-", "/dev/stdout"] {
            assert!(Demo::try_parse_from(["demo", "-o", name]).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_file_gets_the_answer_with_a_line_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("answer.txt");
        of(&["-o", path.to_str().unwrap()]).write("demo", "42").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "42\n");
        let missing = directory.path().join("missing").join("answer.txt");
        assert!(of(&["-o", missing.to_str().unwrap()]).write("demo", "42").is_err());
        assert_eq!(of(&["-o", "-"]).file(), None);
    }
}
