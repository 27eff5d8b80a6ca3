//! `manifest.json`: the plan of a run directory and the origin of its numbers.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use flopgap_files::{
    WriteError,
    run::{Format, FormatError},
    write_atomic,
};
use serde::{Deserialize, Serialize};

use crate::sweep::{Config, MAX_CONFIGS};

/// The format of every manifest; its version is that of the run directory's layout.
static FORMAT: Format = Format { name: "flopgap-run", version: 1, noun: "manifest" };

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
    #[cfg(feature = "workers")]
    pub(crate) fn new(grid: Grid, backend: &str, origin: Origin) -> Manifest {
        Manifest {
            created: flopgap_files::run::now(),
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
    /// A file that cannot be read, damaged JSON, or another layout.
    pub fn read(run: &Path) -> Result<Option<Manifest>, FormatError> {
        let path = Self::path(run);
        let manifest: Option<Manifest> = FORMAT.read(&path)?;
        let counts = manifest.iter().flat_map(|manifest| manifest.extended.iter().chain([&manifest.grid]));
        if counts.map(Grid::count).fold(0_usize, usize::saturating_add) > MOST_PLANNED {
            let reason = format!("its sizes give more than {MOST_PLANNED} configurations");
            return Err(FormatError::new(path, FORMAT.shape(reason)));
        }
        Ok(manifest)
    }

    /// Writes the manifest of a run directory.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, run: &Path) -> Result<(), WriteError> {
        write_atomic(&Self::path(run), FORMAT.pretty(self).as_bytes())
    }

    /// Writes the manifest of a new run directory; `false` if there is one already.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[cfg(feature = "workers")]
    pub(crate) fn write_new(&self, run: &Path) -> Result<bool, WriteError> {
        flopgap_files::write_new(&Self::path(run), FORMAT.pretty(self).as_bytes())
    }

    pub(crate) fn path(run: &Path) -> PathBuf {
        run.join("manifest.json")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn manifest() -> Manifest {
        Manifest {
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
    fn another_version_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("manifest.json"), r#"{"format":"flopgap-run","version":2}"#).unwrap();
        let error = Manifest::read(dir.path()).unwrap_err().to_string();
        let expected = "unsupported format `flopgap-run` version 2; supported: flopgap-run version 1";
        assert!(error.ends_with(expected), "{error}");
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
        let text = flopgap_files::chain(&error).to_string();
        assert!(text.contains("its sizes give more than 4000000 configurations"), "{text}");
    }
}
