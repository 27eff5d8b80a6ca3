//! How and when the recording was made, and what nsys said about it.

use std::sync::Arc;

use crate::tables::{
    ANALYSIS, CAPTURE_DATA, DIAGNOSTICS, EXPORT_DATA, EXPORT_DATA_OLD, SESSION, TableSpec, need, want,
};
use crate::{Error, GlobalId, Trace, severity_label};

/// A name and a value that nsys wrote about an export or a recording, such as `EXPORT_SCHEMA_VERSION`. Names may repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The name.
    pub name: Arc<str>,
    /// The value.
    pub value: Option<Arc<str>>,
}

/// A message of nsys about the recording, such as that events were lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// When, in nanoseconds since the recording began.
    pub time: i64,
    /// Whose clock that is: 1 the target's, 2 the host's.
    pub clock: Option<i64>,
    /// Who says so: 1 the part within the process, 2 the daemon, 3 the analysis.
    pub source: Option<i64>,
    /// How bad it is: see [`severity_label`](crate::severity_label).
    pub severity: i64,
    /// The message.
    pub text: Arc<str>,
    /// The process that it is about.
    pub process: Option<GlobalId>,
}

impl Diagnostic {
    /// Whether it reports a problem: a warning, an error, or a severity that has no name yet.
    pub fn is_problem(&self) -> bool {
        !matches!(severity_label(self.severity), Some("Info" | "Verbose"))
    }
}

/// The span of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
        let table = [&EXPORT_DATA, &EXPORT_DATA_OLD]
            .into_iter()
            .find(|table| self.schema().table(table.name).is_some());
        table.map_or_else(|| Ok(Vec::new()), |table| self.metadata(table))
    }

    /// What nsys wrote about the recording: what was traced, with which options. Nothing before 2023.3.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub fn capture_metadata(&self) -> Result<Vec<Metadata>, Error> {
        if self.schema().table(CAPTURE_DATA.name).is_none() {
            return Ok(Vec::new());
        }
        self.metadata(&CAPTURE_DATA)
    }

    fn metadata(&self, table: &TableSpec) -> Result<Vec<Metadata>, Error> {
        let mut all = Vec::new();
        self.scan(table, &[need("name"), want("value")], |row| {
            all.push(Metadata { name: row.text(0)?.into(), value: row.text(1).map(Arc::from) });
            Some(())
        })?;
        Ok(all)
    }

    /// What nsys said about the recording.
    ///
    /// # Errors
    /// [`Error::NoTable`] in exports before 2024, and when it said nothing.
    pub fn diagnostics(&self) -> Result<Vec<Diagnostic>, Error> {
        let columns = [
            need("timestamp"),
            want("timestampType"),
            want("source"),
            need("severity"),
            need("text"),
            want("globalPid"),
        ];
        let mut all = Vec::new();
        self.scan(&DIAGNOSTICS, &columns, |row| {
            all.push(Diagnostic {
                time: row.int(0)?,
                clock: row.int(1),
                source: row.int(2),
                severity: row.int(3)?,
                text: row.text(4)?.into(),
                process: row.int(5).map(GlobalId),
            });
            Some(())
        })?;
        Ok(all)
    }

    /// When the recording was made; what the export does not say is absent.
    ///
    /// # Errors
    /// When the tables cannot be read.
    pub fn session(&self) -> Result<Session, Error> {
        let mut session = Session::default();
        if self.schema().table(SESSION.name).is_some() {
            let columns = [want("utcEpochNs"), want("utcTime"), want("localTime")];
            self.scan(&SESSION, &columns, |row| {
                session.utc_ns = row.int(0);
                session.utc = row.text(1).map(Arc::from);
                session.local = row.text(2).map(Arc::from);
                Some(())
            })?;
        }
        if self.schema().table(ANALYSIS.name).is_some() {
            self.scan(&ANALYSIS, &[want("startTime"), want("stopTime")], |row| {
                session.span = row.int(0).zip(row.int(1));
                Some(())
            })?;
        }
        Ok(session)
    }
}
