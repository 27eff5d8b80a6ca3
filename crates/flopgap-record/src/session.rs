//! A recording while it is made: its directory, the environment of programs, and the switch.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, iter};

use crate::RecordError;
use crate::export::{files, processes};
use crate::format::{COUNTERS, KERNELS, STEPS, SWITCH, variable};
use crate::reader::Process;

/// The library that is injected, as `build.rs` compiled it. Empty where programs are not recorded.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libflopgap_inject.so"));
/// Its name in the directory.
const NAME: &str = "libflopgap_inject.so";

/// The variable of the environment that names the directory of a recording.
pub const DIRECTORY_VARIABLE: &str = variable::DIRECTORY;
/// The variable that names CUPTI, for programs that have not loaded it themselves.
pub const CUPTI_VARIABLE: &str = variable::CUPTI;

/// How graphs of CUDA are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Graphs {
    /// Each of their kernels and copies.
    #[default]
    Nodes,
    /// Each launch of a graph as a whole, which costs less, where recording begins with the
    /// program; else by node, since CUPTI crashes with graphs that were made before.
    Whole,
}

/// What is recorded, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// How graphs of CUDA are recorded.
    pub graphs: Graphs,
    /// The most bytes that a process keeps; the oldest are written over.
    pub max_size: Option<u64>,
    /// Whether recording begins with the program, or when somebody switches it on.
    pub starts_on: bool,
    /// The name of the NVTX range that is recorded alone, on whatever thread: recording begins with
    /// it, and ends when none has been open for half a second. With a star at its end, names may
    /// go on: `step *`.
    pub range: Option<String>,
    /// CUPTI, for programs that have not loaded it themselves.
    pub cupti: Option<PathBuf>,
    /// What is counted before the recording begins.
    pub counters: Option<Counters>,
}

/// Of what metrics are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counted {
    /// Of each kernel that is unlike the others, and then of whole steps where [`Options::range`]
    /// says what a step is: the sums of both agree.
    #[default]
    Kernels,
    /// Of whole steps alone, the ranges of [`Options::range`]: no kernel has to run by itself.
    Steps,
}

/// Metrics that are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// The chip of the GPU, as CUPTI calls it: `GH100`.
    pub chip: String,
    /// Metrics that are counted together, each group in one pass.
    pub groups: Vec<Vec<String>>,
    /// Of what.
    pub counted: Counted,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            graphs: Graphs::Nodes,
            max_size: None,
            starts_on: true,
            range: None,
            cupti: None,
            counters: None,
        }
    }
}

/// A directory that programs write their recordings to.
///
/// ```no_run
/// use flopgap_record::{Options, Session, export};
///
/// let session = Session::create("recording".as_ref(), &Options::default())?;
/// let mut program = std::process::Command::new("python3");
/// program.arg("train.py").envs(session.environment());
/// program.status().unwrap();
/// let exported = export(session.directory(), "step.sqlite".as_ref())?;
/// println!("{} kernels", exported.kernels);
/// # Ok::<(), flopgap_record::RecordError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Session {
    directory: PathBuf,
    options: Options,
}

impl Session {
    /// Makes the directory, with the library in it.
    ///
    /// # Errors
    /// A directory that cannot be written; [`RecordError::NotHere`] elsewhere than on Linux.
    pub fn create(directory: &Path, options: &Options) -> Result<Session, RecordError> {
        if LIBRARY.is_empty() {
            return Err(RecordError::NotHere);
        }
        fs::create_dir_all(directory).map_err(RecordError::io(directory))?;
        // Programs may change their directory before they call CUDA.
        let directory = fs::canonicalize(directory).map_err(RecordError::io(directory))?;
        let library = directory.join(NAME);
        fs::write(&library, LIBRARY).map_err(RecordError::io(&library))?;
        let counters = directory.join(COUNTERS);
        let written = match &options.counters {
            Some(Counters { chip, groups, counted }) => {
                let counted = match counted {
                    Counted::Kernels => KERNELS,
                    Counted::Steps => STEPS,
                };
                let lines = iter::once(format!("{chip} {counted}"));
                let lines = lines.chain(groups.iter().map(|group| group.join(" ")));
                fs::write(&counters, lines.collect::<Vec<_>>().join("\n"))
            }
            // Of an earlier session.
            None if counters.exists() => fs::remove_file(&counters),
            None => Ok(()),
        };
        written.map_err(RecordError::io(&counters))?;
        switch(&directory, options.starts_on)?;
        Ok(Session { directory, options: options.clone() })
    }

    /// Where the recordings are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The library: a program that has initialized CUDA without it loads it and calls
    /// `InitializeInjection`.
    pub fn library(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// The variables that make a program, and the programs that it starts, write recordings.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let library = self.library();
        let mut variables = vec![
            ("CUDA_INJECTION64_PATH", library.clone().into_os_string()),
            ("NVTX_INJECTION64_PATH", library.into_os_string()),
            (variable::DIRECTORY, self.directory.clone().into_os_string()),
        ];
        if let Some(bytes) = self.options.max_size {
            variables.push((variable::MAX_SIZE, bytes.to_string().into()));
        }
        if self.options.graphs == Graphs::Whole {
            variables.push((variable::GRAPH, "graph".into()));
        }
        if let Some(range) = &self.options.range {
            variables.push((variable::RANGE, range.into()));
        }
        if let Some(cupti) = &self.options.cupti {
            variables.push((variable::CUPTI, cupti.clone().into_os_string()));
        }
        variables
    }
}

/// Waits until the programs that still run have brought everything of before now into their files,
/// at most so long. Returns whether all have.
///
/// # Errors
/// A directory that cannot be read.
pub fn wait_for_records(directory: &Path, longest: Duration) -> Result<bool, RecordError> {
    let since = now();
    // A process that does not use CUDA flushes nothing: its events are there at once.
    wait(directory, longest, |process| process.flushed().is_none_or(|flushed| u128::from(flushed) >= since))
}

/// Waits until the programs that run do what the [switch] says, or have said why they do not, at
/// most so long. Returns whether all do.
///
/// # Errors
/// A directory that cannot be read.
pub fn wait_for_switch(directory: &Path, on: bool, longest: Duration) -> Result<bool, RecordError> {
    wait(directory, longest, |process| process.cupti().is_none() || process.follows(on))
}

/// Waits until all programs that run are ready.
fn wait(
    directory: &Path,
    longest: Duration,
    is_ready: impl Fn(&Process) -> bool,
) -> Result<bool, RecordError> {
    let asked = Instant::now();
    let is_behind =
        |process: &Process| !is_ready(process) && process.closed().is_none() && process.is_running();
    let mut behind = processes(directory)?;
    behind.retain(is_behind);
    while !behind.is_empty() && asked.elapsed() <= longest {
        std::thread::sleep(Duration::from_millis(20));
        for process in &mut behind {
            process.look_again()?;
        }
        behind.retain(is_behind);
    }
    Ok(behind.is_empty())
}

/// Whether programs still count their kernels, or have not begun to: they are recorded afterwards.
///
/// # Errors
/// A directory that cannot be read.
pub fn is_counting(directory: &Path) -> Result<bool, RecordError> {
    let all = match processes(directory) {
        Err(RecordError::Empty { .. }) => return Ok(true),
        all => all?,
    };
    let mut counting = all.iter().filter(|process| process.closed().is_none()).map(Process::counting);
    let ended = |counting: Option<(u64, Option<u64>)>| counting.is_none_or(|(_, end)| end.is_some());
    Ok(all.iter().all(|process| process.counting().is_none()) || !counting.all(ended))
}

/// Whether programs are recorded now whose kernels could not be counted, while no other counts or
/// has counted: nothing is known of what their kernels execute, and the counters of the GPU are
/// free.
///
/// # Errors
/// A directory that cannot be read.
pub fn counting_failed(directory: &Path) -> Result<bool, RecordError> {
    let all: Result<Vec<Process>, RecordError> =
        files(directory)?.iter().map(|file| Process::glance(file)).collect();
    let mut all = all?;
    all.retain(|process| process.cupti().is_some() && process.closed().is_none() && process.is_there());
    let (failed, others): (Vec<Process>, Vec<Process>) = all.into_iter().partition(Process::gave_up_counting);
    if !failed.iter().any(Process::is_recorded) {
        return Ok(false);
    }
    // One that has launched nothing, such as a parent that asked for the number of GPUs, may never.
    for process in others.iter().filter(|process| process.counting().is_some()) {
        if process.has_counted_work()? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Switches recording on or off, in all programs that write to a directory, while they run. They
/// follow within a tenth of a second.
///
/// # Errors
/// A directory that cannot be written.
pub fn switch(directory: &Path, on: bool) -> Result<(), RecordError> {
    let path = directory.join(SWITCH);
    let line = format!("{} {}\n", u8::from(on), now());
    let file = OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(RecordError::io(&path))
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}
