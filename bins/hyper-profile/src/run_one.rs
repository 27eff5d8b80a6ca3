//! `run-one`: the program that `ncu` profiles, a hidden command of every program that counts with
//! `ncu`.

use flopgap_cli::Failure;
use flopgap_phases::sweep::{Config, MeterError};

use crate::hardware::Hardware;

/// One network and a device.
#[derive(clap::Args)]
pub struct Arguments {
    /// Layers.
    #[arg(long)]
    n: u64,
    /// Width.
    #[arg(long)]
    d: u64,
    /// Columns.
    #[arg(long)]
    m: u64,
    /// The device.
    #[arg(long, default_value_t = 0)]
    device: u32,
}

/// The arguments that [`run`] reads.
pub(crate) fn arguments(device: u32, config: Config) -> [String; 9] {
    let Config { n, d, m } = config;
    let text = |value: u64| value.to_string();
    let name = |name: &str| name.to_owned();
    [
        name("run-one"),
        name("--n"),
        text(n),
        name("--d"),
        text(d),
        name("--m"),
        text(m),
        name("--device"),
        device.to_string(),
    ]
}

/// Runs the network. An error is also printed as a line of JSON on standard output, for the process
/// that counts.
///
/// # Errors
/// The same error.
pub fn run(arguments: &Arguments, hardware: &dyn Hardware) -> Result<(), Failure> {
    let Arguments { n, d, m, device } = *arguments;
    let Err(error) = hardware.run(device, Config { n, d, m }) else { return Ok(()) };
    let json = serde_json::to_string(&error).map_err(|error| Failure::from_error(&error))?;
    flopgap_cli::print(&json)?;
    Err(error.into())
}

/// The error that [`run`] printed, found among other output.
pub(crate) fn error_in(stdout: &str) -> Option<MeterError> {
    stdout.lines().rev().find_map(|line| serde_json::from_str(line.trim()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_travel_over_standard_output() {
        let error = MeterError::DoesNotFit { needed: 2, available: 1 };
        let line = serde_json::to_string(&error).unwrap();
        assert_eq!(line, r#"{"error":"does_not_fit","needed":2,"available":1}"#);
        assert_eq!(error_in(&format!("noise\n{line}\n==PROF== Disconnected\n")), Some(error));
        assert_eq!(error_in("{}\n==ERROR==\n"), None);
    }
}
