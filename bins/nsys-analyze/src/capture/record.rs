//! Runs nsys: records, imports, exports.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::SystemTime;

use flopgap_cli::{Console, Exit, Failure};

use super::{Arguments, GraphTrace};
use crate::find;

/// What came of a recording.
pub(super) struct Recorded {
    pub(super) sqlite: PathBuf,
    pub(super) program: Program,
}

/// How the profiled program ended.
pub(super) enum Program {
    Well,
    /// In words.
    Badly(String),
    /// nsys failed on its own account, in words.
    Unknown(String),
}

/// The options of nsys that the answers need.
fn options(arguments: &Arguments, base: &Path) -> Vec<OsString> {
    let graphs = match arguments.graph_trace {
        GraphTrace::Node => "node",
        GraphTrace::Graph => "graph",
    };
    let mut options: Vec<OsString> = vec![
        "profile".into(),
        format!("--trace={}", arguments.trace.join(",")).into(),
        // Sampling of the CPU and of its schedule costs time and answers nothing here.
        "--sample=none".into(),
        "--cpuctxsw=none".into(),
    ];
    // Older versions do not know what is not asked for here.
    if arguments.trace.iter().any(|kind| kind == "cuda") {
        options.push(format!("--cuda-graph-trace={graphs}").into());
    }
    if arguments.python_backtrace {
        options.push("--python-backtrace=cuda".into());
    }
    options.extend(arguments.nsys_arg.iter().map(OsString::from));
    options.push("--force-overwrite=true".into());
    options.push("--output".into());
    options.push(base.into());
    options.extend(arguments.command.iter().cloned());
    options
}

/// Records the command, and exports what was recorded.
pub(super) fn record(nsys: &Path, arguments: &Arguments, console: Console) -> Result<Recorded, Failure> {
    let base = &arguments.output;
    if let Some(folder) = base.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        flopgap_files::create_folder(folder)?;
    }
    let [report, raw, sqlite] =
        ["nsys-rep", "qdstrm", "sqlite"].map(|extension| with_extension(base, extension));
    let (report_before, raw_before) = (stamp(&report), stamp(&raw));
    let status = run(nsys, &options(arguments, base), console)?;
    let imported = stamp(&report) != report_before;
    if !imported {
        if stamp(&raw) == raw_before {
            let message = format!("{} {}, and wrote no {}", nsys.display(), ended(status), report.display());
            return Err(Failure::new(message)
                .hint("what it said is above; the profiled program may not have started"));
        }
        import(nsys, &raw, &report, console)?;
    }
    let export: Vec<OsString> = vec![
        "export".into(),
        "--type=sqlite".into(),
        "--force-overwrite=true".into(),
        "--output".into(),
        sqlite.clone().into(),
        report.clone().into(),
    ];
    let before = stamp(&sqlite);
    let exported = run(nsys, &export, console)?;
    if !exported.success() || stamp(&sqlite) == before {
        let message = format!("{}: nsys could not export it: it {}", report.display(), ended(exported));
        return Err(Failure::new(message)
            .hint("what it said is above; the recording is complete and can be exported later"));
    }
    // nsys ends with the exit code of the program, unless it fails itself.
    let program = if status.success() {
        Program::Well
    } else if imported {
        Program::Badly(ended(status))
    } else {
        Program::Unknown(ended(status))
    };
    Ok(Recorded { sqlite, program })
}

/// Turns a raw recording into a report where nsys did not.
fn import(nsys: &Path, raw: &Path, report: &Path, console: Console) -> Result<(), Failure> {
    let absent = |why: String| {
        Failure::new(format!("{}: recorded, but not imported: {why}", raw.display()))
            .hint(
                "install what is missing, or import it where Nsight Systems is installed whole (`QdstrmImporter -i FILE.qdstrm`), or open it there; then \
                 `nsys export --type sqlite` and `flopgap nsys summary`",
            )
            .exit(Exit::Absent)
    };
    let Some(importer) = find::importer(nsys) else {
        return Err(absent(format!("the importer of {} is not on this machine", nsys.display())));
    };
    let arguments = ["-i".into(), raw.into(), "-o".into(), report.into()];
    let status = run(&importer, &arguments, console)?;
    if !status.success() || !report.exists() {
        return Err(absent(format!(
            "{} {}; it may lack a library such as libdw1",
            importer.display(),
            ended(status)
        )));
    }
    Ok(())
}

/// Runs a program; what it and its children print goes to standard error, so that standard output
/// holds the summary alone.
fn run(program: &Path, arguments: &[OsString], console: Console) -> Result<ExitStatus, Failure> {
    let words = std::iter::once(program.as_os_str()).chain(arguments.iter().map(OsString::as_os_str));
    let line: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    console.note(format_args!("$ {}", line.join(" ")));
    let status = Command::new(program).args(arguments).stdout(Stdio::from(io::stderr())).status();
    status.map_err(|error| Failure::new(format!("{}: {error}", program.display())))
}

/// How a program ended.
fn ended(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => format!("ended by {status}"),
    }
}

/// What changes when a file is written again.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// The name with an extension behind it; a dot within the name begins none.
fn with_extension(base: &Path, extension: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("--trace=cuda,nvtx"), "--trace=cuda,nvtx");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(with_extension(Path::new("run.1"), "sqlite"), Path::new("run.1.sqlite"));
    }
}
