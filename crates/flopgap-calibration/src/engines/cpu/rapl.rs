//! Energy of the CPU, from RAPL through Linux's powercap.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{DeviceState, EnergySource};

use crate::engines::error::EngineError;
use crate::engines::measure::Monitor;

/// The directory of powercap.
const POWERCAP: &str = "/sys/class/powercap";
const HINT: &str = "run as root, or allow reading `energy_uj` (restricted since CVE-2020-8694)";

/// The energy counters of all packages of this machine.
///
/// A counter wraps after some kilojoules (minutes under load): [`Rapl::joules`](Monitor::joules)
/// must be asked at least that often, as every window for energy does at its two ends.
#[derive(Debug)]
pub struct Rapl {
    zones: Vec<Zone>,
}

/// A counter: one package, or on some machines the whole platform.
#[derive(Debug)]
struct Zone {
    counter: PathBuf,
    /// The value in microjoules at which it wraps to 0.
    range: u64,
    last: u64,
    /// Microjoules since it was opened.
    total: u64,
}

impl Rapl {
    /// Opens the counters of all packages.
    ///
    /// # Errors
    /// [`EngineError::Missing`] where there are none, as in most virtual machines, or they cannot
    /// be read.
    pub fn open() -> Result<Self, EngineError> {
        Self::new(Path::new(POWERCAP))
    }

    fn new(powercap: &Path) -> Result<Self, EngineError> {
        let missing = |reason: String, hint| EngineError::Missing { what: "RAPL", reason, hint };
        let nothing = "use a machine with an energy counter, or measure without energy";
        let entries = fs::read_dir(powercap)
            .map_err(|error| missing(format!("{}: {error}", powercap.display()), nothing))?;
        let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // Both count the same packages. The one behind machine-specific registers is the usual.
        folders.sort_by_key(|folder| (folder.to_string_lossy().contains("mmio"), folder.clone()));
        let mut zones = Vec::new();
        let mut names = Vec::new();
        for folder in folders {
            let Ok(name) = fs::read_to_string(folder.join("name")) else { continue };
            // `package-0` and so on. Its parts (cores, DRAM) are in it or next to it, and
            // intel-rapl-mmio has the same packages again.
            if !name.trim().starts_with("package") || names.contains(&name) {
                continue;
            }
            let read = |file: &str| number(&folder.join(file));
            let counter = folder.join("energy_uj");
            let last =
                number(&counter).map_err(|error| missing(format!("{}: {error}", counter.display()), HINT))?;
            let range = read("max_energy_range_uj").unwrap_or(0);
            zones.push(Zone { counter, range, last, total: 0 });
            names.push(name);
        }
        if zones.is_empty() {
            return Err(missing(format!("{} has no package", powercap.display()), nothing));
        }
        Ok(Rapl { zones })
    }

    /// Microjoules of all packages since they were opened.
    fn microjoules(&mut self) -> Option<u64> {
        let mut sum = 0_u64;
        for zone in &mut self.zones {
            let now = number(&zone.counter).ok()?;
            let used = match now.checked_sub(zone.last) {
                Some(used) => used,
                // It wrapped. Without its range, the difference is unknown.
                None if zone.range > zone.last => zone.range - zone.last + now,
                None => return None,
            };
            zone.last = now;
            zone.total += used;
            sum += zone.total;
        }
        Some(sum)
    }
}

impl Monitor for Rapl {
    fn state(&mut self) -> Option<DeviceState> {
        None
    }

    fn joules(&mut self) -> Option<(f64, EnergySource)> {
        Some((self.microjoules()? as f64 * 1e-6, EnergySource::Rapl))
    }
}

fn number(path: &Path) -> std::io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| std::io::Error::other(format!("{:?} is not a number", text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(powercap: &Path, folder: &str, name: &str, energy: &str) -> PathBuf {
        let folder = powercap.join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        fs::write(folder.join("energy_uj"), format!("{energy}\n")).unwrap();
        fs::write(folder.join("max_energy_range_uj"), "1000000\n").unwrap();
        folder.join("energy_uj")
    }

    #[test]
    fn packages_are_added_up_and_each_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = zone(folder.path(), "intel-rapl:0", "package-0", "500");
        zone(folder.path(), "intel-rapl:0:0", "core", "300");
        let second = zone(folder.path(), "intel-rapl:1", "package-1", "999000");
        zone(folder.path(), "intel-rapl-mmio:0", "package-0", "500");
        let mut rapl = Rapl::new(folder.path()).unwrap();
        assert_eq!(rapl.zones.len(), 2);
        assert_eq!(rapl.joules(), Some((0.0, EnergySource::Rapl)));
        fs::write(first, "2500").unwrap();
        // Beyond the end of its range.
        fs::write(&second, "1000").unwrap();
        let (joules, _) = rapl.joules().unwrap();
        assert!((joules - 0.004).abs() < 1e-12, "{joules}");
        fs::write(second, "4000").unwrap();
        let (joules, _) = rapl.joules().unwrap();
        assert!((joules - 0.007).abs() < 1e-12, "{joules}");
    }

    #[test]
    fn a_counter_that_vanishes_is_absent_and_not_zero() {
        let folder = tempfile::tempdir().unwrap();
        let counter = zone(folder.path(), "intel-rapl:0", "package-0", "500");
        let mut rapl = Rapl::new(folder.path()).unwrap();
        fs::remove_file(counter).unwrap();
        assert_eq!(rapl.joules(), None);
    }

    #[test]
    fn what_is_missing_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| Rapl::new(path).unwrap_err().to_string();
        let none = message(&folder.path().join("none"));
        assert!(none.starts_with("RAPL is not available: ") && none.contains("none"), "{none}");
        zone(folder.path(), "dtpm", "platform", "1");
        assert!(message(folder.path()).ends_with("has no package"), "{}", message(folder.path()));
        zone(folder.path(), "intel-rapl:0", "package-0", "n/a");
        let broken = message(folder.path());
        assert!(broken.ends_with("energy_uj: \"n/a\" is not a number"), "{broken}");
    }
}
