//! `flopgap record`: records a program, and answers where the time of a step goes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{env, fs};

use clap::Subcommand;
use flopgap_cli::{Exit, Failure, Restart, Termination};
use flopgap_gpu::Context;
use flopgap_gpu::counters::{Chip, CounterError, Group};
use flopgap_gpu::library::{Library, probe};
use flopgap_record::{
    CUPTI_VARIABLE, Counted, Counters, DIRECTORY_VARIABLE, Exported, Graphs, Options, RecordError, Session,
    export, is_counting, switch, wait_for_records,
};

use crate::gpm::Sampling;
use crate::{PROGRAM, answer};

const AFTER: &str = "\
Examples:
  flopgap record -- python3 train.py
  flopgap record -o step.sqlite --delay 30 --duration 5 -- torchrun --nproc-per-node 8 train.py
  eval \"$(flopgap record --env)\"; python3 serve.py &
  flopgap record start flopgap-recording; sleep 5; flopgap record stop flopgap-recording

The export has the tables of Nsight Systems: nsys stats reads it, too. No privilege is needed.";

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = AFTER)]
pub(crate) struct Arguments {
    /// Write the export to this file
    #[arg(short, long, value_name = "FILE", default_value = "flopgap.sqlite")]
    output: PathBuf,
    #[command(flatten)]
    how: How,
    /// Start recording after so many seconds
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "env")]
    delay: Option<Duration>,
    /// Record for so many seconds; the program runs on
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "env")]
    duration: Option<Duration>,
    /// Print only the size of the recording and what is missing in it
    #[arg(short, long)]
    quiet: bool,
    /// Print the variables with which programs record once `start` asks them to, for `eval`
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "flopgap-recording")]
    env: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "env", value_name = "PROGRAM")]
    program: Vec<OsString>,
    #[command(subcommand)]
    control: Option<Control>,
}

/// What is recorded.
#[derive(clap::Args)]
struct How {
    /// Record CUDA graphs by node, or each launch as a whole, which costs less, and needs a
    /// recording that begins with the program
    #[arg(long, value_enum, default_value_t = Graph::Node)]
    graph: Graph,
    /// Record only while an NVTX range of this name is open, on any thread, and half a second
    /// after; `NAME*` is any that begins so
    #[arg(long, value_name = "NAME")]
    range: Option<String>,
    /// Count FLOPs and bytes first, of each kernel, or of whole steps, the ranges of --range; the
    /// recording begins when all are counted; where that is not permitted, sample how active the
    /// tensor cores are (Hopper and newer)
    #[arg(long, value_enum, value_name = "OF", num_args = 0..=1, default_value = "off")]
    #[arg(default_missing_value = "kernels", hide_default_value = true)]
    flops: Flops,
    /// Keep at most so many bytes of a process (also 500M, 2G): the oldest are written over
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    max_size: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Graph {
    Node,
    Graph,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Flops {
    /// Nothing is counted
    Off,
    /// Each kernel that is unlike the others, by itself; then whole steps, if there is a --range
    Kernels,
    /// Whole steps, in which all runs as usual
    Steps,
}

#[derive(Subcommand)]
enum Control {
    /// Start recording in programs that run
    Start(Running),
    /// Stop recording in programs that run, and write what is recorded
    Stop(Stop),
    /// Write what a directory has as an export, such as after a crash
    Convert(Stop),
}

#[derive(clap::Args)]
struct Running {
    /// The directory that they record to, or the number of one of the processes
    #[arg(value_name = "DIR|PID")]
    target: PathBuf,
}

#[derive(clap::Args)]
struct Stop {
    #[command(flatten)]
    running: Running,
    /// Write the export to this file
    #[arg(short, long, value_name = "FILE", default_value = "flopgap.sqlite")]
    output: PathBuf,
    /// Print only the size of the recording and what is missing in it
    #[arg(short, long)]
    quiet: bool,
}

/// Between two looks at the program.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long programs may take to finish what they record.
const WAIT_AT_MOST: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &Arguments, restart: &Restart) -> Result<Exit, Failure> {
    match &arguments.control {
        Some(Control::Start(running)) => {
            let directory = running.directory()?;
            switch(&directory, true).map_err(|error| Failure::of(&error))?;
            Ok(Exit::Done)
        }
        Some(Control::Stop(stop)) => {
            let directory = stop.running.directory()?;
            switch(&directory, false).map_err(|error| Failure::of(&error))?;
            if !wait_for_records(&directory, WAIT_AT_MOST).map_err(|error| Failure::of(&error))? {
                flopgap_cli::warn(PROGRAM, "some programs did not answer: their last records are missing");
            }
            written(&exported(&directory, &stop.output)?, &stop.output, stop.quiet, restart)
        }
        Some(Control::Convert(stop)) => {
            let exported = exported(&stop.running.directory()?, &stop.output)?;
            written(&exported, &stop.output, stop.quiet, restart)
        }
        None => match &arguments.env {
            Some(directory) => print_environment(directory, &arguments.how),
            None => record(arguments, restart),
        },
    }
}

impl Running {
    fn directory(&self) -> Result<PathBuf, Failure> {
        let target = &self.target;
        let Some(pid) = target.to_str().and_then(|it| it.parse::<u32>().ok()).filter(|_| !target.is_dir())
        else {
            return Ok(target.clone());
        };
        let environment = fs::read(format!("/proc/{pid}/environ")).map_err(|error| {
            Failure::new(format!("process {pid}: its environment cannot be read: {error}"))
        })?;
        let directory = environment
            .split(|&byte| byte == 0)
            .find_map(|it| it.strip_prefix(DIRECTORY_VARIABLE.as_bytes())?.strip_prefix(b"="));
        let directory = directory.and_then(|it| std::str::from_utf8(it).ok()).ok_or_else(|| {
            Failure::new(format!("process {pid} was not started with the variables of flopgap record --env"))
                .exit(Exit::Absent)
        })?;
        Ok(PathBuf::from(directory))
    }
}

impl How {
    fn options(&self, starts_on: bool) -> Result<Options, Failure> {
        let mut options = Options::default();
        options.graphs = match self.graph {
            Graph::Node => Graphs::Nodes,
            Graph::Graph => Graphs::Whole,
        };
        options.max_size = self.max_size;
        options.starts_on = starts_on;
        options.range.clone_from(&self.range);
        // A program that brings its own is recorded with that one.
        let known = env::var_os(CUPTI_VARIABLE).map(PathBuf::from);
        options.cupti = known.or_else(|| probe(Library::Cupti).ok().map(|cupti| cupti.path().to_owned()));
        let counted = match self.flops {
            Flops::Off => return Ok(options),
            Flops::Kernels => Counted::Kernels,
            Flops::Steps if self.range.is_none() => {
                let text = "--flops steps counts ranges of NVTX as steps, and none is named";
                return Err(Failure::new(text).exit(Exit::Usage).hint("name it: --range 'step*'"));
            }
            Flops::Steps => Counted::Steps,
        };
        options.counters = Some(counters(counted).map_err(|error| Failure::of(&error))?);
        Ok(options)
    }
}

/// What the GPU counts in one pass each.
fn counters(counted: Counted) -> Result<Counters, CounterError> {
    let chip = Chip::new(&Context::new(0)?)?;
    let (once, often): (Vec<Group>, Vec<Group>) =
        chip.groups()?.into_iter().partition(|group| group.passes == 1);
    // Where a part of a type takes several passes, the other parts are not counted: no sum.
    let source = |metric: &str| Some(metric.split_once("_src_")?.1.split(['_', '.']).next()?.to_owned());
    let missing: Vec<String> =
        often.iter().flat_map(|group| &group.metrics).filter_map(|metric| source(metric)).collect();
    let is_whole = |metric: &String| source(metric).is_none_or(|source| !missing.contains(&source));
    let groups = once.into_iter().map(|group| group.metrics.into_iter().filter(is_whole).collect());
    Ok(Counters { chip: chip.name().to_owned(), groups: groups.collect(), counted })
}

/// Records the program from beginning to end.
fn record(arguments: &Arguments, restart: &Restart) -> Result<Exit, Failure> {
    let output = &arguments.output;
    let beside = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let directory = tempfile::Builder::new()
        .prefix(&format!("{name}.recording-"))
        .tempdir_in(beside)
        .map_err(|error| Failure::new(format!("{}: {error}", beside.display())))?;
    let options = arguments.how.options(arguments.delay.is_none())?;
    let session = Session::create(directory.path(), &options).map_err(|error| Failure::of(&error))?;
    let status = ran(arguments, &session)?;
    // What was recorded is worth more than a tidy directory.
    let directory = directory.keep();
    let exported = export(session.directory(), output);
    if let Err(error @ RecordError::Empty { .. }) = &exported {
        let _ = fs::remove_dir_all(&directory);
        return Err(Failure::of(error));
    }
    let exit = exported
        .map_err(|error| Failure::of(&error))
        .and_then(|exported| {
            let exit = written(&exported, output, arguments.quiet, restart)?;
            if let Some(range) = arguments.how.range.as_ref().filter(|_| exported.kernels == 0) {
                let text = format!("no kernel was launched while a range {range} was open");
                flopgap_cli::warn(PROGRAM, text);
            }
            Ok(exit)
        })
        .map_err(|failure| failure.hint(format!("the recording is in {}", directory.display())))?;
    let _ = fs::remove_dir_all(&directory);
    if status.success() {
        return Ok(exit);
    }
    Err(Failure::new(format!("{}: ended with {status}", arguments.program[0].display())))
}

/// Runs the program, and switches recording on and off in its time.
fn ran(arguments: &Arguments, session: &Session) -> Result<ExitStatus, Failure> {
    let program = &arguments.program;
    let failed = |error| Failure::new(format!("{}: cannot be run: {error}", program[0].display()));
    let termination = Termination::catch_while_waiting().map_err(failed)?;
    let mut child =
        Command::new(&program[0]).args(&program[1..]).envs(session.environment()).spawn().map_err(failed)?;
    let begun = Instant::now();
    let mut starts = arguments.delay;
    let mut stops = arguments.duration.map(|duration| arguments.delay.unwrap_or_default() + duration);
    let mut counts = arguments.how.flops != Flops::Off && stops.is_some();
    let mut passed_on = false;
    let _sampling = (arguments.how.flops != Flops::Off).then(|| Sampling::start(session.directory()));
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        if counts {
            // The recording begins when everything is counted.
            let directory = session.directory();
            counts = starts.is_some() || is_counting(directory).map_err(|error| Failure::of(&error))?;
            stops = arguments.duration.map(|duration| begun.elapsed() + duration);
        }
        for (time, on) in [(&mut starts, true), (&mut stops, false)] {
            if time.is_some_and(|time| begun.elapsed() >= time) {
                *time = None;
                switch(session.directory(), on).map_err(|error| Failure::of(&error))?;
            }
        }
        if termination.flag().load(Ordering::Relaxed) && !passed_on {
            passed_on = true;
            terminate(&child);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Passes SIGTERM on: the program ends, and its recording is written.
fn terminate(child: &Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // One that has ended meanwhile needs none.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Writes the export.
fn exported(directory: &Path, output: &Path) -> Result<Exported, Failure> {
    export(directory, output).map_err(|error| Failure::of(&error))
}

/// Says what an export has and lacks, and answers.
fn written(exported: &Exported, output: &Path, quiet: bool, restart: &Restart) -> Result<Exit, Failure> {
    flopgap_cli::note(PROGRAM, summary(exported, output));
    if exported.counted + exported.uncounted > 0 {
        let all = exported.counted + exported.uncounted;
        flopgap_cli::note(PROGRAM, format!("the FLOPs of {} of {all} kernels are known", exported.counted));
    }
    for loss in &exported.losses {
        flopgap_cli::warn(PROGRAM, loss);
    }
    if quiet || exported.kernels == 0 {
        return Ok(Exit::Done);
    }
    answer::run(&[output.to_owned()], false, false, restart)
}

fn summary(exported: &Exported, output: &Path) -> String {
    let Exported { processes, kernels, copies, calls, ranges, .. } = exported;
    let of = |count: &u64, one: &str, many: &str| format!("{count} {}", if *count == 1 { one } else { many });
    format!(
        "{}: {}, {}, {}, {}, {}",
        output.display(),
        of(processes, "process", "processes"),
        of(kernels, "kernel", "kernels"),
        of(copies, "copy or set", "copies and sets"),
        of(calls, "API call", "API calls"),
        of(ranges, "range or mark", "ranges and marks"),
    )
}

/// Prints the variables, as a shell sets them.
fn print_environment(directory: &Path, how: &How) -> Result<Exit, Failure> {
    let session = Session::create(directory, &how.options(false)?).map_err(|error| Failure::of(&error))?;
    for (name, value) in session.environment() {
        let value = answer::in_shell(&value.to_string_lossy());
        flopgap_cli::print(&format!("export {name}={value}"))?;
    }
    Ok(Exit::Done)
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "a number of seconds, such as 2.5".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let unit = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err("a number of bytes, such as 500M or 2G".to_owned()),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|digits| digits.checked_mul(unit));
    bytes.ok_or_else(|| "a number of bytes, such as 500M or 2G".to_owned())
}
