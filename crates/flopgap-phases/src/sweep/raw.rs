//! The raw counter files of a run, whose names say which configuration and phase they hold.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::sweep::Config;
use crate::sweep::record::RECORD_ENDING;

/// The part of a configuration's program that a raw file covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The program stopped after setup.
    Setup,
    /// The program stopped after the forward pass.
    Forward,
    /// The program ran to its end.
    ForwardBackward,
    /// The program ran to its end and the file distinguishes the phases: a record, or a report with
    /// NVTX ranges.
    Whole,
}

impl Stage {
    /// The suffix of the file's stem; `None` for [`Stage::Whole`].
    const SUFFIXES: [(&'static str, Stage); 3] = [
        // `_forward_backward` comes first: a configuration has at most one of these suffixes.
        ("_forward_backward", Stage::ForwardBackward),
        ("_forward", Stage::Forward),
        ("_setup", Stage::Setup),
    ];

    /// The stage as text.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Setup => "setup",
            Stage::Forward => "forward",
            Stage::ForwardBackward => "forward_backward",
            Stage::Whole => "whole run",
        }
    }
}

/// The extensions of Nsight Compute reports and of records.
const EXTENSIONS: [&str; 9] = [
    "csv",
    "csv.gz",
    "csv.zst",
    "ncu-rep",
    "ncu-rep.gz",
    "ncu-rep.zst",
    "ncu-repz",
    "counts.json",
    RECORD_ENDING,
];

/// Whether a file is a [`Record`](crate::sweep::Record) rather than a report of Nsight Compute, by
/// its name.
pub fn is_record(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".counts.json") || name.ends_with(&format!(".{RECORD_ENDING}"))
}

/// Splits `n2_d256_m16_forward.csv.zst` into its configuration and stage.
pub fn parse_file_name(name: &str) -> Option<(Config, Stage)> {
    let stem = EXTENSIONS.iter().find_map(|ending| name.strip_suffix(ending)?.strip_suffix('.'))?;
    for (suffix, stage) in Stage::SUFFIXES {
        if let Some(config) = stem.strip_suffix(suffix) {
            return Some((Config::from_name(config)?, stage));
        }
    }
    Some((Config::from_name(stem)?, Stage::Whole))
}

/// The raw files of a run by configuration, and other files in the directory.
#[derive(Debug, Clone, Default)]
pub struct RawFiles {
    /// The files of each configuration.
    pub configs: BTreeMap<Config, BTreeMap<Stage, PathBuf>>,
    /// Files that were skipped, each with the reason.
    pub ignored: Vec<(PathBuf, &'static str)>,
    /// Files of a configuration and stage that has another file, which is in `configs`: they must
    /// have the same contents.
    pub seconds: BTreeMap<Config, Vec<(Stage, PathBuf)>>,
}

impl RawFiles {
    /// Lists a `raw` directory. Files that are being written (their names begin with a dot) are
    /// left out.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(folder: &Path) -> io::Result<RawFiles> {
        let mut files = RawFiles::default();
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        paths.sort(); // the system promises no order, and which of two files is the first must not depend on it
        for path in paths {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                files.ignored.push((path, "its name is not UTF-8"));
                continue;
            };
            if name.starts_with('.') || path.is_dir() {
                continue;
            }
            let Some((config, stage)) = parse_file_name(name) else {
                files.ignored.push((path, "its name is not of the form n2_d256_m16_forward.csv"));
                continue;
            };
            match files.configs.entry(config).or_default().entry(stage) {
                Entry::Vacant(place) => {
                    place.insert(path);
                }
                Entry::Occupied(_) => {
                    files.seconds.entry(config).or_default().push((stage, path));
                }
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names() {
        let config = Config { n: 2, d: 256, m: 16 };
        for (name, stage) in [
            ("n2_d256_m16_setup.csv", Stage::Setup),
            ("n2_d256_m16_forward.csv.zst", Stage::Forward),
            ("n2_d256_m16_forward_backward.csv.gz", Stage::ForwardBackward),
            ("n2_d256_m16_forward_backward.ncu-rep", Stage::ForwardBackward),
            ("n2_d256_m16.ncu-repz", Stage::Whole),
            ("n2_d256_m16.counts.json.zst", Stage::Whole),
        ] {
            assert_eq!(parse_file_name(name), Some((config, stage)), "{name}");
        }
        for name in
            ["n2_d256_m16_backward.csv", "notes.txt", "n2_d256_m16_setup.csv.bz2", "n2_d256_m16.", "csv"]
        {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_second_file_of_one_stage_is_kept_apart() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["n1_d8_m8_setup.csv", "n1_d8_m8_setup.csv.gz", "README", ".n1_d8_m8_forward.csv.part"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let files = RawFiles::list(dir.path()).unwrap();
        assert_eq!(files.configs.len(), 1);
        let ignored: Vec<_> = files.ignored.iter().map(|(path, _)| path.file_name().unwrap()).collect();
        assert_eq!(ignored, ["README"]);
        let config = Config { n: 1, d: 8, m: 8 };
        let second = (Stage::Setup, dir.path().join("n1_d8_m8_setup.csv.gz"));
        assert_eq!(files.seconds[&config], [second]);
    }
}
