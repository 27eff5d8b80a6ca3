#![doc = include_str!("../README.md")]

mod daemon;
mod error;
mod settings;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use daemon::Daemon;
pub use error::Error;
use settings::Settings;

/// The programs that a Slurm consists of.
const PROGRAMS: [&str; 7] = ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol"];

/// How long to wait for the node.
const PATIENCE: Duration = Duration::from_secs(20);

/// A Slurm with one node and two GPUs that are none. It ends when this is dropped.
#[derive(Debug)]
pub struct Slurm {
    daemons: Vec<Daemon>,
    settings: Settings,
    _directory: TempDir,
}

impl Slurm {
    /// A Slurm for a test; none, with the reason on standard error, where it is not installed or
    /// this is not root.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Program`] and [`Error::NotReady`] when it does not start.
    ///
    /// # Panics
    /// When `FLOPGAP_REQUIRE` names `slurm` and there is none.
    pub fn for_test(test: &str) -> Result<Option<Slurm>, Error> {
        if let Some(missing) = PROGRAMS.into_iter().find(|program| find(program).is_none()) {
            return Ok(flopgap_skip::none("slurm", format!("{test}: `{missing}` is not installed")));
        }
        // Only root may become the user of a job.
        if !is_root() {
            return Ok(flopgap_skip::none("slurm", format!("{test}: Slurm's node needs root")));
        }
        // Another process may take a port before the daemon does.
        let mut attempts = 0;
        loop {
            attempts += 1;
            match Slurm::start() {
                Err(Error::NotReady { .. }) if attempts < 3 => {}
                started => return started.map(Some),
            }
        }
    }

    fn start() -> Result<Slurm, Error> {
        let directory = tempfile::Builder::new().prefix("slurm").tempdir().map_err(Error::Io)?;
        let settings = Settings::write(directory.path()).map_err(Error::Io)?;
        let mut slurm = Slurm { daemons: Vec::new(), settings, _directory: directory };
        for (program, arguments) in slurm.settings.daemons() {
            let path = find(program).unwrap_or_else(|| PathBuf::from(program));
            let daemon = Daemon::start(&path, &arguments, &slurm.settings).map_err(Error::Io)?;
            slurm.daemons.push(daemon);
        }
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if slurm.run("sinfo", &["--noheader", "--format=%T"]).is_ok_and(|state| state == "idle") {
                return Ok(slurm);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(Error::NotReady { logs: slurm.settings.logs() })
    }

    /// Makes a command, and all that it starts, see this Slurm and no other.
    pub fn enter<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("SLURM_") || name.starts_with("SBATCH_")) {
                command.env_remove(name);
            }
        }
        command.env("SLURM_CONF", self.settings.configuration())
    }

    /// What a program of Slurm prints, without space around it.
    ///
    /// # Errors
    /// [`Error::Program`] when it fails.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Error> {
        let output = self.enter(Command::new(program).args(arguments).stdin(Stdio::null())).output();
        let Output { status, stdout, stderr } = output.map_err(Error::Io)?;
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr).trim().to_owned();
            return Err(Error::Program { program: program.to_owned(), status: status.to_string(), said });
        }
        Ok(String::from_utf8_lossy(&stdout).trim().to_owned())
    }

    /// Waits until no job is queued or runs.
    ///
    /// # Errors
    /// [`Error::NotReady`] when there is one after this time.
    pub fn wait_for_all_jobs(&self, patience: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        loop {
            let queue = self.run("squeue", &["--noheader"])?;
            if queue.is_empty() {
                return Ok(());
            }
            if begin.elapsed() > patience {
                return Err(Error::NotReady { logs: format!("{queue}\n{}", self.settings.logs()) });
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Jobs end with it: nothing may go on to write into a directory that a test has removed.
impl Drop for Slurm {
    fn drop(&mut self) {
        let is_alive = self.daemons.iter_mut().all(Daemon::is_alive);
        if is_alive && self.run("squeue", &["--noheader"]).is_ok_and(|queue| !queue.is_empty()) {
            let _ = self.run("scancel", &["--user=root", "--quiet"]);
            let _ = self.wait_for_all_jobs(Duration::from_secs(5));
        }
        // The node before its controller.
        while self.daemons.pop().is_some() {}
    }
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
    })
}

/// A program of the `PATH`, or of where Debian puts daemons.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    directories.map(|directory| directory.join(program)).find(|path| is_file(path))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Reads a file, with invalid UTF-8 replaced.
fn text(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}
