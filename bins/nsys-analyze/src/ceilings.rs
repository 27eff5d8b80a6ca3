//! `--ceilings`: what was measured on a GPU, for the floor of a step.

use std::path::Path;

use flopgap_answers::{Error, Opened};
use flopgap_cli::{Exit, Failure};
use flopgap_flops::Precision;
use flopgap_gap::Peaks;
use flopgap_kernels::NumberType;
use flopgap_roofline::{Ceilings, Level};

use crate::failure;

/// The peaks in a file of ceilings, refused unless all work of the traces ran on such a GPU.
pub(crate) fn read(path: &Path, traces: &[Opened]) -> Result<Peaks, Failure> {
    let ceilings = Ceilings::read(path).map_err(|error| Failure::of(&error))?;
    for trace in traces {
        let gpus = trace.recording().gpu_names().map_err(|error| failure(&Error::Trace(error)))?;
        let named = match gpus.as_slice() {
            [] => Err("the recording does not say which GPU it is of".to_owned()),
            [gpu] => Ok(gpu),
            several => Err(format!("the GPUs are of several kinds: {}", several.join(", "))),
        };
        let refused = |why: &dyn std::fmt::Display| {
            Failure::new(format!("{}: {why}", trace.path().display()))
                .hint("measure the ceilings of that GPU with `flopgap calibrate probe`")
        };
        let gpu = named.map_err(|why| refused(&why).exit(Exit::Absent))?;
        ceilings.expect_machine("cuda", gpu, None::<(&String, &String)>).map_err(|error| refused(&error))?;
    }
    peaks(&ceilings).ok_or_else(|| {
        Failure::new(format!("{}: the bandwidth of the memory was not measured", path.display()))
            .hint("measure the ceilings again with `flopgap calibrate probe`")
            .exit(Exit::Absent)
    })
}

/// The fastest of each precision, and the fastest way through the memory: no floor is too high.
fn peaks(ceilings: &Ceilings) -> Option<Peaks> {
    let measured = Precision::ALL.into_iter().filter_map(|precision| {
        let number = match precision {
            Precision::Fp32 => NumberType::Fp32,
            Precision::Tf32 => NumberType::Tf32,
            Precision::Fp16 => NumberType::Fp16,
            Precision::Bf16 => NumberType::Bf16,
            Precision::Int8 => NumberType::Int8,
        };
        Some((number, ceilings.peak(precision)?.ops_per_second.value))
    });
    // The last level is the memory of the device.
    let memory = ceilings.levels.last().filter(|level| level.bytes.is_none())?;
    let Level { read, copy, .. } = memory;
    Some(Peaks::measured(&ceilings.device, measured, read.max(*copy), Some(ceilings.launch_ns.value)))
}
