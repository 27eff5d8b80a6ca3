//! Settings of a fit.

use super::FitError;

/// Settings of a fit. The published accuracy of this crate refers to the default.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct FitSettings {
    /// Seed of the trees. Equal observations and settings give equal predictors.
    pub seed: u64,
    /// Multiprocessors, or threads that compute, where there are no ceilings that say so.
    pub units: Option<u32>,
    /// Share of the runs that an interval is to hold: 0.9.
    pub level: f64,
    /// Observations that a fit needs at least.
    pub least: usize,
    /// Whether to fit to what a library reports about its kernels, too, where observations have
    /// that. Without, estimates come from sizes alone, and the fit takes half as long.
    pub kernels: bool,
}

impl Default for FitSettings {
    fn default() -> Self {
        Self { seed: 14, units: None, level: 0.9, least: 20, kernels: true }
    }
}

impl FitSettings {
    /// The default, for a device with this many multiprocessors (or threads).
    pub fn with_units(mut self, units: u32) -> Self {
        self.units = Some(units);
        self
    }

    /// The same from sizes alone.
    pub fn sizes_alone(mut self) -> Self {
        self.kernels = false;
        self
    }

    pub(crate) fn check(&self) -> Result<(), FitError> {
        if !(self.level > 0.0 && self.level < 1.0) {
            let value = self.level.to_string();
            return Err(FitError::Setting { setting: "level", value, expected: "between 0 and 1" });
        }
        if self.units == Some(0) {
            return Err(FitError::Setting {
                setting: "units",
                value: "0".to_owned(),
                expected: "at least 1",
            });
        }
        Ok(())
    }
}
