//! What the recorder itself reported about a recording.

use std::fmt;

use flopgap_files::present;

use crate::{Error, Severity, Trace};

/// Beginnings of messages about data that no command here reads: the states of host threads.
/// Recordings without sampling of the CPU, which are the rule, all have this one.
const UNRELATED: [&str; 1] = ["Scheduling information is absent"];

/// The entry of the metadata that names the program that wrote an export.
const PRODUCT: &str = "EXPORT_PRODUCT_NAME";

/// A problem that the recorder reported about a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Who reported it: `nsys`, or `flopgap record`.
    pub recorder: &'static str,
    /// How severe it is.
    pub severity: Severity,
    /// What it says.
    pub text: String,
    /// How often it was reported.
    pub times: u64,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} reported (", self.recorder)?;
        match self.severity.label() {
            Some(label) => f.write_str(&label.to_lowercase())?,
            None => write!(f, "severity {}", self.severity)?,
        }
        write!(f, "): {}", self.text)?;
        if self.times > 1 { write!(f, " ({} times)", self.times) } else { Ok(()) }
    }
}

impl Trace {
    /// The problems that the recorder reported: errors first, each message once with the number of
    /// times it was reported. Empty when it reported none, and for exports before 2024, which do
    /// not hold its messages.
    ///
    /// # Errors
    /// When the table of its messages is damaged.
    pub fn problems(&self) -> Result<Vec<Problem>, Error> {
        let Some(reported) = present(self.diagnostics())? else { return Ok(Vec::new()) };
        let product = self.export_metadata()?;
        let is_ours = product.iter().any(|it| &*it.name == PRODUCT && it.value.as_deref() == Some("flopgap"));
        let recorder = if is_ours { "flopgap record" } else { "nsys" };
        let mut problems: Vec<Problem> = Vec::new();
        let related = |text: &str| !UNRELATED.iter().any(|unrelated| text.starts_with(unrelated));
        for message in reported.iter().filter(|message| message.is_problem() && related(&message.text)) {
            let (severity, text) = (message.severity, message.text.trim());
            match problems.iter_mut().find(|known| known.severity == severity && known.text == text) {
                Some(known) => known.times += 1,
                None => problems.push(Problem { recorder, severity, text: text.to_owned(), times: 1 }),
            }
        }
        // Stable: within errors and within the rest, the order in which they were reported.
        problems.sort_by_key(|problem| problem.severity != Severity::Error);
        Ok(problems)
    }
}
