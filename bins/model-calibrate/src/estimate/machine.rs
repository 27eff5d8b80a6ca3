//! For which machine an estimate is made.

use std::path::{Path, PathBuf};

use flopgap_calibration::Calibration;
use flopgap_cli::{Exit, Failure};

use crate::load;
use crate::recorded;

/// Properties that another CPU has others of. Clocks and the number of cores may change.
const IDENTITY: [&str; 7] = ["the device", "the kind", "vendor", "family", "model", "stepping", "flags"];

#[derive(clap::Args)]
pub(crate) struct MachineOptions {
    /// The machine by name: a built-in calibration, or with --calibration the device that the file
    /// must be of.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// A calibration of this or another machine: a file, or the run directory of a sweep.
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Ceilings of the machine, as `model-calibrate probe --output` writes them, in the place of
    /// those in the file.
    #[arg(long, value_name = "FILE")]
    ceilings: Option<PathBuf>,
}

impl MachineOptions {
    pub(super) fn calibration(&self) -> Result<Calibration, Failure> {
        let mut calibration = match (&self.calibration, &self.device) {
            (Some(path), device) => from_file(path, device.as_deref())?,
            (None, Some(name)) => built_in(name)?,
            (None, None) => {
                let hint = format!(
                    "pass --calibration RUN from `model-calibrate sweep`, or --device NAME; built in: {}",
                    recorded::names()
                );
                return Err(Failure::new("no calibration to estimate with").exit(Exit::Usage).hint(hint));
            }
        };
        load::set_ceilings(&mut calibration, self.ceilings.as_deref())?;
        Ok(calibration)
    }
}

fn built_in(name: &str) -> Result<Calibration, Failure> {
    let Some(bytes) = recorded::find(name) else {
        let hint = format!(
            "measure it with `model-calibrate sweep` and pass --calibration RUN; built in: {}",
            recorded::names()
        );
        return Err(Failure::new(format!("no calibration of `{name}` is built in"))
            .exit(Exit::Absent)
            .hint(hint));
    };
    Calibration::parse(bytes, Path::new(name)).map_err(|error| load::of_file(&error))
}

fn from_file(path: &Path, device: Option<&str>) -> Result<Calibration, Failure> {
    let calibration = load::calibration(path, None)?;
    let origin = &calibration.header.origin;
    if let Some(name) = device {
        let named = |text: &str| text.to_lowercase().contains(&name.to_lowercase());
        if !named(&origin.device) && !name.eq_ignore_ascii_case(&origin.kind) {
            let message =
                format!("{}: is a calibration of {}, not of `{name}`", path.display(), origin.device);
            return Err(Failure::new(message)
                .exit(Exit::Absent)
                .hint("leave --device out, or pass another file"));
        }
        return Ok(calibration);
    }
    // A GPU is named by its file; a CPU is this machine's unless another is asked for.
    if origin.kind == "cpu" {
        let here = flopgap_engines::cpu::origin();
        let recorded = |part: &str| IDENTITY.contains(&part);
        let mut differences = origin.machine_differences(&here).into_iter();
        if let Some(difference) =
            differences.find(|difference| recorded(&difference.part) && difference.theirs.is_some())
        {
            let message = format!("{}: measured on another machine: {difference}", path.display());
            let hint = format!(
                "measure this one with `model-calibrate sweep`; to estimate for the other, name it: --device \"{}\"",
                origin.device
            );
            return Err(Failure::new(message).hint(hint));
        }
    }
    Ok(calibration)
}
