//! Drives a headless Chromium, so that tests see pages as readers do.
//!
//! It speaks the [`DevTools` protocol](https://chromedevtools.github.io/devtools-protocol/) over
//! the pipe of `--remote-debugging-pipe`: no port, no `WebDriver`, no download. The browser gets an
//! empty profile and no network.
//!
//! ```no_run
//! use flopgap_testing::browser::Browser;
//!
//! fn main() -> Result<(), flopgap_testing::browser::Error> {
//!     if let Some(mut browser) = Browser::for_test("the page opens")? {
//!         browser.resize(360, 740)?;
//!         browser.open("report.html".as_ref())?;
//!         assert_eq!(browser.evaluate("document.title")?, "A run");
//!         assert!(browser.problems().is_empty());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The browser is the one that `FLOPGAP_CHROMIUM` names, or else `chromium` or `google-chrome` on
//! the path (`apt-get install chromium`). Without one, `Browser::for_test` prints a note to
//! standard error and returns `None`, and the test is skipped. `FLOPGAP_REQUIRE=chromium` makes
//! this an error.
//!
//! With `FLOPGAP_AXE` set to the path of an `axe.min.js`, [`Browser::axe`] runs the accessibility
//! checks of [axe-core](https://github.com/dequelabs/axe-core). With `FLOPGAP_SHOTS` set to a
//! directory, [`Browser::shot`] saves screenshots there.

mod error;
mod find;
mod input;
mod pipe;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use serde_json::{Value, json};

pub use error::Error;
pub use input::Swipe;
use pipe::Pipe;

/// A page that has not loaded, or an expression without a result, after this time is an error.
const PATIENCE: Duration = Duration::from_mins(2);

/// A headless browser with one page.
#[derive(Debug)]
pub struct Browser {
    pipe: Pipe,
    /// Whether the page is shown as on a phone.
    mobile: bool,
}

impl Browser {
    /// A browser for a test; `None`, with the reason on standard error, if no Chromium is
    /// installed.
    ///
    /// # Errors
    /// [`Error::Missing`] when `FLOPGAP_REQUIRE` names `chromium` and there is none,
    /// [`Error::Failed`] when it does not start.
    pub fn for_test(test: &str) -> Result<Option<Browser>, Error> {
        match find::chromium() {
            Ok(program) => Browser::start(&program).map(Some),
            Err(error) if find::is_required() => Err(error),
            Err(error) => Ok(crate::none("chromium", format!("{test}: {error}"))),
        }
    }

    /// Starts a browser.
    fn start(program: &Path) -> Result<Browser, Error> {
        let mut pipe = Pipe::start(program)?;
        let target = pipe.call("Target.createTarget", &json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = pipe.call("Target.attachToTarget", &attach)?;
        pipe.attach(session["sessionId"].as_str().unwrap_or_default());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            pipe.call(&format!("{domain}.enable"), &json!({}))?;
        }
        let offline =
            json!({ "offline": true, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
        pipe.call("Network.emulateNetworkConditions", &offline)?;
        let mut browser = Browser { pipe, mobile: false };
        browser.resize(1440, 900)?;
        Ok(browser)
    }

    /// Resizes the page, in pixels.
    ///
    /// # Errors
    /// [`Error::Failed`] when the browser is gone.
    pub fn resize(&mut self, width: u32, height: u32) -> Result<(), Error> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": self.mobile });
        self.command("Emulation.setDeviceMetricsOverride", &size)?;
        self.wait_until_drawn()
    }

    /// Shows pages as a phone does, with a finger in place of the mouse.
    ///
    /// # Errors
    /// [`Error::Failed`] when the browser is gone.
    pub fn touch(&mut self) -> Result<(), Error> {
        self.mobile = true;
        self.command("Emulation.setTouchEmulationEnabled", &json!({ "enabled": true, "maxTouchPoints": 5 }))?;
        Ok(())
    }

    /// Opens a file and waits until it has loaded and is drawn.
    ///
    /// # Errors
    /// [`Error::Failed`] when the file cannot be opened.
    pub fn open(&mut self, file: &Path) -> Result<(), Error> {
        let file = std::path::absolute(file).map_err(|error| Error::failed("the page's path", error))?;
        let opened =
            self.command("Page.navigate", &json!({ "url": format!("file://{}", file.display()) }))?;
        if let Some(reason) = opened["errorText"].as_str() {
            return Err(Error::failed("Page.navigate", reason));
        }
        self.wait_for("document.readyState === 'complete'")?;
        self.wait_until_drawn()
    }

    /// The value of an expression in the page; a promise is awaited.
    ///
    /// # Errors
    /// [`Error::Failed`] with the page's exception.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value, Error> {
        let what = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.command("Runtime.evaluate", &what)?;
        match result.get("exceptionDetails") {
            Some(exception) => {
                let text = exception["exception"]["description"].as_str().unwrap_or("an exception");
                Err(Error::failed(expression, text))
            }
            None => Ok(result["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true.
    ///
    /// # Errors [`Error::Failed`] when it is not within two minutes.
    pub fn wait_for(&mut self, condition: &str) -> Result<(), Error> {
        let start = Instant::now();
        while self.evaluate(condition)? != true {
            if start.elapsed() > PATIENCE {
                return Err(Error::failed(condition, "is not true after two minutes"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until the page has drawn.
    ///
    /// # Errors
    /// [`Error::Failed`] when the browser is gone.
    pub fn wait_until_drawn(&mut self) -> Result<(), Error> {
        // Two frames: observers of sizes run in the first and ask for the second.
        let frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))";
        self.evaluate(frames).map(drop)
    }

    /// Any command of the `DevTools` protocol.
    ///
    /// # Errors
    /// [`Error::Failed`] with the browser's answer.
    pub fn command(&mut self, method: &str, parameters: &Value) -> Result<Value, Error> {
        self.pipe.call(method, parameters)
    }

    /// What the page reported since the last call: errors in the console, exceptions, violations of
    /// its content security policy, and requests for anything but files.
    pub fn problems(&mut self) -> Vec<String> {
        self.pipe.events().into_iter().filter_map(|event| problem(&event)).collect()
    }

    /// The page as a PDF; [`sheets`] counts its sheets.
    ///
    /// # Errors
    /// [`Error::Failed`] when the browser cannot print.
    pub fn print(&mut self) -> Result<Vec<u8>, Error> {
        let printed = self.command("Page.printToPDF", &json!({ "preferCSSPageSize": true }))?;
        bytes(&printed["data"])
    }

    /// Saves the visible part as a PNG in the directory `FLOPGAP_SHOTS`, if that is set.
    ///
    /// # Errors
    /// [`Error::Failed`] when the picture cannot be taken or written.
    pub fn shot(&mut self, name: &str) -> Result<(), Error> {
        let Some(directory) = std::env::var_os("FLOPGAP_SHOTS").map(PathBuf::from) else { return Ok(()) };
        let shot = self.command("Page.captureScreenshot", &json!({ "format": "png" }))?;
        std::fs::write(directory.join(format!("{name}.png")), bytes(&shot["data"])?)
            .map_err(|error| Error::failed(name, error))
    }

    /// The findings of axe-core, one line each; empty without `FLOPGAP_AXE`.
    ///
    /// # Errors
    /// [`Error::Failed`] when the script cannot be read or run.
    pub fn axe(&mut self) -> Result<Vec<String>, Error> {
        let Some(path) = std::env::var_os("FLOPGAP_AXE") else {
            crate::skip("axe-core", "FLOPGAP_AXE does not name an axe.min.js");
            return Ok(Vec::new());
        };
        let script = std::fs::read_to_string(&path).map_err(|error| Error::failed("FLOPGAP_AXE", error))?;
        self.evaluate(&format!("{script};null"))?;
        let found = self.evaluate(
            "axe.run().then((found) => found.violations.map((rule) => `${rule.id}: ${rule.help}: ${rule.nodes.map((node) => node.html.slice(0, 120)).join(' ')}`))",
        )?;
        let found = found.as_array().cloned().unwrap_or_default();
        Ok(found.iter().map(|line| line.as_str().unwrap_or_default().to_owned()).collect())
    }
}

/// Decodes the browser's base64.
fn bytes(data: &Value) -> Result<Vec<u8>, Error> {
    STANDARD.decode(data.as_str().unwrap_or_default()).map_err(|error| Error::failed("base64", error))
}

/// How many sheets a PDF of the browser has.
pub fn sheets(pdf: &[u8]) -> usize {
    let text = String::from_utf8_lossy(pdf);
    text.matches("/Type /Page\n").count()
}

/// An event as a problem, if it is one.
fn problem(event: &Value) -> Option<String> {
    let parameters = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(format!("exception: {}", parameters["exceptionDetails"])),
        "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
            Some(parameters["entry"]["text"].to_string())
        }
        "Runtime.consoleAPICalled" if parameters["type"] == "error" => {
            Some(format!("console: {}", parameters["args"]))
        }
        "Network.requestWillBeSent" => {
            let url = parameters["request"]["url"].as_str().unwrap_or_default();
            let inside = ["file:", "data:", "blob:"].iter().any(|scheme| url.starts_with(scheme));
            (!inside).then(|| format!("asked for {url}"))
        }
        _ => None,
    }
}
