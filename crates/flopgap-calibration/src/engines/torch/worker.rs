//! The Python process that runs PyTorch.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::engines::error::EngineError;

/// How to get PyTorch.
pub(super) const HINT: &str = "install it with `pip install torch`, and name the Python that has it in FLOPGAP_PYTHON if it is not `python3`";

const SOURCE: &str = include_str!("worker.py");
/// How long an answer may take: `torch.compile` takes minutes for deep networks.
const LONGEST: Duration = Duration::from_mins(10);
/// How long the process may take to end when its input has ended.
const ENDING: Duration = Duration::from_secs(3);
/// Bytes of its standard error that are reported when it ends.
const LAST_WORDS: u64 = 2000;

/// A running worker. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    /// Holds the worker's source and what it writes to standard error.
    folder: TempDir,
    next: u64,
}

/// A line of the worker.
#[derive(Deserialize)]
struct Line {
    id: u64,
    #[serde(default)]
    answer: Option<Value>,
    #[serde(default)]
    error: Option<Refusal>,
}

/// Why a request failed.
#[derive(Debug, Deserialize)]
pub(super) struct Refusal {
    pub(super) kind: String,
    pub(super) message: String,
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum Failure {
    /// The worker answered that it cannot.
    Refused(Refusal),
    /// The worker has ended, or its reply is invalid: the next request needs another.
    Lost(String),
}

impl Worker {
    /// Starts Python.
    pub(super) fn start(python: &Path) -> Result<Self, EngineError> {
        let failed = |error: std::io::Error| EngineError::Failed {
            action: "preparing the worker of PyTorch".to_owned(),
            message: error.to_string(),
        };
        let folder = tempfile::tempdir().map_err(failed)?;
        let source = folder.path().join("worker.py");
        std::fs::write(&source, SOURCE).map_err(failed)?;
        let errors = File::create(folder.path().join("stderr")).map_err(failed)?;
        let started = Command::new(python)
            .arg("-u")
            .arg(&source)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn();
        let mut child = started.map_err(|error| EngineError::Missing {
            what: "Python",
            reason: format!("{}: {error}", python.display()),
            hint: HINT,
        })?;
        let (send, answers) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if send.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let input = child.stdin.take();
        Ok(Worker { child, input, answers, folder, next: 1 })
    }

    /// Sends a request, and waits for the answer.
    pub(super) fn ask<T: DeserializeOwned>(&mut self, mut request: Value) -> Result<T, Failure> {
        let id = self.next;
        self.next += 1;
        request["id"] = json!(id);
        let mut line = request.to_string();
        line.push('\n');
        let written =
            self.input.as_mut().map(|input| input.write_all(line.as_bytes()).and_then(|()| input.flush()));
        if !matches!(written, Some(Ok(()))) {
            return Err(self.lost());
        }
        let line = match self.answers.recv_timeout(LONGEST) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                // The process must not continue computing for nobody. If it cannot be ended, there
                // is nothing else to do.
                let _ = self.child.kill();
                return Err(Failure::Lost(format!("no answer within {} s", LONGEST.as_secs())));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
        };
        let nonsense = |why: String| Failure::Lost(format!("the worker answered {line:?}: {why}"));
        let answer: Line = serde_json::from_str(&line).map_err(|error| nonsense(error.to_string()))?;
        if answer.id != id {
            return Err(nonsense(format!("expected the answer to request {id}, found {}", answer.id)));
        }
        match (answer.answer, answer.error) {
            (_, Some(refusal)) => Err(Failure::Refused(refusal)),
            (Some(value), None) => serde_json::from_value(value).map_err(|error| nonsense(error.to_string())),
            (None, None) => Err(nonsense("neither an answer nor an error".to_owned())),
        }
    }

    /// How the process ended, and its last output.
    fn lost(&mut self) -> Failure {
        let end = match self.wait(ENDING) {
            Some(status) => format!("the worker ended with {status}"),
            None => "the worker closed its output".to_owned(),
        };
        let words = last_words(&self.folder.path().join("stderr")).unwrap_or_default();
        let words = words.trim();
        Failure::Lost(if words.is_empty() { end } else { format!("{end}; its last output: {words}") })
    }

    fn wait(&mut self, longest: Duration) -> Option<std::process::ExitStatus> {
        let start = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if start.elapsed() >= longest {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // At the end of its input it ends by itself.
        drop(self.input.take());
        if self.wait(ENDING).is_none() {
            // It is gone in either case: what has ended cannot be killed.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn last_words(path: &PathBuf) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
