//! The machine of an estimate.

use std::path::{Path, PathBuf};

use flopgap_calibration::{Calibration, Header};
use flopgap_cli::{Console, Exit, Failure};
use flopgap_roofline::machines::{Machine, NAMES, REFERENCE, named};

use super::cache::digest;
use crate::load;
use crate::recorded;

/// Properties that distinguish CPUs. Clocks and the number of cores may change.
const IDENTITY: [&str; 7] = ["the device", "the kind", "vendor", "family", "model", "stepping", "flags"];

#[derive(clap::Args)]
pub(crate) struct MachineOptions {
    /// Machine: a name from `flopgap calibrate machines`, or all; with --calibration the device
    /// that the file must be of
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Calibration of this or another machine: a file, or the run directory of a sweep
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Ceilings of the machine, as `flopgap calibrate probe --output` writes them, instead of those
    /// in the file
    #[arg(long, value_name = "FILE")]
    ceilings: Option<PathBuf>,
}

/// Where a calibration comes from.
pub(super) struct Source {
    from: From,
    /// A digest of the file.
    pub(super) digest: String,
    /// Whether it is a calibration; a table is read with warnings each time.
    pub(super) has_rows: bool,
}

enum From {
    File(PathBuf),
    BuiltIn(String, &'static [u8]),
}

impl Source {
    /// All of it.
    pub(super) fn read(&self, console: Console) -> Result<Calibration, Failure> {
        match &self.from {
            From::File(path) => load::calibration(path, None, console),
            From::BuiltIn(name, bytes) => {
                let read = || Calibration::parse(bytes, Path::new(name));
                console
                    .timed(format_args!("{name}: built-in calibration, read"), read)
                    .map_err(|error| load::of_file(&error))
            }
        }
    }
}

/// What a model is estimated for.
pub(super) enum Target {
    /// A machine with a calibration.
    Calibrated,
    /// A machine whose products and attention others measured.
    Elsewhere(&'static Machine),
    /// Each of those that are built in.
    All,
}

impl MachineOptions {
    /// The name, where no calibration is passed.
    pub(super) fn name(&self) -> Option<&str> {
        self.machine.as_deref().filter(|_| self.calibration.is_none())
    }

    pub(super) fn has_ceilings(&self) -> bool {
        self.ceilings.is_some()
    }

    pub(super) fn target(&self) -> Target {
        match self.name() {
            Some(name) if name.eq_ignore_ascii_case("all") => Target::All,
            Some(name) if recorded::find(name).is_none() => {
                named(name).map_or(Target::Calibrated, Target::Elsewhere)
            }
            _ => Target::Calibrated,
        }
    }

    /// The machine that others are transferred from.
    pub(super) fn reference(&self) -> Self {
        let ceilings = self.ceilings.clone();
        Self { machine: Some(REFERENCE.to_owned()), calibration: None, ceilings }
    }

    /// Finds the calibration.
    pub(super) fn source(&self) -> Result<Source, Failure> {
        match (&self.calibration, &self.machine) {
            (Some(path), _) => {
                let bytes = load::bytes(path)?;
                let has_rows = load::is_calibration(&bytes);
                Ok(Source { from: From::File(path.clone()), digest: digest(&bytes), has_rows })
            }
            (None, Some(name)) => {
                let bytes = built_in(name)?;
                Ok(Source { from: From::BuiltIn(name.clone(), bytes), digest: digest(bytes), has_rows: true })
            }
            (None, None) => {
                let hint = format!(
                    "pass --calibration RUN from `flopgap calibrate sweep`, or --machine NAME; built in: {}",
                    all_names()
                );
                Err(Failure::new("no calibration to estimate with").exit(Exit::Usage).hint(hint))
            }
        }
    }

    /// Rejects the calibration of a machine other than the requested one, and replaces its ceilings
    /// by those given.
    pub(super) fn expect(&self, header: &mut Header) -> Result<(), Failure> {
        if let Some(path) = &self.calibration {
            expect_machine(path, header, self.machine.as_deref())?;
        }
        load::set_ceilings(header, self.ceilings.as_deref())
    }
}

/// Machines with a calibration, and those that others measured.
fn all_names() -> String {
    let others = NAMES.iter().filter(|name| recorded::find(name).is_none());
    others.fold(recorded::names(), |names, other| format!("{names}, {other}"))
}

fn built_in(name: &str) -> Result<&'static [u8], Failure> {
    recorded::find(name).ok_or_else(|| {
        let hint = format!(
            "measure it with `flopgap calibrate sweep` and pass --calibration RUN; built in: {}",
            all_names()
        );
        Failure::new(format!("no calibration of `{name}` is built in")).exit(Exit::Absent).hint(hint)
    })
}

fn expect_machine(path: &Path, header: &Header, device: Option<&str>) -> Result<(), Failure> {
    let origin = &header.origin;
    if let Some(name) = device {
        return load::expect_device(path, origin, name);
    }
    // A GPU's file names its machine; a CPU's calibration must be from this machine unless another
    // is requested.
    if origin.kind == "cpu" {
        let here = flopgap_calibration::engines::cpu::origin();
        let recorded = |part: &str| IDENTITY.contains(&part);
        let mut differences = origin.machine_differences(&here).into_iter();
        if let Some(difference) =
            differences.find(|difference| recorded(&difference.part) && difference.theirs.is_some())
        {
            let message = format!("{}: measured on another machine: {difference}", path.display());
            let hint = format!(
                "measure this one with `flopgap calibrate sweep`, or estimate for the other with --machine \"{}\"",
                origin.device
            );
            return Err(Failure::new(message).hint(hint));
        }
    }
    Ok(())
}
