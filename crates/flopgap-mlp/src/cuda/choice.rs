//! Which implementation [`Implementation::Auto`] stands for.

use crate::{MlpError, Precision};

use super::options::{Implementation, Options};

/// The implementations by precision, the fastest first.
///
/// Source: `docs/measurements/runs/2026-11-21-h200/dense.csv`, four networks, batches of 256,
/// 65,536 and 1,048,576 samples, forward, backward and both: `coopmat` is the fastest in all 36
/// places of fp32 and in 35 of fp16 (in the other, `coopvec` takes 0.2 % less). By geometric means
/// the others take, in fp16, 2.6 (`coopvec`) and 13 times (`forloop`) as long, in fp32 3.8 and 2.6
/// times. `naive` is slower than all of them. Bfloat16 has the kernels of fp16. A test holds the
/// order against that file.
pub(super) const fn order(precision: Precision) -> [Implementation; 4] {
    use Implementation::{Coopmat, Coopvec, Forloop, Naive};
    match precision {
        Precision::F16 | Precision::Bf16 => [Coopmat, Coopvec, Forloop, Naive],
        Precision::F32 => [Coopmat, Forloop, Coopvec, Naive],
    }
}

/// The options with the first implementation that `supports` them instead of
/// [`Implementation::Auto`]; others as they are.
///
/// # Errors
/// [`MlpError::Unsupported`] with the reasons of all when none does; what `supports` returns
/// otherwise.
pub(super) fn resolve(
    options: Options,
    precision: Precision,
    supports: impl Fn(Options) -> Result<(), MlpError>,
    refuse: impl FnOnce(String) -> MlpError,
) -> Result<Options, MlpError> {
    if options.implementation != Implementation::Auto {
        return Ok(options);
    }
    let mut reasons = Vec::new();
    for implementation in order(precision) {
        let candidate = Options { implementation, ..options };
        if options.is_deterministic() && !candidate.is_deterministic() {
            reasons.push(format!("{implementation}: it sums gradients in no fixed order"));
            continue;
        }
        match supports(candidate) {
            Ok(()) => return Ok(candidate),
            Err(MlpError::Unsupported { reason, .. }) => {
                reasons.push(format!("{implementation}: {reason}"));
            }
            Err(error) => return Err(error),
        }
    }
    Err(refuse(reasons.join("; ")))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use super::*;
    use crate::cuda::{Reduction, Target, sources};
    use crate::{Network, Size};

    fn target(major: u32, minor: u32) -> Target {
        Target::nominal(flopgap_gpu::ComputeCapability { major, minor })
    }

    fn chosen(network: &Network, precision: Precision, options: Options) -> Result<Implementation, MlpError> {
        let supports = |options| sources(network, precision, options, target(9, 0)).map(drop);
        let refuse = |reason| MlpError::Unsupported {
            implementation: "auto".to_owned(),
            precision: precision.to_string(),
            architecture: "sm_90".to_owned(),
            reason,
        };
        resolve(options, precision, supports, refuse).map(|options| options.implementation)
    }

    #[test]
    fn the_order_is_that_of_the_recorded_times() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/measurements/runs/2026-11-21-h200/dense.csv");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut rows = text.lines().filter(|line| !line.starts_with('#'));
        let columns: Vec<&str> = rows.next().unwrap().split(',').collect();
        let rows: Vec<HashMap<&str, &str>> =
            rows.map(|row| columns.iter().copied().zip(row.split(',')).collect()).collect();
        for precision in [Precision::F16, Precision::F32] {
            let of_precision: Vec<_> =
                rows.iter().filter(|row| row["precision"] == precision.name()).collect();
            assert_eq!(of_precision.len(), 36);
            // The sum of logarithms orders as the geometric mean does.
            let time = |implementation: Implementation| -> f64 {
                let column = format!("{implementation}_us");
                of_precision.iter().map(|row| row[&*column].parse::<f64>().unwrap().ln()).sum()
            };
            let [first, second, third, last] = order(precision);
            assert!(time(first) < time(second) && time(second) < time(third), "{precision}");
            // It was not measured in this run.
            assert_eq!(last, Implementation::Naive);
        }
    }

    #[test]
    fn the_fastest_that_supports_the_network_is_chosen() {
        let auto = Options::new(Implementation::Auto);
        for precision in Precision::ALL {
            assert_eq!(chosen(&Size::Small.network(), precision, auto), Ok(Implementation::Coopmat));
        }
        // Dozens of layers of different widths are too much code for the first.
        let widths: Vec<usize> = (0..60).map(|index| 8 * (1 + index % 7)).collect();
        let deep = Network::new(&widths).unwrap();
        for precision in [Precision::F16, Precision::F32] {
            let found = chosen(&deep, precision, auto).unwrap();
            let refused = |implementation| {
                let options = Options::new(implementation);
                matches!(sources(&deep, precision, options, target(9, 0)), Err(MlpError::Unsupported { .. }))
            };
            let mut before = order(precision).into_iter().take_while(|&other| other != found);
            assert!(before.all(refused) && !refused(found), "{found}");
        }
    }

    #[test]
    fn what_none_supports_is_refused_with_all_reasons() {
        let auto = Options::new(Implementation::Auto);
        let wide = Network::new(&[16_384, 16_384, 16_384]).unwrap();
        let Err(MlpError::Unsupported { reason, .. }) = chosen(&wide, Precision::F32, auto) else {
            panic!("one has kernels for {wide}")
        };
        for implementation in Implementation::ALL {
            assert!(reason.contains(&format!("{implementation}: ")), "{reason}");
        }
        // The first attempt is no answer where the same bits are required in every run.
        let some = Network::new(&[8192, 8192, 8192]).unwrap();
        let Err(error) = chosen(&some, Precision::F32, auto) else { panic!("one has kernels for {some}") };
        assert!(error.to_string().contains("naive: it sums gradients in no fixed order"), "{error}");
        let atomic = Options { reduction: Reduction::Atomic, ..auto };
        assert_eq!(chosen(&some, Precision::F32, atomic), Ok(Implementation::Naive));
    }
}
