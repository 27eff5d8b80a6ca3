//! What was recorded, where and when.

use std::collections::BTreeMap;

use crate::tables::{ANALYSIS, CAPTURE, GPUS, SESSION};
use crate::trace::{need, want};
use crate::{Error, Trace};

/// What a trace says about its recording. Exports of different ages say different things: what is not there is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The machine's GPUs by number, with their names.
    pub gpus: Vec<(i64, String)>,
    /// For how long nsys recorded, in nanoseconds.
    pub duration: Option<i64>,
    /// When the recording began, in UTC: `2026-11-21T01:46:26`.
    pub began: Option<String>,
    /// The program that was recorded, with its arguments.
    pub command: Option<String>,
}

impl Trace {
    /// What the trace says about its recording.
    ///
    /// # Errors
    /// When a table cannot be read; one that is not there leaves its part absent.
    pub fn recording(&self) -> Result<Recording, Error> {
        let mut recording = Recording::default();
        let gpus = self.scan(&GPUS, &[need("id"), need("name")], |row| {
            recording.gpus.push((row.int(0)?, row.text(1)?.to_owned()));
            Some(())
        });
        let duration = self.scan(&ANALYSIS, &[need("duration")], |row| {
            recording.duration = Some(row.int(0)?);
            Some(())
        });
        let began = self.scan(&SESSION, &[want("utcTime")], |row| {
            recording.began = row.text(0).map(str::to_owned);
            Some(())
        });
        let mut words = BTreeMap::new();
        let capture = self.scan(&CAPTURE, &[need("name"), want("value")], |row| {
            let word = row.text(0).and_then(|name| name.strip_prefix("PROCESS_0:"));
            let place = word.and_then(|word| match word {
                "COMMAND" => Some(0),
                word => word.strip_prefix("ARGUMENT_")?.parse::<u32>().ok()?.checked_add(1),
            });
            if let (Some(place), Some(value)) = (place, row.text(1)) {
                words.insert(place, value.to_owned());
            }
            Some(())
        });
        for read in [gpus, duration, began, capture] {
            match read {
                Err(error) if !error.is_absence() => return Err(error),
                _ => {}
            }
        }
        recording.gpus.sort();
        recording.gpus.dedup();
        if words.contains_key(&0) {
            recording.command = Some(words.into_values().collect::<Vec<_>>().join(" "));
        }
        Ok(recording)
    }
}
