//! `--kernel`, `--device`, `--process` and `--stream`: a part of the launches of a report.

use std::collections::BTreeSet;

use flopgap_cli::{Exit, Failure};
use flopgap_kernels::Classifier;
use flopgap_ncu::LaunchView;

/// Options that select launches by what they are, not by where they lie.
#[derive(clap::Args)]
pub(crate) struct Filter {
    /// Only kernels with this text in their name, whatever its case. Can be repeated: any of them
    #[arg(long, value_name = "TEXT")]
    kernel: Vec<String>,
    /// Device by CUDA's number: only its launches. Can be repeated
    #[arg(long, value_name = "DEVICE")]
    device: Vec<u64>,
    /// Only launches of this process. Can be repeated
    #[arg(long, value_name = "PID")]
    process: Vec<u64>,
    /// Only launches in this stream. Can be repeated
    #[arg(long, value_name = "N")]
    stream: Vec<u64>,
}

/// What the launches of a report have, for those who asked for what they do not have.
#[derive(Default)]
pub(crate) struct Met {
    devices: BTreeSet<u64>,
    processes: BTreeSet<u64>,
    streams: BTreeSet<u64>,
}

impl Filter {
    pub(crate) fn is_active(&self) -> bool {
        !self.kernel.is_empty() || self.by_place()
    }

    /// Whether it asks for what only a report has: a record has no GPUs, processes and streams.
    pub(crate) fn by_place(&self) -> bool {
        !(self.device.is_empty() && self.process.is_empty() && self.stream.is_empty())
    }

    /// Whether it chooses processes.
    pub(crate) fn by_process(&self) -> bool {
        !self.process.is_empty()
    }

    pub(crate) fn takes(&self, launch: LaunchView<'_>, classifier: &Classifier, met: &mut Met) -> bool {
        if !self.is_active() {
            return true;
        }
        let one_of = |wanted: &[u64], found: Option<u64>, met: &mut BTreeSet<u64>| {
            met.extend(found);
            wanted.is_empty() || found.is_some_and(|found| wanted.contains(&found))
        };
        // All three, so that what is met is complete.
        let device = one_of(&self.device, launch.device, &mut met.devices);
        let process = one_of(&self.process, launch.process_id, &mut met.processes);
        let stream = one_of(&self.stream, launch.stream, &mut met.streams);
        device && process && stream && self.takes_kernel(launch.kernel_name(), classifier)
    }

    pub(crate) fn takes_kernel(&self, name: &str, classifier: &Classifier) -> bool {
        if self.kernel.is_empty() {
            return true;
        }
        let (full, short) = (name.to_lowercase(), classifier.get(name).short.to_lowercase());
        self.kernel
            .iter()
            .map(|text| text.to_lowercase())
            .any(|text| full.contains(&text) || short.contains(&text))
    }

    /// The filter, for titles: `, kernels with `gemm`, GPU 1`.
    pub(crate) fn title(&self) -> String {
        let listed = |what: &str, numbers: &[u64]| match numbers {
            [] => String::new(),
            numbers => {
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                format!(", {what} {}", numbers.join(" and "))
            }
        };
        let kernels = match &self.kernel[..] {
            [] => String::new(),
            texts => format!(", kernels with `{}`", texts.join("` or `")),
        };
        kernels
            + &listed("GPU", &self.device)
            + &listed("process", &self.process)
            + &listed("stream", &self.stream)
    }

    /// Why no launch is left.
    pub(crate) fn nothing(&self, met: &Met) -> Failure {
        let has = |what: &str, wanted: &[u64], met: &BTreeSet<u64>| {
            let numbers: Vec<String> = met.iter().take(8).map(u64::to_string).collect();
            let more = if met.len() > numbers.len() { ", …" } else { "" };
            match (wanted.is_empty(), numbers.is_empty()) {
                (true, _) => None,
                (false, true) => Some(format!("no {what}")),
                (false, false) => Some(format!("{what} {}{more}", numbers.join(", "))),
            }
        };
        let has: Vec<String> = [
            has("GPU", &self.device, &met.devices),
            has("process", &self.process, &met.processes),
            has("stream", &self.stream, &met.streams),
        ]
        .into_iter()
        .flatten()
        .collect();
        let failure = Failure::new(format!("no launch is left{}", self.title())).exit(Exit::Absent);
        if has.is_empty() { failure } else { failure.hint(format!("the launches name {}", has.join("; "))) }
    }
}
