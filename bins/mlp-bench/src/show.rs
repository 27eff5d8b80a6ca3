//! `flopgap bench show RESULTS`: results of `--format json` as tables.

use std::path::PathBuf;

use clap::Args;
use flopgap_cli::{Console, Failure, OutputArgs};

use crate::answer::write;
use crate::results::{self, Results};

/// Arguments of `show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  flopgap bench show results.json
  flopgap bench show results.json -o results.md")]
pub(crate) struct Arguments {
    /// Output of --format json
    results: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

/// Reads and prints.
///
/// # Errors
/// When the file is not what --format json prints.
pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let path = arguments.results.display();
    let text = console.timed(format_args!("{path}: results of flopgap bench, read"), || {
        results::read(&arguments.results)
    })?;
    let results: Results = serde_json::from_slice(&text).map_err(|error| {
        Failure::new(format!("{path}: {error}")).hint("it must be what flopgap bench --format json prints")
    })?;
    write(&arguments.output, arguments.output.format(), &results, console)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::Peaks;

    #[test]
    fn results_survive_json() {
        let text = r#"{"device": "a GPU",
            "peaks": {"fp32_tflops": 60.0, "fp16_tflops": 790.0, "memory_gbps": 4300.0, "origin": "as given"},
            "results": [{"impl": "coopmat", "size": "small", "precision": "fp16", "pass": "forward", "batch": 256,
                "timing": "gpu-graph", "median_us": 1.5, "p10_us": 1.25, "p90_us": null, "tflops": 2.0, "gbps": 3.0,
                "floor_fraction": 0.125, "max_rel_error": 0.5}]}"#;
        let results: Results = serde_json::from_str(text).unwrap();
        let peaks = Peaks { fp32: 60e12, half: 790e12, memory: 4.3e12, origin: "as given".to_owned() };
        assert_eq!(results.peaks, Some(peaks));
        let again: Results = serde_json::from_str(&serde_json::to_string(&results).unwrap()).unwrap();
        assert_eq!(again, results);
    }
}
