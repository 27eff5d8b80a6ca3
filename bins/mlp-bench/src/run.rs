//! Runs all requested measurements in sequence.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use flopgap_cli::{Console, Exit, Failure};
use flopgap_files::Hint as _;
use flopgap_gpu::timing::{Evictor, Samples};
use flopgap_gpu::{Context, Digester, GpuError};
use flopgap_mlp::cuda::{Implementation, Model, Target};
use flopgap_mlp::vulkan::VulkanError;
use flopgap_mlp::{CorePeaks, Element, MlpError, Network, Precision};
use half::{bf16, f16};

use crate::check::{Expected, Numbers, Wrong};
use crate::device::Device;
use crate::floor::{Peaks, Work};
use crate::gpu::{Arena, Run, Tools};
use crate::models::Models;
use crate::options::Bench;
use crate::pass::Pass;
use crate::results::{Clock, Measurement, PeerLine, Results, Subject};
use crate::{PROGRAM, answer, cpu, memory, peers, plot, vulkan};

/// Times everything, and shows it.
///
/// # Errors
/// Without a device; when a result was wrong or something did not run (what was measured is shown
/// before).
pub(crate) fn run(bench: &Bench, console: Console) -> Result<(), Failure> {
    let networks = bench.networks()?;
    let read = |path: &Path| {
        let what = format_args!("{}: measurements of other programs, read", path.display());
        console.timed(what, || peers::read(path))
    };
    let peers = bench.output.peers.as_deref().map(read).transpose()?.unwrap_or_default();
    for (option, place) in bench.without_meaning(bench.device) {
        flopgap_cli::warn(PROGRAM, format!("{option} has no effect {place}"));
    }
    let mut tally = Tally::new(console);
    let ended = match bench.device {
        Device::Cuda(index) => on_gpu(bench, index, &networks, &mut tally),
        Device::Vulkan(index) => on_vulkan(bench, index, &networks, &mut tally),
        Device::Cpu => on_cpu(bench, &networks, &mut tally),
    };
    let Tally { device, peaks, measurements, wrong, .. } = tally;
    if measurements.is_empty() {
        ended?;
        let exit = if wrong.is_empty() { Exit::Absent } else { Exit::Failed };
        return Err(Failure::new("nothing was measured").exit(exit));
    }
    let mut results = Results { device, peaks, measurements };
    add_peers(&mut results, &networks, peers);
    // Earlier measurements are shown even if the last one failed.
    let shown = show(bench, &results, console);
    ended?;
    match &wrong[..] {
        [] => shown,
        [only] => Err(Failure::new(only)),
        [first, ..] => Err(Failure::new(format!("{} results were wrong; the first: {first}", wrong.len()))),
    }
}

/// Prints first, so that measurements are not lost if a plot cannot be written.
fn show(bench: &Bench, results: &Results, console: Console) -> Result<(), Failure> {
    answer::write(&bench.output.answer, bench.output.format(), results, console)?;
    let Some(folder) = &bench.output.plots else { return Ok(()) };
    if results.peaks.is_none() {
        return Err(Failure::new(
            "--plots: nothing is known of this device's peaks, so there is no floor to plot",
        )
        .exit(Exit::Absent)
        .hint("give them: --peaks FP32,FP16,TBPS"));
    }
    for file in plot::write(folder, results)? {
        console.note(format_args!("wrote {}", file.display()));
    }
    Ok(())
}

/// Adds other programs' measurements of the same work.
fn add_peers(results: &mut Results, networks: &[(String, Network)], peers: Vec<PeerLine>) {
    let (given, own) = (peers.len(), results.measurements.len());
    for PeerLine { subject, median_us, timing } in peers {
        let pass = Pass::ALL.into_iter().find(|pass| pass.name() == subject.pass);
        let network = networks.iter().find(|(name, _)| *name == subject.size).map(|(_, network)| network);
        let (Some(pass), Some(network), Ok(precision)) =
            (pass, network, subject.precision.parse::<Precision>())
        else {
            continue;
        };
        let ours = results.measurements[..own].iter().find(|m| m.subject.same_work(&subject));
        let Some(clock) = ours.map(|m| timing.unwrap_or_else(|| m.timing.clone())) else { continue };
        let work = Work::new(network, precision, pass, subject.batch);
        let floor = results.peaks.as_ref().map(|peaks| work.floor(peaks, precision));
        let measurement = Measurement::of_median(&subject, &clock, median_us, &work, floor);
        results.measurements.push(measurement);
    }
    if given > 0 && results.measurements.len() == own {
        flopgap_cli::warn(
            PROGRAM,
            "--peers: none of them is of a network, type, pass and batch that was measured",
        );
    }
}

/// The peaks from the options.
fn given_peaks(bench: &Bench) -> Option<Peaks> {
    let [fp32, half, memory] = bench.peaks?;
    Some(Peaks { fp32: fp32 * 1e12, half: half * 1e12, memory: memory * 1e12, origin: "as given".to_owned() })
}

fn on_cpu(bench: &Bench, networks: &[(String, Network)], tally: &mut Tally) -> Result<(), Failure> {
    for precision in
        bench.precisions(Device::Cpu).into_iter().filter(|&precision| precision != Precision::F32)
    {
        flopgap_cli::warn(
            PROGRAM,
            format!("{precision} is skipped: the CPU computes in fp32 (--precision fp32)"),
        );
    }
    let fp32 = bench.precisions(Device::Cpu).contains(&Precision::F32);
    if fp32 {
        let measure = || tally.console.timed("peaks of the cores: measured", CorePeaks::measure);
        tally.peaks = Some(given_peaks(bench).unwrap_or_else(|| Peaks::of_cores(&measure())));
    }
    for (name, network) in networks.iter().filter(|_| fp32) {
        memory::check_reference(name, network)?;
        let numbers = Numbers::<f32>::new(network, bench.seed);
        for batch in bench.batch_sizes(Device::Cpu) {
            if let Err(failure) = memory::check_passes(name, network, batch) {
                flopgap_cli::warn(PROGRAM, format!("left out: {failure}"));
                continue;
            }
            let expected = tally.expecting(name, batch, || numbers.expected(batch))?;
            let mut arena = cpu::Arena::new(network, &numbers, batch);
            tally.device = format!("CPU, {} threads", arena.threads());
            for pass in bench.passes() {
                let subject = Subject {
                    implementation: cpu::NAME.to_owned(),
                    size: name.clone(),
                    precision: Precision::F32.to_string(),
                    pass: pass.name().to_owned(),
                    batch,
                };
                let measured = arena
                    .check(pass, &expected)
                    .and_then(|error| Ok((error, vec![(Clock::Host, arena.time(pass, &bench.clocks)?)])));
                tally.record(network, Precision::F32, pass, &subject, measured)?;
            }
        }
    }
    Ok(())
}

fn on_vulkan(
    bench: &Bench,
    index: usize,
    networks: &[(String, Network)],
    tally: &mut Tally,
) -> Result<(), Failure> {
    let device = flopgap_mlp::vulkan::Device::new(index).map_err(|error| Failure::of(&error))?;
    tally.device = format!("{} (Vulkan)", device.name());
    // The driver of Vulkan says no clocks; that of CUDA does for the same GPU.
    let same =
        (0..).map_while(|index| flopgap_gpu::Device::get(index).ok()).find(|gpu| gpu.name == device.name());
    tally.peaks = given_peaks(bench).or_else(|| Peaks::of(&same?));
    for (name, network) in networks {
        memory::check_reference(name, network)?;
        for precision in bench.precisions(bench.device) {
            match precision {
                Precision::F32 => network_on_vulkan::<f32>(bench, &device, name, network, tally)?,
                Precision::F16 => network_on_vulkan::<f16>(bench, &device, name, network, tally)?,
                Precision::Bf16 => network_on_vulkan::<bf16>(bench, &device, name, network, tally)?,
            }
        }
    }
    Ok(())
}

/// All batches, passes and implementations of a network in a precision.
fn network_on_vulkan<T: Element>(
    bench: &Bench,
    device: &flopgap_mlp::vulkan::Device,
    name: &str,
    network: &Network,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let numbers = Numbers::<T>::new(network, bench.seed);
    let left_out = |error| flopgap_cli::warn(PROGRAM, format!("{name} is left out: {error}"));
    let models = vulkan::models(device, network, &bench.implementations(), &numbers, left_out)?;
    if models.is_empty() {
        return Ok(());
    }
    let passes = bench.passes();
    let backward = passes.iter().any(|&pass| pass != Pass::Forward);
    for batch in bench.batch_sizes(bench.device) {
        let expected = tally.expecting(name, batch, || numbers.expected(batch))?;
        let first = tally.measurements.len();
        for model in &models {
            let mut run = vulkan::Run::new(model, &numbers, batch, backward);
            for &pass in &passes {
                let subject = Subject {
                    implementation: model.implementation().to_string(),
                    size: name.to_owned(),
                    precision: T::PRECISION.to_string(),
                    pass: pass.name().to_owned(),
                    batch,
                };
                let measured = match &mut run {
                    Ok(run) => run.measure(pass, &expected, &bench.clocks),
                    Err(error) => Err(Wrong::Error(error.clone())),
                };
                tally.record(network, T::PRECISION, pass, &subject, measured)?;
            }
        }
        tally.by_pass(first, &passes);
    }
    Ok(())
}

/// The measurements so far.
struct Tally {
    console: Console,
    device: String,
    /// Of the device, once they are known.
    peaks: Option<Peaks>,
    measurements: Vec<Measurement>,
    /// Wrong results, and of what.
    wrong: Vec<String>,
}

/// The largest error of a pass, and its times; or why there are none.
type Measured = Result<(f64, Vec<(Clock, Samples)>), Wrong>;

impl Tally {
    fn new(console: Console) -> Tally {
        let (device, measurements, wrong) = Default::default();
        Tally { console, device, peaks: None, measurements, wrong }
    }

    /// What the results of a batch are checked against.
    fn expecting<T>(&self, network: &str, batch: usize, compute: impl FnOnce() -> T) -> T {
        let what = format_args!("{network}, batch {batch}: computed in 64 bits for the check");
        self.console.timed(what, compute)
    }

    /// Puts measurements from the given one on in the order of passes: one implementation after the
    /// other was measured, and what is shown side by side are those of a pass.
    fn by_pass(&mut self, first: usize, passes: &[Pass]) {
        let place = |m: &Measurement| passes.iter().position(|pass| pass.name() == m.subject.pass);
        self.measurements[first..].sort_by_key(place);
    }

    /// Stores measurements. Combinations that did not fit in memory or had no kernel, and wrong
    /// results, are reported, and the others continue.
    fn record(
        &mut self,
        network: &Network,
        precision: Precision,
        pass: Pass,
        subject: &Subject,
        measured: Measured,
    ) -> Result<(), Failure> {
        match measured {
            Ok((error, times)) => {
                let work = Work::new(network, precision, pass, subject.batch);
                let floor = self.peaks.as_ref().map(|peaks| work.floor(peaks, precision));
                for (clock, samples) in times {
                    let (clock, microseconds) = (clock.name(), samples.median() / 1e3);
                    self.console.note(format_args!("{subject}: {microseconds:.2} us ({clock})"));
                    let measurement = Measurement::new(subject, clock, &samples, &work, floor, error);
                    self.measurements.push(measurement);
                }
            }
            Err(Wrong::Error(
                error @ (MlpError::Batch { .. }
                | MlpError::Gpu(GpuError::OutOfMemory { .. })
                | MlpError::Vulkan(VulkanError::OutOfMemory { .. })),
            )) => {
                flopgap_cli::warn(PROGRAM, format!("{subject}: left out: {error}"));
            }
            Err(Wrong::Error(error)) => return Err(error.into()),
            Err(Wrong::Result(what)) => {
                let what = format!("{subject}: {what}");
                flopgap_cli::warn(PROGRAM, &what);
                self.wrong.push(what);
            }
        }
        Ok(())
    }
}

/// State shared by all networks on one GPU.
struct Gpu<'a> {
    bench: &'a Bench,
    context: Context,
    models: Models,
    tools: Tools,
    tally: &'a mut Tally,
}

fn on_gpu(
    bench: &Bench,
    index: usize,
    networks: &[(String, Network)],
    tally: &mut Tally,
) -> Result<(), Failure> {
    let gpu_failure = |error: GpuError| {
        let absent = error.is_absence();
        let failed = Failure::of(&error);
        if absent {
            failed.hint("without a GPU: flopgap bench --device cpu, or flopgap bench kernels")
        } else {
            failed
        }
    };
    let context = Context::new(index).map_err(gpu_failure)?;
    tally.device.clone_from(&context.device().name);
    let console = tally.console;
    console.detail(format_args!("GPU {index}: {}", tally.device));
    let mut target = Target::new(context.device());
    if let Some(plan) = bench.arch_plan {
        // Before anything is compiled: a plan that this GPU cannot run.
        target = target.planned_for(plan.capability)?;
        let _ = write!(tally.device, ", kernels planned for {plan}");
    }
    if bench.accumulate_fp16 && !target.has_16_bit_sums() {
        flopgap_cli::warn(
            PROGRAM,
            "--accumulate-fp16 has no effect on Hopper: its kernels sum in 32 bits, which is as fast",
        );
    }
    tally.peaks = given_peaks(bench).or_else(|| Peaks::of(context.device()));
    let stream = context.stream().map_err(gpu_failure)?;
    let evictor = bench.clocks.cold.then(|| Evictor::new(&context, &stream)).transpose();
    let tools = Tools { digester: Digester::new(&context, &stream)?, evictor: evictor? };
    let precisions = bench.precisions(Device::Cuda(index));
    let begin = Instant::now();
    let models = Models::build(&context, networks, &precisions, bench, console);
    console.note(format_args!("kernels are ready after {:.1} s", begin.elapsed().as_secs_f64()));
    let mut gpu = Gpu { bench, context, models, tools, tally };
    for (at, (name, network)) in networks.iter().enumerate() {
        for &precision in &precisions {
            match precision {
                Precision::F32 => gpu.network::<f32>(at, name, network)?,
                Precision::F16 => gpu.network::<f16>(at, name, network)?,
                Precision::Bf16 => gpu.network::<bf16>(at, name, network)?,
            }
        }
    }
    Ok(())
}

impl Gpu<'_> {
    /// All batches, passes and implementations of a network in a precision.
    fn network<T: Element>(&mut self, at: usize, name: &str, network: &Network) -> Result<(), Failure> {
        memory::check_reference(name, network)?;
        let numbers = Numbers::<T>::new(network, self.bench.seed);
        let stream = self.context.stream()?;
        let mut models: Vec<(Implementation, Model<T>)> = Vec::new();
        for implementation in self.bench.implementations() {
            let Some(model) = self.models.take::<T>(at, implementation) else { continue };
            let uploaded = model.and_then(|mut model| {
                model.upload(&stream, &numbers.parameters)?;
                Ok(model)
            });
            match uploaded {
                Ok(model) => models.push((implementation, model)),
                Err(error @ MlpError::Unsupported { .. }) => {
                    flopgap_cli::warn(PROGRAM, format!("{name} is left out: {error}"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        if models.is_empty() {
            return Ok(());
        }
        for batch in self.bench.batch_sizes(Device::Cuda(0)) {
            let expected = self.tally.expecting(name, batch, || numbers.expected(batch))?;
            let first = self.tally.measurements.len();
            self.batch(name, network, &numbers, &expected, &models, batch)?;
            self.tally.by_pass(first, &self.bench.passes());
        }
        Ok(())
    }

    /// All passes of a batch, on the same arrays.
    fn batch<T: Element>(
        &mut self,
        name: &str,
        network: &Network,
        numbers: &Numbers<T>,
        expected: &Expected,
        models: &[(Implementation, Model<T>)],
        batch: usize,
    ) -> Result<(), Failure> {
        let passes = self.bench.passes();
        let backward = passes.iter().any(|&pass| pass != Pass::Forward);
        let subject = |implementation: Implementation, pass: Pass| Subject {
            implementation: implementation.to_string(),
            size: name.to_owned(),
            precision: T::PRECISION.to_string(),
            pass: pass.name().to_owned(),
            batch,
        };
        let mut arena = Arena::new(&self.context, network, numbers, expected, batch, backward);
        for (implementation, model) in models {
            let mut run =
                arena.as_mut().map_err(|error| error.clone()).and_then(|arena| Run::new(arena, model));
            for &pass in &passes {
                let measured = match &mut run {
                    Ok(run) => run.measure(pass, expected, &self.bench.clocks, &mut self.tools),
                    Err(error) => Err(Wrong::Error(error.clone())),
                };
                self.tally.record(network, T::PRECISION, pass, &subject(*implementation, pass), measured)?;
            }
        }
        Ok(())
    }
}
