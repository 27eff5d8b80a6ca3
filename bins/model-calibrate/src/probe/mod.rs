//! `flopgap calibrate probe`: the ceilings of this machine.

mod plots;
mod tables;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Instant;

use flopgap_calibration::engines::Nvml;
use flopgap_cli::{Console, Device, Exit, Failure, note, print, warn_all};
use flopgap_gpu::Device as Gpu;
use flopgap_report::table::Format;
use flopgap_roofline::Ceilings;
use flopgap_roofline::probe::{self, ProbeError};

use crate::PROGRAM;
use crate::device;

/// What is measured.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap calibrate probe -o ceilings.json
  flopgap calibrate probe --ceilings ceilings.json --plots plots")]
pub(crate) struct Arguments {
    /// Device: cpu, cuda, or a GPU by its number (1 or cuda:1) [default: cuda if there is a GPU,
    /// otherwise cpu]
    #[arg(long, value_name = "DEVICE")]
    device: Option<Device>,

    /// CPU threads [default: all]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,

    /// Ceilings to show instead of measuring, as --output writes them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "threads", "output"])]
    ceilings: Option<PathBuf>,

    /// Write the ceilings to this file (JSON), for fits and reports
    #[arg(long, short, value_name = "FILE", value_parser = flopgap_cli::file_for(&["json"]))]
    output: Option<PathBuf>,

    /// Write plots to this directory (SVG): bandwidth by working set, the roofline
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,

    /// Output format on standard output; json is what --output writes
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let ceilings = match &arguments.ceilings {
        Some(path) => {
            console.timed(format_args!("{}: ceilings, read", path.display()), || Ceilings::read(path))?
        }
        None => measured(arguments, console)?,
    };
    warn_all(PROGRAM, &ceilings.details.absent);
    if let Some(path) = &arguments.output {
        ceilings.write(path)?;
        console.note(format_args!("wrote {}", path.display()));
    }
    if let Some(folder) = &arguments.plots {
        plots::write(&ceilings, folder, console)?;
    }
    print(&tables::render(&ceilings, arguments.format)?)
}

fn measured(arguments: &Arguments, console: Console) -> Result<Ceilings, Failure> {
    let device = arguments.device.map_or_else(device::find, Ok)?;
    console.detail(format_args!("device {device}"));
    match (device, arguments.threads) {
        (Device::Cpu, threads) => of_cpu(threads, console),
        (Device::Cuda(number), None) => of_gpu(number, console),
        (Device::Cuda(_), Some(_)) => {
            Err(Failure::new("--threads is for the CPU").hint("add --device cpu").exit(Exit::Usage))
        }
    }
}

/// About how many measurements a probe takes.
const MEASUREMENTS: u64 = 90;

/// Measures with a bar on the terminal; `watch` is called before each measurement.
fn measure(
    console: Console,
    mut watch: impl FnMut(),
    probe: impl FnOnce(probe::Progress<'_>) -> Result<Ceilings, ProbeError>,
) -> Result<Ceilings, Failure> {
    let progress = console.progress(MEASUREMENTS, "measurements");
    let start = Instant::now();
    let measured = probe(&mut |what| {
        watch();
        let begun = start.elapsed().as_secs_f64();
        progress.suspend(|| console.detail(format_args!("{what}: measured from {begun:.3} s on")));
        progress.note(what);
        progress.advance(1);
    });
    progress.finish();
    measured.map_err(|error| failure(&error))
}

fn of_cpu(threads: Option<NonZero<usize>>, console: Console) -> Result<Ceilings, Failure> {
    let origin = flopgap_calibration::engines::cpu::origin();
    let settings =
        probe::cpu::Settings { device: origin.device, properties: origin.properties, threads, largest: None };
    measure(console, || (), |progress| probe::cpu::probe(&settings, progress))
}

fn of_gpu(number: usize, console: Console) -> Result<Ceilings, Failure> {
    let gpu = Gpu::get(number).map_err(|error| failure(&error.into()))?;
    let mut nvml =
        Nvml::open(&gpu.uuid).map_err(|error| note(PROGRAM, format_args!("no clocks: {error}"))).ok();
    let mut states = States::default();
    let watch = || states.see(nvml.as_mut());
    let mut ceilings = measure(console, watch, |progress| probe::cuda::probe(number, progress))?;
    ceilings.details.state = states.reported();
    Ok(ceilings)
}

/// NVML's reports between the measurements.
#[derive(Debug, Default)]
struct States {
    clocks_mhz: Option<(u32, u32)>,
    hottest_c: Option<u32>,
    throttle: Vec<String>,
}

impl States {
    fn see(&mut self, nvml: Option<&mut Nvml>) {
        let Some(state) = nvml.and_then(|nvml| nvml.state().ok()) else { return };
        if let Some(clock) = state.clock_mhz {
            let (low, high) = self.clocks_mhz.unwrap_or((clock, clock));
            self.clocks_mhz = Some((low.min(clock), high.max(clock)));
        }
        self.hottest_c = self.hottest_c.max(state.temperature_c);
        for reason in state.throttle {
            if !self.throttle.contains(&reason) {
                self.throttle.push(reason);
            }
        }
    }

    fn reported(self) -> BTreeMap<String, String> {
        let mut reported = BTreeMap::new();
        if let Some((low, high)) = self.clocks_mhz {
            reported.insert("clock_mhz".to_owned(), format!("{low} to {high}"));
        }
        reported.extend(self.hottest_c.map(|degrees| ("temperature_c".to_owned(), degrees.to_string())));
        if !self.throttle.is_empty() {
            reported.insert("throttle".to_owned(), self.throttle.join(" "));
        }
        reported
    }
}

fn failure(error: &ProbeError) -> Failure {
    let failure = Failure::of(error);
    match error {
        ProbeError::Threads { .. } => failure.hint("omit `--threads` to use all threads"),
        _ => failure,
    }
}
