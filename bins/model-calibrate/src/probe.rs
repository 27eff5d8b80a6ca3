//! `model-calibrate probe`: what this machine can do at most.

mod tables;

use std::path::PathBuf;
use std::str::FromStr;

use flopgap_cli::{Exit, Failure, FormatArg, note, print, warn_all};
use flopgap_report::progress::Progress;
use flopgap_roofline::Ceilings;
use flopgap_roofline::probe::{self, ProbeError};

use crate::PROGRAM;

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The device: cpu, cuda, or cuda:N for the GPU with that number [default: cuda where there is a GPU, otherwise cpu]
    #[arg(long, value_name = "DEVICE")]
    device: Option<Device>,

    /// Write the ceilings to this file (JSON), for fits and reports
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// How to print them; json is what --output writes
    #[arg(long, value_enum, default_value_t)]
    format: FormatArg,
}

/// Which device is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Device {
    Cuda(usize),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "cuda" => Ok(Device::Cuda(0)),
            Some(("cuda", number)) => number
                .parse()
                .map(Device::Cuda)
                .map_err(|_| format!("`{number}` is no number of a GPU: expected cuda:0")),
            _ => Err("expected cpu, cuda or cuda:N".to_owned()),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let device = arguments.device.unwrap_or(Device::Cuda(0));
    let ceilings = measure(device)?;
    warn_all(PROGRAM, &ceilings.details.absent);
    if let Some(path) = &arguments.output {
        ceilings.write(path).map_err(|error| Failure::from_error(&error).maybe_hint(error.hint()))?;
        note(PROGRAM, format_args!("wrote {}", path.display()));
    }
    print(&tables::render(&ceilings, arguments.format)?)
}

fn measure(device: Device) -> Result<Ceilings, Failure> {
    let progress = Progress::new(STEPS, "measurements");
    let mut hear = |what: &str| {
        progress.note(what);
        progress.advance(1);
    };
    let measured = match device {
        Device::Cuda(number) => probe::cuda::probe(number, &mut hear),
    };
    progress.finish();
    measured.map_err(|error| failure(&error))
}

/// About how many steps a probe tells of.
const STEPS: u64 = 96;

fn failure(error: &ProbeError) -> Failure {
    let exit = if error.is_absence() { Exit::Absent } else { Exit::Failed };
    Failure::from_error(error).maybe_hint(error.hint()).exit(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read() {
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        assert_eq!("cuda:3".parse(), Ok(Device::Cuda(3)));
        assert!("cuda:".parse::<Device>().unwrap_err().contains("is no number of a GPU"));
        assert!("gpu".parse::<Device>().unwrap_err().contains("expected cpu, cuda or cuda:N"));
    }
}
