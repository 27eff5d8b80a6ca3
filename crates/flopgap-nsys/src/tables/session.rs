//! How and when the recording was made, and what nsys said about it.

use std::sync::Arc;

use super::TableSpec;
use super::codes::{DiagnosticClock, DiagnosticSource, Severity};
use crate::{Error, ProcessId, Trace};

const EXPORT_DATA: TableSpec = TableSpec::new("META_DATA_EXPORT", "data on the export");
const EXPORT_DATA_OLD: TableSpec = TableSpec::new("EXPORT_META_DATA", "data on the export");
const CAPTURE_DATA: TableSpec = TableSpec::new("META_DATA_CAPTURE", "data on the recording");
pub(crate) const DIAGNOSTICS: TableSpec = TableSpec::new("DIAGNOSTIC_EVENT", "diagnostics of nsys");
const SESSION: TableSpec = TableSpec::new("TARGET_INFO_SESSION_START_TIME", "the time of the recording");
const ANALYSIS: TableSpec = TableSpec::new("ANALYSIS_DETAILS", "the span of the recording");

/// A name and a value that nsys wrote about an export or a recording, such as
/// `EXPORT_SCHEMA_VERSION`. Names may repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The name.
    pub name: Arc<str>,
    /// The value.
    pub value: Option<Arc<str>>,
}

/// A message of nsys about the recording, such as that events were lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// When, in nanoseconds since the recording began.
    pub time: i64,
    /// Whose clock that is.
    pub clock: Option<DiagnosticClock>,
    /// Which part of nsys reported it.
    pub source: Option<DiagnosticSource>,
    /// How severe it is.
    pub severity: Severity,
    /// The message.
    pub text: Arc<str>,
    /// The process that it is about.
    pub process: Option<ProcessId>,
}

impl Diagnostic {
    /// Whether it reports a problem: a warning, an error, or a severity that has no name yet.
    pub fn is_problem(&self) -> bool {
        !matches!(self.severity, Severity::Info | Severity::Verbose)
    }
}

/// The span of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// When it began, in nanoseconds of Unix time.
    pub utc_ns: Option<i64>,
    /// The same as text in UTC.
    pub utc: Option<Arc<str>>,
    /// The same as text in the machine's time zone.
    pub local: Option<Arc<str>>,
    /// When the trace begins and ends, in its own nanoseconds.
    pub span: Option<(i64, i64)>,
}

impl Trace {
    /// What nsys wrote about the export; nothing before 2022.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn export_metadata(&self) -> Result<Vec<Metadata>, Error> {
        self.metadata(&[&EXPORT_DATA, &EXPORT_DATA_OLD])
    }

    /// What nsys wrote about the recording: what was traced, with which options. Nothing before
    /// 2023.3.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn capture_metadata(&self) -> Result<Vec<Metadata>, Error> {
        self.metadata(&[&CAPTURE_DATA])
    }

    /// The rows of the first of some tables that the export has.
    fn metadata(&self, tables: &[&'static TableSpec]) -> Result<Vec<Metadata>, Error> {
        let table = tables.iter().find(|table| self.schema().table(table.name).is_some());
        let Some(table) = table else { return Ok(Vec::new()) };
        let mut select = self.select(table);
        let (name, value) = (select.need("name"), select.want("value"));
        let rows = select.rows(move |row| {
            Some(Metadata { name: row.text(name)?.into(), value: row.text(value).map(Arc::from) })
        })?;
        rows.collect()
    }

    /// What nsys said about the recording.
    ///
    /// # Errors
    /// [`Error::NoTable`] in exports before 2024, and when it said nothing.
    pub fn diagnostics(&self) -> Result<Vec<Diagnostic>, Error> {
        let mut select = self.select(&DIAGNOSTICS);
        let (time, clock) = (select.need("timestamp"), select.want("timestampType"));
        let (source, severity) = (select.want("source"), select.need("severity"));
        let (text, process) = (select.need("text"), select.want("globalPid"));
        let rows = select.rows(move |row| {
            Some(Diagnostic {
                time: row.int(time)?,
                clock: row.int(clock).map(DiagnosticClock::of),
                source: row.int(source).map(DiagnosticSource::of),
                severity: Severity::of(row.int(severity)?),
                text: row.text(text)?.into(),
                process: row.int(process).map(ProcessId),
            })
        })?;
        rows.collect()
    }

    /// When the recording was made; what the export does not say is absent.
    ///
    /// # Errors
    /// When the tables cannot be read.
    pub fn session(&self) -> Result<Session, Error> {
        let mut session = Session::default();
        if self.schema().table(SESSION.name).is_some() {
            let mut select = self.select(&SESSION);
            let (utc_ns, utc) = (select.want("utcEpochNs"), select.want("utcTime"));
            let local = select.want("localTime");
            let rows = select.rows(move |row| {
                let text = |field| row.text(field).map(Arc::from);
                Some(Session { utc_ns: row.int(utc_ns), utc: text(utc), local: text(local), span: None })
            })?;
            for row in rows {
                session = row?;
            }
        }
        if self.schema().table(ANALYSIS.name).is_some() {
            let mut select = self.select(&ANALYSIS);
            let (start, stop) = (select.want("startTime"), select.want("stopTime"));
            for span in select.rows(move |row| Some(row.int(start).zip(row.int(stop))))? {
                session.span = span?;
            }
        }
        Ok(session)
    }
}
