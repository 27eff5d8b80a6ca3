//! The `DevTools` protocol over the pipe of a browser: messages in JSON, each ended by a zero.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::browser::{Error, PATIENCE};

/// The browser listens at descriptor 3 and answers at descriptor 4, which only a shell can set
/// without unsafe code.
const MOVE_DESCRIPTORS: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

const ARGUMENTS: [&str; 13] = [
    "--headless",
    // Continuous integration runs as root, in containers, where the sandbox does not start.
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    // The 3D surfaces are drawn by the CPU.
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

#[derive(Debug)]
pub(crate) struct Pipe {
    child: Child,
    input: ChildStdin,
    answers: Receiver<Value>,
    session: Option<String>,
    last: u64,
    events: Vec<Value>,
    /// The browser's profile, removed with the browser.
    _profile: TempDir,
}

impl Pipe {
    pub(crate) fn start(program: &Path) -> Result<Pipe, Error> {
        let name = program.display().to_string();
        let failed = |error: std::io::Error| Error::failed(&name, error);
        let profile = tempfile::tempdir().map_err(failed)?;
        let mut child = Command::new("sh")
            .args(["-c", MOVE_DESCRIPTORS, "sh"])
            .arg(program)
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::failed(&name, "it has no pipes"));
        };
        let (send, answers) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut message = Vec::new();
            while let Ok(1..) = output.read_until(0, &mut message) {
                message.pop();
                if let Ok(value) = serde_json::from_slice(&message)
                    && send.send(value).is_err()
                {
                    return;
                }
                message.clear();
            }
        });
        Ok(Pipe { child, input, answers, session: None, last: 0, events: Vec::new(), _profile: profile })
    }

    /// From now on, commands go to a page.
    pub(crate) fn attach(&mut self, session: &str) {
        self.session = Some(session.to_owned());
    }

    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Result<Value, Error> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let sent = self.input.write_all(format!("{message}\0").as_bytes());
        sent.and_then(|()| self.input.flush()).map_err(|error| Error::failed(method, error))?;
        let start = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let Ok(mut answer) = self.answers.recv_timeout(left) else {
                return Err(Error::failed(method, "the browser does not answer"));
            };
            if answer["id"] != self.last {
                self.events.push(answer);
                continue;
            }
            return match answer.get("error") {
                Some(error) => Err(Error::failed(method, error)),
                None => Ok(answer["result"].take()),
            };
        }
    }

    /// Events received since the last call.
    pub(crate) fn events(&mut self) -> Vec<Value> {
        self.events.extend(self.answers.try_iter());
        std::mem::take(&mut self.events)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // Closing the pipe ends the browser; it is killed only if it does not react.
        if self.session.take().is_none() || self.call("Browser.close", &json!({})).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
