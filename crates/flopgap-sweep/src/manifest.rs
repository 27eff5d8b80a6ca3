//! `manifest.json`: the plan of a run directory and the origin of its numbers.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use flopgap_fs::{WriteError, write_atomic};
use serde::{Deserialize, Serialize};

use crate::session::now;
use crate::{Config, MAX_CONFIGS, RunError};

/// The `format` field of every manifest.
pub const FORMAT: &str = "flopgap-run";

/// The version of the run directory's layout.
pub const VERSION: u32 = 2;

/// What the grids of a manifest may plan in total: a run may be resumed with other sizes.
const MOST_PLANNED: usize = 4 * MAX_CONFIGS;

/// The requested sizes of a run: every n with every d and every m.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// Layers.
    pub n: Vec<u64>,
    /// Widths.
    pub d: Vec<u64>,
    /// Columns.
    pub m: Vec<u64>,
}

impl Grid {
    /// How many configurations that is, or more than any plan has.
    fn count(&self) -> usize {
        self.n.len().saturating_mul(self.d.len()).saturating_mul(self.m.len())
    }

    /// All configurations, with m changing fastest.
    pub fn configs(&self) -> impl Iterator<Item = Config> + '_ {
        self.n.iter().flat_map(move |&n| {
            self.d.iter().flat_map(move |&d| self.m.iter().map(move |&m| Config { n, d, m }))
        })
    }
}

/// Where the counters of a run come from. Every field is free text; unknown values are absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The driver's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The counting tool and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiler: Option<String>,
    /// What ran the network, with its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framework: Option<String>,
    /// The command that recorded one configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// The contents of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always [`FORMAT`].
    pub format: String,
    /// The layout's version, [`VERSION`].
    pub version: u32,
    /// When the run was made (RFC 3339).
    pub created: String,
    /// The requested grid.
    pub grid: Grid,
    /// Grids added when the run was resumed with other sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extended: Vec<Grid>,
    /// The backend, as `flopgap profile new --backend` names it. Absent if the raw files were
    /// recorded by other means; such a run cannot be resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Where the numbers come from. Empty in a run that was planned and not yet begun.
    #[serde(default)]
    pub origin: Origin,
}

/// The first difference between two origins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginDifference {
    /// The part.
    pub part: OriginPart,
    /// The value in the first; `unknown` if absent.
    pub ours: String,
    /// The value in the second.
    pub theirs: String,
}

/// A part of an [`Origin`] that decides which kernels run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OriginPart {
    /// The GPU.
    Device,
    /// What runs the network.
    Framework,
    /// The counting tool.
    Profiler,
    /// The driver.
    Driver,
}

impl fmt::Display for OriginPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OriginPart::Device => "device",
            OriginPart::Framework => "framework",
            OriginPart::Profiler => "profiler",
            OriginPart::Driver => "driver",
        })
    }
}

impl Origin {
    /// The first difference between two origins, apart from the command.
    pub fn difference(&self, other: &Origin) -> Option<OriginDifference> {
        let text = |part: &Option<String>| part.clone().unwrap_or_else(|| "unknown".to_owned());
        [
            (OriginPart::Device, &self.device, &other.device),
            (OriginPart::Framework, &self.framework, &other.framework),
            (OriginPart::Profiler, &self.profiler, &other.profiler),
            (OriginPart::Driver, &self.driver, &other.driver),
        ]
        .into_iter()
        .find(|(_, ours, theirs)| ours != theirs)
        .map(|(part, ours, theirs)| OriginDifference {
            part,
            ours: text(ours),
            theirs: text(theirs),
        })
    }
}

impl Manifest {
    /// The manifest of a new run.
    pub(crate) fn new(grid: Grid, backend: &str, origin: Origin) -> Manifest {
        Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            created: now(),
            grid,
            extended: Vec::new(),
            backend: Some(backend.to_owned()),
            origin,
        }
    }

    /// Every requested configuration.
    pub fn plan(&self) -> BTreeSet<Config> {
        self.extended.iter().chain([&self.grid]).flat_map(Grid::configs).collect()
    }

    /// Reads the manifest of a run directory; `None` when it has none.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::Manifest`] for damaged JSON and [`RunError::Version`] for
    /// another layout.
    pub fn read(run: &Path) -> Result<Option<Manifest>, RunError> {
        let path = Self::path(run);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(RunError::Io { path, source }),
        };
        let damaged =
            |error: serde_json::Error| RunError::Manifest { path: path.clone(), source: error.into() };
        // The version first: in another one everything else may differ.
        let Header { format, version } = serde_json::from_str(&text).map_err(damaged)?;
        if format != FORMAT || version != VERSION {
            return Err(RunError::Version { path, format, version });
        }
        let manifest: Manifest = serde_json::from_str(&text).map_err(damaged)?;
        let counts = manifest.extended.iter().chain([&manifest.grid]).map(Grid::count);
        if counts.fold(0_usize, usize::saturating_add) > MOST_PLANNED {
            let reason = format!("its sizes give more than {MOST_PLANNED} configurations");
            return Err(damaged(serde::de::Error::custom(reason)));
        }
        Ok(Some(manifest))
    }

    /// Writes the manifest of a run directory.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, run: &Path) -> Result<(), WriteError> {
        write_atomic(&Self::path(run), self.text().as_bytes())
    }

    /// Writes the manifest of a new run directory; `false` if there is one already.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_new(&self, run: &Path) -> Result<bool, WriteError> {
        flopgap_fs::write_new(&Self::path(run), self.text().as_bytes())
    }

    fn text(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_else(|error| unreachable!("{error}"));
        text + "\n"
    }

    pub(crate) fn path(run: &Path) -> PathBuf {
        run.join("manifest.json")
    }
}

#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            created: "2026-11-21T03:42:22Z".to_owned(),
            grid: Grid { n: vec![2, 4], d: vec![256], m: vec![16, 64] },
            extended: Vec::new(),
            backend: None,
            origin: Origin { device: Some("NVIDIA H200".to_owned()), ..Origin::default() },
        }
    }

    #[test]
    fn round_trip_and_absence() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), None);
        manifest().write(dir.path()).unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), Some(manifest()));
    }

    #[test]
    fn a_newer_or_foreign_manifest_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            fs::write(dir.path().join("manifest.json"), text).unwrap();
            Manifest::read(dir.path()).unwrap_err().to_string()
        };
        let newer = read(r#"{"format":"flopgap-run","version":3,"anything":"else"}"#);
        assert!(
            newer.ends_with(
                "format `flopgap-run` version 3 is not supported (supported: flopgap-run, version 2)"
            ),
            "{newer}"
        );
        assert!(read(r#"{"format":"other","version":1}"#).contains("format `other` version 1"));
        assert!(read(r#"{"format":"flopgap-run","version":1}"#).contains("version 1 is not supported"));
        assert!(read("{").contains("manifest.json: not a manifest"));
    }

    #[test]
    fn extensions_join_the_plan() {
        let mut manifest = manifest();
        manifest.extended.push(Grid { n: vec![4, 8], d: vec![256], m: vec![16] });
        let names: Vec<_> = manifest.plan().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["n2_d256_m16", "n2_d256_m64", "n4_d256_m16", "n4_d256_m64", "n8_d256_m16"]);
    }

    #[test]
    fn the_first_difference_of_origins() {
        let ours = manifest().origin;
        assert_eq!(ours.difference(&Origin { command: Some("another".to_owned()), ..ours.clone() }), None);
        let theirs = Origin { device: None, driver: Some("580".to_owned()), ..ours.clone() };
        let difference = ours.difference(&theirs).unwrap();
        assert_eq!(
            (difference.part, difference.ours.as_str(), difference.theirs.as_str()),
            (OriginPart::Device, "NVIDIA H200", "unknown")
        );
    }

    #[test]
    fn configurations_in_order() {
        let names: Vec<_> = manifest().grid.configs().map(|config| config.to_string()).collect();
        assert_eq!(names, ["n2_d256_m16", "n2_d256_m64", "n4_d256_m16", "n4_d256_m64"]);
    }

    /// A short list for each axis is a plan without end.
    #[test]
    fn a_manifest_that_plans_more_than_any_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let sizes: Vec<u64> = (1..=2_000).collect();
        let grid = Grid { n: sizes.clone(), d: sizes.clone(), m: sizes };
        Manifest { grid, ..manifest() }.write(dir.path()).unwrap();
        let error = Manifest::read(dir.path()).unwrap_err();
        let text = flopgap_hint::chain(&error).to_string();
        assert!(text.contains("its sizes give more than 4000000 configurations"), "{text}");
    }
}
