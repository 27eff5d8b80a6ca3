//! Queries the device for the kernels that compute a model.
//!
//! A library chooses kernels by sizes. Where the GPU of the calibration is in this machine, each
//! step is opened there, which takes milliseconds and times nothing, and estimates know what runs.

use std::collections::HashMap;

use flopgap_calibration::Header;
use flopgap_calibration::engines::cuda::Cuda;
use flopgap_calibration::engines::{Engine, EngineError};
use flopgap_files::Hint as _;
use flopgap_flops::Precision;
use flopgap_gpu::{Device, GpuError};
use flopgap_graph::{Algorithm, Mode, Step, Workload};

/// The engine that reports kernels.
pub(super) const NAMES_KERNELS: &str = "cuda";

/// What an estimate knows about kernels.
#[derive(Clone, Debug)]
pub(super) enum Kernels {
    /// The kernels of each step, chosen by the library.
    Known(Vec<Algorithm>),
    /// None, and why.
    SizesAlone(String),
    /// None, as the engine cannot run these steps: their places, and why.
    Refused(Vec<(usize, String)>),
}

impl Kernels {
    pub(super) fn algorithms(&self) -> Option<&[Algorithm]> {
        match self {
            Kernels::Known(algorithms) => Some(algorithms),
            Kernels::SizesAlone(_) | Kernels::Refused(_) => None,
        }
    }

    /// The steps that the engine cannot run, and why.
    pub(super) fn refused(&self) -> &[(usize, String)] {
        match self {
            Kernels::Refused(steps) => steps,
            _ => &[],
        }
    }

    /// Too few rows record kernels.
    pub(super) fn without_rows() -> Self {
        Kernels::SizesAlone("the calibration does not have enough rows with kernels".to_owned())
    }

    /// A description.
    pub(super) fn describe(&self) -> String {
        match self {
            Kernels::Known(_) => "asked of the device".to_owned(),
            Kernels::SizesAlone(reason) => format!("not asked, sizes alone: {reason}"),
            Kernels::Refused(_) => "not known, sizes alone: the engine cannot run all steps".to_owned(),
        }
    }
}

/// Queries the calibration's GPU, if it is in this machine.
pub(super) fn query(header: &Header, steps: &[Step], precision: Precision, mode: Mode) -> Kernels {
    let name = &header.origin.device;
    let devices = match Device::all() {
        Ok(devices) => devices,
        Err(error) => return Kernels::SizesAlone(without(&error)),
    };
    let Some(index) = devices.iter().position(|device| device.name == *name) else {
        return Kernels::SizesAlone(format!("this machine has no {name}"));
    };
    let references = Some(&header.references).filter(|best| !best.is_empty());
    let kernels =
        Cuda::with_references(index, references).and_then(|cuda| of_steps(&cuda, steps, precision, mode));
    kernels.unwrap_or_else(|error| Kernels::SizesAlone(flopgap_files::chain(&error).to_string()))
}

fn without(error: &GpuError) -> String {
    if error.is_absence() {
        "this machine has no GPU".to_owned()
    } else {
        flopgap_files::chain(error).to_string()
    }
}

/// The kernels of each step. Equal steps are opened once, and one at a time: the memory of the
/// largest is enough.
fn of_steps(
    engine: &dyn Engine,
    steps: &[Step],
    precision: Precision,
    mode: Mode,
) -> Result<Kernels, EngineError> {
    let mut known = HashMap::<&Step, Result<Algorithm, String>>::new();
    for step in steps {
        if !known.contains_key(step) {
            let found = match of_step(engine, step, precision, mode) {
                Ok(algorithm) => Ok(algorithm),
                Err(error @ EngineError::Unsupported { .. }) => Err(error.to_string()),
                Err(error) => return Err(error),
            };
            known.insert(step, found);
        }
    }
    let (mut algorithms, mut refused) = (Vec::new(), Vec::new());
    for (place, step) in steps.iter().enumerate() {
        match &known[step] {
            Ok(algorithm) => algorithms.push(algorithm.clone()),
            Err(why) => refused.push((place, why.clone())),
        }
    }
    Ok(if refused.is_empty() { Kernels::Known(algorithms) } else { Kernels::Refused(refused) })
}

fn of_step(
    engine: &dyn Engine,
    step: &Step,
    precision: Precision,
    mode: Mode,
) -> Result<Algorithm, EngineError> {
    let session = engine.open(&Workload::Step(step.clone()), precision, mode)?;
    let Ok([algorithm]) = <[Algorithm; 1]>::try_from(session.algorithms()) else {
        return Err(EngineError::Failed {
            action: step.label(),
            message: format!("{} does not report the kernels", engine.name()),
        });
    };
    Ok(algorithm)
}

#[cfg(test)]
mod tests {
    use flopgap_calibration::Origin;
    use flopgap_calibration::engines::Native;
    use flopgap_calibration::engines::cpu::CpuSettings;
    use flopgap_flops::Activation;
    use flopgap_graph::MlpSpec;

    use super::*;

    fn steps() -> Vec<Step> {
        let (hidden, activation) = (vec![64, 64, 64], Activation::Relu);
        Workload::Mlp(MlpSpec { input: 64, hidden, output: 10, batch: 4, activation }).steps().unwrap()
    }

    #[test]
    fn a_machine_without_the_gpu_uses_sizes() {
        let origin = Origin { device: "a GPU that nobody has".to_owned(), ..Origin::default() };
        let kernels = query(&Header::new(origin, None), &steps(), Precision::Fp32, Mode::Graph);
        assert!(kernels.algorithms().is_none());
        let text = kernels.describe();
        assert!(text.starts_with("not asked, sizes alone: this machine has no "), "{text}");
    }

    #[test]
    fn an_engine_that_cannot_run_a_step_says_so() {
        let native = Native::new(&CpuSettings::default());
        let steps = steps();
        let kernels = of_steps(&native, &steps, Precision::Fp16, Mode::Call).unwrap();
        assert!(kernels.algorithms().is_none());
        assert_eq!(kernels.refused().len(), steps.len());
        for (place, (refused, why)) in kernels.refused().iter().enumerate() {
            assert_eq!(place, *refused);
            assert!(why.starts_with("native cannot run "), "{why}");
        }
        assert_eq!(kernels.describe(), "not known, sizes alone: the engine cannot run all steps");
    }

    #[test]
    fn the_gpu_names_the_kernels_of_each_step() {
        let cuda = match Cuda::new(0) {
            Ok(cuda) => cuda,
            Err(error) => return flopgap_testing::skip("gpu", error),
        };
        let header = Header::new(cuda.origin().clone(), None);
        drop(cuda);
        for mode in [Mode::Graph, Mode::Stream] {
            let kernels = query(&header, &steps(), Precision::Fp32, mode);
            let algorithms = kernels.algorithms().unwrap_or_else(|| panic!("{kernels:?}"));
            assert_eq!(algorithms.len(), 4);
            assert!(algorithms.iter().all(|algorithm| !algorithm.kernels.is_empty()), "{algorithms:?}");
            // The hidden layers are alike.
            assert_eq!(algorithms[0], algorithms[1]);
        }
    }
}
