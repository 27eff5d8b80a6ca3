//! `flopgap nsys summary TRACE…`: everything that the traces answer, on one page.

mod busy;
mod memory;
mod page;
mod ranks;
mod recorded;
mod sections;
mod timeline;
mod work;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use flopgap_cli::{Console, Exit, Failure, Verbosity};
use flopgap_flops::{Attention, AttentionMask};
use flopgap_kernels::Classifier;
use flopgap_report::html::{Block, Document};
use flopgap_report::table::TextOptions;
use flopgap_timings::{RangePattern, WarmUp};
use flopgap_trace::AttributeBy;

pub(crate) use page::{OfTrace, Overview, Skipped};

use crate::answer::report;
use crate::opening::{Opened, Opener};
use crate::passes::Measured;
use crate::scope::ScopeArguments;
use crate::{PROGRAM, failure};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys summary fixtures/nsys/small_training_step.sqlite.zst -o step.html
  flopgap nsys summary fixtures/kineto/ddp_rank0.json.gz fixtures/kineto/ddp_rank1.json.gz")]
pub(crate) struct Arguments {
    /// Exports of `nsys export --type sqlite` or traces of `torch.profiler`; two are compared, such
    /// as of inference and training. Traces of several ranks of one job, or a directory with them,
    /// are one recording.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Write to this file instead of standard output, which is `-`.
    #[arg(long, short, value_name = "FILE", value_parser = flopgap_cli::file_for(&["txt", "md", "html", "json"]))]
    output: Option<PathBuf>,
    #[command(flatten)]
    measured: Measured,
    #[command(flatten)]
    view: View,
}

/// How a page is written, and what it shows.
#[derive(clap::Args)]
pub(crate) struct View {
    /// Output format of the page [default: by the ending of --output, otherwise table].
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<PageFormat>,
    #[command(flatten)]
    look: Look,
}

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageFormat {
    /// Text for reading in a terminal.
    Table,
    /// A Markdown document.
    Markdown,
    /// One file that needs no network, with charts and a timeline.
    Html,
    /// Numbers unformatted.
    Json,
}

impl PageFormat {
    pub(crate) fn extension(self) -> &'static str {
        match self {
            PageFormat::Table => "txt",
            PageFormat::Markdown => "md",
            PageFormat::Html => "html",
            PageFormat::Json => "json",
        }
    }

    fn of(path: &Path) -> Option<PageFormat> {
        let extension = path.extension()?.to_str()?;
        PageFormat::value_variants().iter().copied().find(|format| format.extension() == extension)
    }

    /// The page in this format; `options` concern text for a terminal.
    pub(crate) fn write(self, page: &Document, options: &TextOptions) -> Result<String, Failure> {
        match self {
            PageFormat::Table => Ok(page.to_text(options)),
            PageFormat::Markdown => Ok(page.to_markdown()),
            PageFormat::Html => page.to_html().map_err(|error| report(&error)),
            PageFormat::Json => page.to_json().map_err(|error| report(&error)),
        }
    }
}

/// What a page shows.
#[derive(clap::Args)]
pub(crate) struct Look {
    /// Only these ranges, such as `forward` or `step_*`, instead of those that are steps or passes
    /// by their names. Can be repeated; `flopgap nsys --help` says how ranges are written.
    #[arg(long, value_name = "RANGE")]
    range: Vec<RangePattern>,
    /// Show only the first N rows of long tables, such as that of the kernels.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Samples in a batch, each a sequence: with the other sizes, attention is measured against its
    /// FLOPs.
    #[arg(long, value_name = "SAMPLES", requires_all = ["heads", "seq", "head_dim"], value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
    /// Attention heads.
    #[arg(long, value_name = "H", requires = "batch", value_parser = clap::value_parser!(u64).range(1..))]
    heads: Option<u64>,
    /// Positions of a sequence.
    #[arg(long, value_name = "S", requires = "batch", value_parser = clap::value_parser!(u64).range(1..))]
    seq: Option<u64>,
    /// Width of a head.
    #[arg(long, value_name = "D", requires = "batch", value_parser = clap::value_parser!(u64).range(1..))]
    head_dim: Option<u64>,
    #[command(flatten)]
    scope: ScopeArguments,
}

impl Look {
    /// The sizes of one attention layer, where they were given.
    fn sizes(&self) -> Option<Attention> {
        let heads = self.heads?;
        Some(Attention {
            batch: self.batch?,
            heads,
            kv_heads: heads,
            queries: self.seq?,
            keys: self.seq?,
            head_width: self.head_dim?,
            mask: AttentionMask::Full,
        })
    }
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let measured = arguments.measured.times(arguments.traces.len())?;
    write(
        &arguments.traces,
        &measured,
        &arguments.view,
        arguments.output.as_deref().filter(|path| *path != Path::new("-")),
        opener,
    )
}

/// Prints the page of traces to standard output.
pub(crate) fn print(traces: &[PathBuf], view: &View, opener: &Opener) -> Result<(), Failure> {
    write(traces, &[], view, None, opener)
}

fn write(
    traces: &[PathBuf],
    measured: &[Vec<i64>],
    view: &View,
    output: Option<&Path>,
    opener: &Opener,
) -> Result<(), Failure> {
    let classifier = Classifier::new();
    let jobs = opener.open_jobs(traces)?;
    let mut pages = Vec::new();
    for (at, (path, trace)) in jobs.iter().enumerate() {
        let measured = measured.get(at).map(Vec::as_slice).unwrap_or_default();
        pages.push(of_opened(path, trace, &view.look, measured, &classifier)?);
        trace.warn_all();
    }
    let page = document(&jobs, pages, &view.look, &classifier)?;
    let format = view.format.or_else(|| output.and_then(PageFormat::of)).unwrap_or(PageFormat::Table);
    let options = if output.is_some() { TextOptions::default() } else { TextOptions::for_stdout() };
    let text = format.write(&page, &options)?;
    let Some(output) = output else { return flopgap_cli::print(&text) };
    flopgap_fs::write_atomic(output, text.as_bytes())?;
    opener.console().note(format_args!("wrote {}", output.display()));
    Ok(())
}

/// The page of some traces, two of which are compared.
fn document(
    traces: &[(PathBuf, Opened)],
    pages: Vec<OfTrace>,
    look: &Look,
    classifier: &Classifier,
) -> Result<Document, Failure> {
    if pages.iter().all(OfTrace::is_empty) {
        let paths: Vec<String> = traces.iter().map(|(path, _)| path.display().to_string()).collect();
        let message = format!("{}: none of what a summary answers is in the trace", paths.join(", "));
        return Err(Failure::new(message)
            .hint("record with `nsys profile -t cuda,nvtx`, or torch.profiler with ProfilerActivity.CUDA; `flopgap nsys stats TRACE` shows other reports of nsys")
            .exit(Exit::Absent));
    }
    // What was asked for by name is missed, not skipped.
    if !look.range.is_empty() && pages.iter().all(|page| page.unmeasured.is_some()) {
        let why = pages.iter().zip(traces).filter_map(|(page, (path, _))| {
            Some(format!("{}: {}", path.display(), page.unmeasured.as_ref()?))
        });
        let message = why.collect::<Vec<_>>().join("; ");
        let hint = "without --range, the summary lists the ranges of the trace";
        return Err(Failure::new(message).hint(hint).exit(Exit::Absent));
    }
    let mut comparison = Vec::new();
    let mut compared = Vec::new();
    if let [one, other] = traces {
        compared = sections::comparison([one, other], look, classifier, &mut comparison)?;
    }
    Ok(join(pages, comparison, compared))
}

/// What a page shows, for programs: each is an option of `flopgap nsys summary`.
#[derive(Clone, Debug)]
pub struct PageOptions {
    /// Ranges by name instead of those that are steps or passes by their names.
    pub ranges: Vec<RangePattern>,
    /// Rows of long tables.
    pub top: usize,
    /// What is left out as warming up.
    pub warm_up: WarmUp,
    /// Whose ranges own GPU work.
    pub attribute: AttributeBy,
    /// Put all processes and GPUs together.
    pub pool: bool,
    /// Times measured outside, in nanoseconds.
    pub measured: Vec<i64>,
}

impl Default for PageOptions {
    fn default() -> PageOptions {
        PageOptions {
            ranges: Vec::new(),
            top: 10,
            warm_up: WarmUp::default(),
            attribute: AttributeBy::Process,
            pool: false,
            measured: Vec::new(),
        }
    }
}

/// Everything that some traces answer, on one page; two are compared. Nothing is printed:
/// what was strange is on the page.
///
/// # Errors
/// When a trace cannot be read, or holds none of what a summary answers.
pub fn page(traces: &[PathBuf], options: &PageOptions) -> Result<Document, Failure> {
    let classifier = Classifier::new();
    let look = Look {
        range: options.ranges.clone(),
        top: options.top,
        batch: None,
        heads: None,
        seq: None,
        head_dim: None,
        scope: ScopeArguments::new(options.warm_up.clone(), options.attribute, options.pool),
    };
    // As long as it is there, so is what it unpacked.
    let opener = Opener::new(None, Console::new(PROGRAM, Verbosity::Quiet));
    let jobs = opener.open_quietly(traces)?;
    let mut pages = Vec::new();
    for (path, trace) in &jobs {
        pages.push(of_opened(path, trace, &look, &options.measured, &classifier)?);
    }
    document(&jobs, pages, &look, &classifier)
}

/// What one trace answers.
pub(crate) fn of_trace(
    path: &Path,
    look: &Look,
    measured: &[i64],
    classifier: &Classifier,
    opener: &Opener,
) -> Result<OfTrace, Failure> {
    let trace = opener.open(path)?;
    let page = of_opened(path, &trace, look, measured, classifier)?;
    trace.warn_all();
    Ok(page)
}

fn of_opened(
    path: &Path,
    trace: &Opened,
    look: &Look,
    measured: &[i64],
    classifier: &Classifier,
) -> Result<OfTrace, Failure> {
    let mut page = OfTrace::new(path);
    if let Opened::Kineto(job) = trace
        && job.processes().len() > 1
    {
        page.name = format!("{} ({} ranks)", page.name, job.processes().len());
    }
    if let Some(trace) = trace.nsys() {
        page.reported = trace.problems().map_err(|error| failure(&error))?;
    }
    sections::all(&mut page, trace, look, measured, classifier)?;
    let strip = format!("{}: ", path.display());
    page.warnings(trace.warnings().into_iter().map(|warning| match warning.strip_prefix(&strip) {
        Some(rest) => rest.to_owned(),
        None => warning,
    }));
    Ok(page)
}

/// The comparison of two traces and the answers of all first, then what is missing, then the
/// sections of each.
pub(crate) fn join(pages: Vec<OfTrace>, comparison: Vec<String>, compared: Vec<Block>) -> Document {
    let several = pages.len() > 1;
    let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    let subtitle = match pages.as_slice() {
        [one] => one.machine.clone(),
        several => format!("{} traces", several.len()),
    };
    let mut document = Document { title: names.join(", "), subtitle, blocks: Vec::new() };
    // First: an answer from a recording that lost events must be read with that in mind.
    let reported = pages.iter().flat_map(|page| {
        page.reported
            .iter()
            .map(|problem| if several { format!("{}: {problem}", page.name) } else { problem.to_string() })
    });
    let reported: Vec<String> = reported.collect();
    if !reported.is_empty() {
        document.blocks.push(Block::Problems("Problems that nsys reported".to_owned(), reported));
    }
    if !comparison.is_empty() && several {
        document.blocks.push(Block::Text(format!("A ({}) against B ({})", names[0], names[1])));
        document.blocks.push(Block::List(comparison));
    }
    for (at, page) in pages.iter().enumerate() {
        // Two are compared, and called A and B there.
        match (pages.len(), at) {
            (1, _) => {}
            (2, 0) => document.blocks.push(Block::Text(format!("A: {}", page.name))),
            (2, _) => document.blocks.push(Block::Text(format!("B: {}", page.name))),
            _ => document.blocks.push(Block::Text(page.name.clone())),
        }
        document.blocks.push(Block::List(page.answers.clone()));
    }
    document.blocks.extend(compared);
    for page in pages {
        document.blocks.extend(page.into_blocks(several));
    }
    document
}
