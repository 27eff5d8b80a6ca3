//! `flopgap nsys batch DIR --output DIR`: a page and CSV reports of every trace below a folder, and
//! an index of them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use flopgap_answers::open::{name_of, not_taken};
use flopgap_answers::page::{Overview, Skipped, TracePage};
use flopgap_answers::tables::ms;
use flopgap_cli::{Console, Exit, Failure};
use flopgap_files::Hint as _;
use flopgap_nsys::{Report, ReportKind, ReportTable, Units};
use flopgap_report::ReportError;
use flopgap_report::html::{Block, Document};
use flopgap_report::table::{Cell, Column, Table, TextOptions};
use flopgap_table::Kind;

use crate::opening::{Opener, warn_all};
use crate::output::{csv, in_a_file_name};
use crate::summary::{Look, PageFormat};
use crate::{PROGRAM, failure, of_nsys};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys batch profiles -o analysis")]
pub(crate) struct Arguments {
    /// The directory with the traces, which is searched with all directories in it.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write pages, reports and the index to this directory, arranged as the traces are.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Output format of pages and index.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = PageFormat::Html)]
    format: PageFormat,
    /// Reports to write as CSV, by nsys's names [default: sums of kernels, copies, calls and
    /// ranges].
    #[arg(long, short, value_delimiter = ',', value_name = "REPORT")]
    report: Vec<Report>,
    #[command(flatten)]
    look: Look,
}

/// The reports that are written when none are named.
const REPORTS: [Report; 7] = [
    Report::new(ReportKind::CudaGpuKernSum),
    Report::new(ReportKind::CudaGpuMemTimeSum),
    Report::new(ReportKind::CudaGpuMemSizeSum),
    Report::new(ReportKind::CudaApiSum),
    Report::new(ReportKind::NvtxSum),
    Report::new(ReportKind::NvtxGpuProjSum),
    Report::new(ReportKind::NvtxKernSum),
];

/// What became of a trace.
struct Done {
    /// Relative to the folder.
    trace: PathBuf,
    result: Result<Written, String>,
}

struct Written {
    /// Relative to the output.
    page: PathBuf,
    overview: Overview,
    skipped: Vec<Skipped>,
}

/// What lies below a folder.
#[derive(Default)]
struct Found {
    traces: Vec<PathBuf>,
    /// Recordings without an export beside them.
    recordings: Vec<PathBuf>,
    /// What else was found, and why it is not taken.
    others: Vec<(PathBuf, String)>,
    /// Folders that could not be read, and why.
    unreadable: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let console = opener.console();
    let folder = arguments.folder.display();
    match fs::metadata(&arguments.folder) {
        Err(error) => return Err(Failure::new(format!("{folder}: {error}"))),
        Ok(found) if !found.is_dir() => {
            let hint = "give the folder that the traces lie in; `flopgap nsys summary` takes a trace";
            return Err(Failure::new(format!("{folder}: not a folder")).hint(hint));
        }
        Ok(_) => {}
    }
    let mut found = Found::default();
    search(&arguments.folder, &arguments.output, &mut found);
    found.traces.sort();
    found.recordings.sort();
    found.others.sort();
    if found.traces.is_empty() {
        let message = format!(
            "{}: no export of nsys and no trace of torch.profiler is in it",
            arguments.folder.display()
        );
        let hint = "export recordings with `nsys export --type sqlite`";
        return Err(Failure::new(message).hint(hint).exit(Exit::Absent));
    }
    flopgap_files::create_folder(&arguments.output)?;
    let traces: Vec<(&PathBuf, String)> = found.traces.iter().zip(names(&found.traces)).collect();
    let done = flopgap_files::each_on_all_cores(&traces, |(path, name)| one(arguments, path, name, console));
    let recordings = found.recordings.iter().map(|path| (path, "not exported yet"));
    let others = found.others.iter().map(|(path, why)| (path, why.as_str()));
    let skipped = recordings.chain(others);
    let skipped: Vec<String> = skipped
        .map(|(path, why)| format!("SKIPPED: {}: {why}", relative(arguments, path).display()))
        .collect();
    for line in skipped.iter().chain(&found.unreadable) {
        flopgap_cli::note(PROGRAM, line);
    }
    let index = index(arguments, &done, &skipped, &found.unreadable)?;
    let path = arguments.output.join(format!("index.{}", arguments.format.extension()));
    write(&path, &arguments.format.write(&index, &TextOptions::default())?)?;
    console.note(format_args!("wrote {}", path.display()));

    let failed = done.iter().filter(|done| done.result.is_err()).count();
    if failed == 0 && found.unreadable.is_empty() {
        return Ok(());
    }
    let what = if failed > 0 {
        format!("{failed} of {} traces could not be analyzed", done.len())
    } else {
        format!("{} folders could not be read", found.unreadable.len())
    };
    Err(Failure::new(what).hint("the reasons are above, and in the index"))
}

/// Adds what lies in a folder, each by its content. Links to folders are not followed: they may
/// lead in circles. What was written by an earlier call, to a folder of its own, is passed over.
fn search(folder: &Path, output: &Path, found: &mut Found) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            found.unreadable.push(format!("{}: {error}", folder.display()));
            return;
        }
    };
    let is_output = |path: &Path| {
        path.canonicalize().is_ok_and(|path| output.canonicalize().is_ok_and(|output| output == path))
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let skip = |found: &mut Found, why: &str| found.others.push((path.clone(), why.to_owned()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && is_output(&path) => skip(found, "the output"),
            Ok(kind) if kind.is_dir() => match Kind::of(&path) {
                Ok(kind) => skip(found, kind.in_words()),
                Err(_) => search(&path, output, found),
            },
            _ if path.is_dir() => skip(found, "a link to a folder"),
            // Pipes are not read: that could take forever.
            _ if !path.is_file() => skip(found, "not a regular file"),
            _ => match Kind::of(&path) {
                Ok(Kind::Nsys | Kind::Kineto) => found.traces.push(path),
                Ok(Kind::Recording) if is_exported(&path) => {}
                Ok(Kind::Recording) => found.recordings.push(path),
                // A damaged file that is called an export is found, so that it is reported.
                _ if is_called_export(&path) => found.traces.push(path),
                other => skip(found, &not_taken(other)),
            },
        }
    }
}

/// Whether a file has the name of an export, which may be compressed.
fn is_called_export(path: &Path) -> bool {
    let is = |path: &Path, ending: &str| path.extension().is_some_and(|found| found == ending);
    let packed = is(path, "gz") || is(path, "zst");
    is(path, "sqlite") || packed && is(&path.with_extension(""), "sqlite")
}

/// Whether the export of a recording lies beside it.
fn is_exported(recording: &Path) -> bool {
    ["sqlite", "sqlite.gz", "sqlite.zst"].iter().any(|ending| recording.with_extension(ending).exists())
}

/// What the page and the reports of each trace are called: the name of its file without endings, or
/// all of it where another trace of the directory would get the same name.
fn names(traces: &[PathBuf]) -> Vec<String> {
    let file = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut taken: HashMap<(&Path, String), usize> = HashMap::new();
    for path in traces {
        let (folder, name, whole) = (path.parent().unwrap_or(path), name_of(path), file(path));
        *taken.entry((folder, name.clone())).or_default() += 1;
        if whole != name {
            *taken.entry((folder, whole)).or_default() += 1;
        }
    }
    let name = |path: &PathBuf| {
        let (folder, name) = (path.parent().unwrap_or(path), name_of(path));
        if taken.get(&(folder, name.clone())) == Some(&1) { name } else { file(path) }
    };
    traces.iter().map(name).collect()
}

/// Analyses one trace and writes what came out.
fn one(arguments: &Arguments, path: &Path, name: &str, console: Console) -> Done {
    let trace = relative(arguments, path);
    let result = analyze(arguments, path, &trace, name, console).map_err(|failure| failure.to_string());
    match &result {
        Ok(_) => console.note(format_args!("{}: done", trace.display())),
        Err(message) => flopgap_cli::warn(PROGRAM, format!("FAILED: {message}")),
    }
    Done { trace, result }
}

fn analyze(
    arguments: &Arguments,
    path: &Path,
    trace: &Path,
    name: &str,
    console: Console,
) -> Result<Written, Failure> {
    // What it unpacked is dropped with it: no more is in the temporary directory than an export for
    // each core.
    let opened = Opener::new(None, console).open(path)?;
    let options = arguments.look.options(Vec::new());
    let mut answers = TracePage::new(&opened, &options, &[]).map_err(|error| failure(&error))?;
    warn_all(&opened);
    name.clone_into(&mut answers.name);
    let base = arguments.output.join(trace);
    if let Some(folder) = base.parent() {
        flopgap_files::create_folder(folder)?;
    }
    let reports = if arguments.report.is_empty() { REPORTS.as_slice() } else { arguments.report.as_slice() };
    // The reports are of exports of nsys alone.
    let export = opened.nsys();
    for (wanted, export) in reports.iter().filter_map(|wanted| Some((wanted, export?))) {
        let mut table = ReportTable::default();
        match export.report(*wanted, &mut table) {
            Ok(()) if table.rows.is_empty() => {
                answers.skip(&wanted.to_string(), "recorded nothing of the kind");
            }
            Ok(()) => {
                let name = format!("{}_{}.csv", answers.name, in_a_file_name(&wanted.to_string()));
                write(&base.with_file_name(name), &csv(&table, Units::default())?)?;
            }
            Err(error) if error.is_absence() => answers.skip(&wanted.to_string(), error),
            Err(error) => return Err(of_nsys(&error)),
        }
    }
    let (overview, skipped) = (answers.overview.clone(), answers.skipped.clone());
    let page = base.with_file_name(format!("{}_summary.{}", answers.name, arguments.format.extension()));
    let document = answers.into_document().map_err(|error| failure(&error))?;
    write(&page, &arguments.format.write(&document, &TextOptions::default())?)?;
    let page = page.strip_prefix(&arguments.output).unwrap_or(&page).to_owned();
    Ok(Written { page, overview, skipped })
}

fn index(
    arguments: &Arguments,
    done: &[Done],
    skipped: &[String],
    unreadable: &[String],
) -> Result<Document, ReportError> {
    let mut table = Table::new(
        "",
        [
            Column::text("trace", "trace"),
            Column::number("recorded_ms", "recorded").unit("ms"),
            Column::number("kernels", "kernels"),
            Column::number("gpu_busy_ms", "GPU busy").unit("ms"),
            Column::number("gpu_busy", "of first to last"),
            Column::text("top_kernel", "top kernel"),
            Column::number("top_share", "its share"),
            Column::number("matmul", "matmul"),
            Column::number("skipped", "skipped"),
        ],
    )?;
    let mut problems = Vec::new();
    let mut links = Vec::new();
    for Done { trace, result } in done {
        let name = trace.display().to_string();
        let overview = result.as_ref().map(|written| written.overview.clone()).unwrap_or_default();
        let (top, top_share) = overview.top.unzip();
        let busy = overview.gpu_ns.filter(|(_, extent)| *extent > 0);
        table.push([
            Cell::text(&name),
            Cell::optional(overview.recorded_ns, |ns| ms(ns as f64)),
            Cell::from(overview.kernels),
            Cell::optional(overview.gpu_ns, |(busy, _)| ms(busy as f64)),
            Cell::optional(busy, |(busy, extent)| Cell::percent(busy as f64 / extent as f64, 1)),
            top.into(),
            Cell::optional(top_share, |share| Cell::percent(share, 1)),
            Cell::optional(overview.matmul, |share| Cell::percent(share, 1)),
            Cell::optional(result.as_ref().ok(), |written| Cell::from(written.skipped.len())),
        ])?;
        match result {
            Ok(written) => {
                links.push((name.clone(), written.page.to_string_lossy().into_owned()));
                problems
                    .extend(written.skipped.iter().map(|skipped| format!("{name}: {}", skipped.line(None))));
            }
            Err(message) => problems.push(format!("{name}: FAILED: {message}")),
        }
    }
    problems.extend(skipped.iter().chain(unreadable).cloned());
    let mut blocks = vec![Block::Table(table), Block::Heading("Pages".to_owned()), Block::Links(links)];
    if !problems.is_empty() {
        blocks.push(Block::Problems("Skipped and failed".to_owned(), problems));
    }
    Ok(Document {
        title: format!("Traces of {}", arguments.folder.display()),
        subtitle: "The top kernel and its share are of the forward pass where one is marked, matmul is the share of matrix products in \
                   the GPU's work of a step."
            .to_owned(),
        blocks,
    })
}

fn relative(arguments: &Arguments, path: &Path) -> PathBuf {
    path.strip_prefix(&arguments.folder).unwrap_or(path).to_owned()
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    flopgap_files::write_atomic(path, text.as_bytes()).map_err(Failure::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_one_directory_have_names_of_their_own() {
        let paths = [
            "d/a.sqlite",
            "d/a.sqlite.zst",
            "d/a.json.gz",
            "d/b.sqlite.gz",
            "d/c.sqlite",
            "e/a.sqlite",
            "e/x.sqlite",
            "e/x.sqlite.sqlite",
        ];
        let names = names(&paths.map(PathBuf::from));
        let expected = ["a.sqlite", "a.sqlite.zst", "a.json.gz", "b", "c", "a", "x", "x.sqlite.sqlite"];
        assert_eq!(names, expected);
    }
}
