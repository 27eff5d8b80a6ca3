//! Several GPUs: a process for each, since CUPTI counts on one GPU a process.
//!
//! The process that fills the run gives each free process a configuration, and writes all files
//! itself. Replies are lines of JSON.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use flopgap_cli::{Failure, Restart, Termination};
use flopgap_phases::sweep::{Backend, Config, Meter, MeterError, Origin, Record};
use serde::{Deserialize, Serialize};

use crate::hardware::{Counted, Hardware, InProcess};

/// A message of a process that counts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    /// The device is open.
    Ready,
    /// A record as JSON.
    Record(String),
    /// An error of the device or of a configuration.
    Error(MeterError),
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The device.
    #[arg(long)]
    device: u32,
    /// The parent process. This one is killed when the parent ends.
    #[arg(long)]
    parent: Option<u32>,
    /// Count every launch.
    #[arg(long)]
    count_all: bool,
}

/// Counts the configurations whose names arrive on standard input, until it ends.
pub(crate) fn run(arguments: &Arguments, hardware: &dyn Hardware) -> Result<(), Failure> {
    // A scheduler may ask all processes of a job to end. The one that asks this one decides when.
    let mut termination = None;
    if let Some(parent) = arguments.parent {
        end_with(parent)?;
        termination = Termination::catch().ok();
    }
    let mut meter = match hardware.meter(arguments.device, Counted::all_if(arguments.count_all)) {
        Ok(meter) => meter,
        Err(error) => return say(&Reply::Error(error)),
    };
    say(&Reply::Ready)?;
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| Failure::new(format!("standard input: {error}")))?;
        let config = Config::from_name(&line).ok_or_else(|| {
            Failure::new(format!("invalid configuration `{line}`: expected a name such as n2_d256_m16"))
        })?;
        say(&match meter.measure(config) {
            Ok(record) => Reply::Record(record.to_json()),
            Err(error) => Reply::Error(error),
        })?;
    }
    drop(termination);
    Ok(())
}

/// Has this process killed when the one that asks ends, even if that is killed itself: its input
/// then ends, too, but is read only between two configurations.
#[cfg(target_os = "linux")]
fn end_with(parent: u32) -> Result<(), Failure> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::new(format!("this process cannot be tied to its parent: {error}")))?;
    // The parent may have ended just before.
    let is_parent = getppid().is_some_and(|pid| pid.as_raw_nonzero().get().unsigned_abs() == parent);
    if is_parent { Ok(()) } else { Err(Failure::new("the parent process has ended")) }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
fn end_with(_parent: u32) -> Result<(), Failure> {
    Ok(())
}

fn say(reply: &Reply) -> Result<(), Failure> {
    let line = serde_json::to_string(reply).map_err(|error| Failure::from_error(&error))?;
    flopgap_cli::print(&(line + "\n"))
}

/// The counters of the hardware, each device's in a process of its own.
pub(crate) struct Processes<'a> {
    pub(crate) hardware: &'a dyn Hardware,
    pub(crate) counted: Counted,
    pub(crate) restart: &'a Restart,
}

impl Backend for Processes<'_> {
    fn origin(&self, device: u32) -> Result<Origin, MeterError> {
        let Processes { hardware, counted, .. } = *self;
        InProcess { hardware, counted }.origin(device)
    }

    fn open(&self, device: u32) -> Result<Box<dyn Meter + '_>, MeterError> {
        Ok(Box::new(Counter::start(self.restart, device, self.counted)?))
    }
}

/// A process that counts on one device. It ends when its input does, which is when this is dropped,
/// and is killed when the thread that started it ends (on Linux; elsewhere it ends after the
/// configuration available).
struct Counter {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Counter {
    fn start(restart: &Restart, device: u32, counted: Counted) -> Result<Counter, MeterError> {
        let program = restart.program().map_err(|failure| MeterError::Lost { message: failure.message() })?;
        let failed = |error| MeterError::Lost { message: format!("{}: {error}", program.display()) };
        let (device, parent) = (device.to_string(), std::process::id().to_string());
        let all = (counted == Counted::All).then_some("--count-all");
        let own = ["count-on", "--device", &device, "--parent", &parent].into_iter().chain(all);
        let mut child = Command::new(&program)
            .args(restart.arguments(own.map(str::to_owned)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.unwrap_or_else(|| unreachable!("it is piped")));
        let mut process = Counter { child, input, output };
        match process.reply()? {
            Reply::Ready => Ok(process),
            Reply::Error(error) => Err(error),
            Reply::Record(_) => Err(process.lost("it sent a record without being asked")),
        }
    }

    fn reply(&mut self) -> Result<Reply, MeterError> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(self.lost("it ended")),
            Ok(_) => serde_json::from_str(&line).map_err(|error| self.lost(&error.to_string())),
            Err(error) => Err(self.lost(&error.to_string())),
        }
    }

    /// The process is lost.
    fn lost(&mut self, what: &str) -> MeterError {
        self.input = None;
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        MeterError::Lost { message: format!("the process that counts: {what} ({status})") }
    }
}

impl Meter for Counter {
    fn measure(&mut self, config: Config) -> Result<Record, MeterError> {
        let sent = match &mut self.input {
            Some(input) => writeln!(input, "{config}"),
            None => return Err(self.lost("it ended")),
        };
        if let Err(error) = sent {
            return Err(self.lost(&error.to_string()));
        }
        match self.reply()? {
            Reply::Record(json) => Record::from_json(json.as_bytes(), "the reply".as_ref())
                .map_err(|error| self.lost(&error.to_string())),
            Reply::Error(error) => Err(error),
            Reply::Ready => Err(self.lost("it restarted")),
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}
