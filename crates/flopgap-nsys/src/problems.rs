//! What nsys itself reported about a recording.

use crate::error::if_present;
use crate::{Error, Trace, severity_label};

/// Beginnings of messages about data that no command here reads: the states of host threads.
/// Recordings without sampling of the CPU, which are the rule, all have this one.
const UNRELATED: [&str; 1] = ["Scheduling information is absent"];

impl Trace {
    /// The problems that nsys reported, in its own words: errors first, each message once with the
    /// number of times it was reported. Empty when it reported none, and for exports before 2024,
    /// which do not hold its messages.
    ///
    /// # Errors
    /// When the table of its messages is damaged.
    pub fn problems(&self) -> Result<Vec<String>, Error> {
        let Some(reported) = if_present(self.diagnostics())? else { return Ok(Vec::new()) };
        let mut problems: Vec<(bool, String, u64)> = Vec::new();
        let related = |text: &str| !UNRELATED.iter().any(|unrelated| text.starts_with(unrelated));
        for message in reported.iter().filter(|message| message.is_problem() && related(&message.text)) {
            let label = severity_label(message.severity);
            let severity = label.map_or_else(|| format!("severity {}", message.severity), str::to_lowercase);
            let text = format!("nsys reported ({severity}): {}", message.text.trim());
            match problems.iter_mut().find(|(_, known, _)| *known == text) {
                Some((.., times)) => *times += 1,
                None => problems.push((label == Some("Error"), text, 1)),
            }
        }
        // Stable: within errors and within the rest, the order in which they were reported.
        problems.sort_by_key(|(is_error, ..)| !is_error);
        Ok(problems
            .into_iter()
            .map(|(_, text, times)| if times == 1 { text } else { format!("{text} ({times} times)") })
            .collect())
    }
}
