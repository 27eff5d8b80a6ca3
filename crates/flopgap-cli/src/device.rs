//! `--device`.

use std::fmt;
use std::str::FromStr;

/// The processor that a command runs on: `cpu`, `cuda` for the first GPU, or a GPU by its number
/// (`1` or `cuda:1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers support both or say why not")]
pub enum Device {
    /// The cores.
    Cpu,
    /// A GPU by its number.
    Cuda(usize),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = match text {
            "cpu" => return Ok(Device::Cpu),
            "cuda" => "0",
            _ => text.strip_prefix("cuda:").unwrap_or(text),
        };
        let number = device_number(number).map(Device::Cuda);
        number.ok_or_else(|| "expected cpu, cuda, or a GPU by its number: 1 or cuda:1".to_owned())
    }
}

/// The number of a device, in digits alone.
///
/// ```
/// assert_eq!(flopgap_cli::device_number("12"), Some(12));
/// assert_eq!(flopgap_cli::device_number("+1"), None);
/// ```
pub fn device_number(text: &str) -> Option<usize> {
    // `+1` is a number for the standard library.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// Reads a GPU, as a `value_parser` of clap, for commands that have no use for a CPU.
///
/// # Errors
/// With what is wrong; clap says of which option.
///
/// ```
/// assert_eq!(flopgap_cli::gpu("cuda:1"), Ok(1));
/// assert_eq!(flopgap_cli::gpu("1"), Ok(1));
/// assert!(flopgap_cli::gpu("cpu").is_err());
/// ```
pub fn gpu(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(Device::Cuda(number)) => {
            u32::try_from(number).map_err(|_| format!("there is no GPU number {number}"))
        }
        _ => Err("expected a GPU by its number: 1 or cuda:1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_by_name_and_number() {
        let names = [("cpu", Device::Cpu), ("cuda", Device::Cuda(0)), ("cuda:3", Device::Cuda(3))];
        for (name, device) in names.into_iter().chain([("2", Device::Cuda(2))]) {
            assert_eq!(name.parse(), Ok(device));
        }
        for wrong in ["gpu", "cuda:", "cuda:-1", "cpu:0", "+1", "", "18446744073709551616"] {
            assert!(wrong.parse::<Device>().is_err(), "{wrong}");
            assert!(gpu(wrong).is_err(), "{wrong}");
        }
        assert!(gpu("4294967296").is_err());
        assert_eq!(Device::Cuda(3).to_string(), "cuda:3");
    }
}
