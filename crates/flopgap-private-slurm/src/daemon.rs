//! A process of a Slurm.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::find;
use crate::settings::Settings;

/// How long a process may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// A daemon that runs as a child of this process, and ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
}

impl Daemon {
    pub(crate) fn start(program: &Path, arguments: &[String], settings: &Settings) -> io::Result<Daemon> {
        // With `setpriv`, the system ends it should this process be killed.
        let mut command = match find("setpriv") {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(arguments).env("SLURM_CONF", settings.configuration());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Daemon { child: command.spawn()? })
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.is_alive() {
            return;
        }
        // SIGTERM, so that it takes its own processes along.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let begin = Instant::now();
        while self.is_alive() && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
