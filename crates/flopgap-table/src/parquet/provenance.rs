//! What a file's metadata says about where its rows come from.

use std::collections::BTreeMap;

use parquet::file::metadata::KeyValue;

/// `flopgap.format` of every file.
pub const FORMAT: &str = "flopgap-table";

/// The version of the format that this crate writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// What the names of all our entries begin with.
pub(super) const PREFIX: &str = "flopgap.";

/// Where the rows of a file come from; what is not known is absent.
///
/// ```
/// use flopgap_table::Source;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
/// let provenance = Source::open(path)?.provenance()?;
/// assert_eq!(provenance.kind.as_deref(), Some("nsys"));
/// assert_eq!(provenance.profiler_version.as_deref(), Some("2025.3.2.0"));
/// assert_eq!(provenance.gpu.as_deref(), Some("NVIDIA H200"));
/// # Ok::<(), flopgap_table::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The program that wrote the file.
    pub tool: String,
    /// Its version.
    pub tool_version: String,
    /// What the source is, by [`Kind::name`](crate::Kind::name).
    pub kind: Option<String>,
    /// The name of the file or directory, without its parents.
    pub source: Option<String>,
    /// The SHA-256 of the source's bytes in hexadecimal digits. Of a directory, the SHA-256 of what
    /// `sha256sum` prints of its files in the order of their names.
    pub source_sha256: Option<String>,
    /// What recorded it: `NVIDIA Nsight Systems`.
    pub profiler: Option<String>,
    /// The version of what recorded it.
    pub profiler_version: Option<String>,
    /// The names of the GPUs, separated by `, `; each name once.
    pub gpu: Option<String>,
    /// The version of the GPU's driver.
    pub driver: Option<String>,
    /// When it was recorded, as [`date`](crate::parquet::date) spells it.
    pub recorded: Option<String>,
    /// Further entries, without the `flopgap.` of their names: `run`, for instance.
    pub others: BTreeMap<String, String>,
}

/// Names as one text, each once; none where there are none.
pub(crate) fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut all: Vec<&str> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    (!all.is_empty()).then(|| all.join(", "))
}

impl Default for Provenance {
    /// Nothing but this crate as the tool.
    fn default() -> Provenance {
        Provenance {
            tool: env!("CARGO_PKG_NAME").to_owned(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            kind: None,
            source: None,
            source_sha256: None,
            profiler: None,
            profiler_version: None,
            gpu: None,
            driver: None,
            recorded: None,
            others: BTreeMap::new(),
        }
    }
}

impl Provenance {
    /// The entries of a file with a table of this name. Those that the format needs are first.
    pub(super) fn entries(&self, table: &str, about: &str) -> Vec<KeyValue> {
        let version = VERSION.to_string();
        let known = [
            ("format", Some(FORMAT)),
            ("version", Some(&*version)),
            ("table", Some(table)),
            ("about", Some(about)),
            ("tool", Some(&*self.tool)),
            ("tool_version", Some(&*self.tool_version)),
            ("kind", self.kind.as_deref()),
            ("source", self.source.as_deref()),
            ("source_sha256", self.source_sha256.as_deref()),
            ("profiler", self.profiler.as_deref()),
            ("profiler_version", self.profiler_version.as_deref()),
            ("gpu", self.gpu.as_deref()),
            ("driver", self.driver.as_deref()),
            ("recorded", self.recorded.as_deref()),
        ];
        let is_own = |name: &str| known.iter().any(|(own, _)| *own == name);
        let others = self.others.iter().filter(|(name, _)| !is_own(name));
        let others = others.map(|(name, value)| (name.as_str(), value.as_str()));
        let entries = known.iter().filter_map(|&(name, value)| Some((name, value?))).chain(others);
        entries.map(|(name, value)| KeyValue::new(format!("{PREFIX}{name}"), value.to_owned())).collect()
    }

    /// What is left of a file's entries, by their names without the prefix, when those of the
    /// format and the table were taken.
    pub(super) fn of_entries(mut entries: BTreeMap<String, String>) -> Provenance {
        let mut take = |name: &str| entries.remove(name);
        let tool = take("tool").unwrap_or_default();
        let tool_version = take("tool_version").unwrap_or_default();
        let (kind, source, source_sha256) = (take("kind"), take("source"), take("source_sha256"));
        let (profiler, profiler_version) = (take("profiler"), take("profiler_version"));
        let (gpu, driver, recorded) = (take("gpu"), take("driver"), take("recorded"));
        Provenance {
            tool,
            tool_version,
            kind,
            source,
            source_sha256,
            profiler,
            profiler_version,
            gpu,
            driver,
            recorded,
            others: entries,
        }
    }
}
