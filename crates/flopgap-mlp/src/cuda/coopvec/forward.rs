//! The forward pass: one kernel that loops over tiles of samples, and for few samples of a network
//! with one hidden layer another that splits that layer over warps and blocks.

use flopgap_gpu::{Context, GpuError, Kernel};

use crate::{MlpError, Precision};

use super::super::kernels::{Forward, ForwardCall, KernelFacts};
use super::super::launch::{Arguments, Launch};
use super::super::options::Accumulate;
use super::super::request::Request;
use super::super::source::{Binaries, Source};
use super::shape::{Rolled, Shape};
use crate::cuda::budget;

/// What of the registers of a thread goes to addresses, weights on their way and sums of a piece
/// (for each sample of a lane).
const OTHERS: usize = 44;
const PIECE: usize = 12;

/// The kernel for any batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tiled {
    /// Samples of a lane; a warp has eight times as many.
    rows: usize,
    warps: usize,
    /// Blocks of a multiprocessor that the compiler leaves registers for.
    blocks: usize,
    /// Slabs of weights in shared memory, 0 for all.
    stages: usize,
    /// Whether the next inputs are read ahead.
    ahead: bool,
    cut: usize,
    parked: usize,
    rolled: Rolled,
    shared: usize,
}

/// The kernel for few samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sliced {
    warps: usize,
    cluster: usize,
    slice: usize,
    shared: usize,
    /// The largest batch that it is for.
    most: u32,
}

/// Registers that [`Sliced`] can give to inputs and outputs.
const MOST_SLICED: usize = 192;
/// The same on Turing, whose products take half the terms and so twice the registers on their way:
/// more would spill.
const MOST_SLICED_TURING: usize = 64;

/// Samples of a block of [`Sliced`].
const SLICED_SAMPLES: u32 = 16;

/// Which kernels, with which constants.
#[derive(Debug)]
pub(super) struct Plan {
    tiled: Tiled,
    sliced: Option<Sliced>,
}

impl Plan {
    pub(super) fn new(request: &Request<'_>) -> Result<Self, MlpError> {
        let shape = Shape::new(request.network, request.precision);
        let sliced = if request.precision == Precision::F32 { None } else { sliced(request, &shape) };
        Ok(Plan { tiled: tiled(request, &shape)?, sliced })
    }

    pub(super) fn sources(&self, request: &Request<'_>) -> Vec<Source> {
        let tiled = &self.tiled;
        let constants = [
            ("ROWS", tiled.rows),
            ("WARPS", tiled.warps),
            ("THREADS", 32 * tiled.warps),
            ("BLOCKS", tiled.blocks),
            ("STAGES", tiled.stages),
            ("AHEAD", usize::from(tiled.ahead)),
            ("CUT", tiled.cut),
            ("PARKED", tiled.parked),
        ];
        let mut sources = [0, 1]
            .map(|kernel| {
                super::source(request, "coopvec/forward.cu", Some(kernel), tiled.rolled, &constants)
            })
            .to_vec();
        if let Some(sliced) = self.sliced {
            let constants = [
                ("ROWS", 2),
                ("WARPS", sliced.warps),
                ("THREADS", 32 * sliced.warps),
                ("STAGES", 0),
                ("CLUSTER", sliced.cluster),
                ("SLICE", sliced.slice),
            ];
            sources.push(super::source(request, "coopvec/sliced.cu", None, Rolled::No, &constants));
        }
        sources
    }

    pub(super) fn load(
        &self,
        request: &Request<'_>,
        binaries: &Binaries,
        context: &Context,
    ) -> Result<Box<dyn Forward>, MlpError> {
        let sources = self.sources(request);
        let pair = |sources: [&Source; 2], name: &str, threads: usize, cluster: usize, shared: usize| {
            let pass = |source: &Source, name: String| -> Result<Pass, MlpError> {
                let kernel = source.load(binaries, context)?.kernel(&name, shared)?;
                let threads = u32::try_from(threads).unwrap_or_default();
                let filling = super::filling(&kernel, request.target.multiprocessors, threads, shared)?;
                let cluster = u32::try_from(cluster).unwrap_or_default();
                let launch = Launch {
                    shared,
                    cluster,
                    overlap: super::overlap(request),
                    ..Launch::new(filling, threads)
                };
                Ok(Pass { name, kernel, launch })
            };
            let [plain, train] = sources;
            Ok::<_, MlpError>([pass(plain, name.to_owned())?, pass(train, format!("{name}_train"))?])
        };
        let Tiled { warps, shared, .. } = self.tiled;
        let tiled = pair([&sources[0], &sources[1]], "coopvec_mlp_forward", 32 * warps, 1, shared)?;
        let sliced = match self.sliced {
            Some(sliced) => Some((
                sliced.most,
                pair(
                    [&sources[2]; 2],
                    "coopvec_mlp_forward_sliced",
                    32 * sliced.warps,
                    sliced.cluster,
                    sliced.shared,
                )?,
            )),
            None => None,
        };
        let samples = 8 * self.tiled.rows * if self.tiled.stages == 0 { 1 } else { self.tiled.warps };
        Ok(Box::new(CoopvecForward { tiled, samples: u32::try_from(samples).unwrap_or_default(), sliced }))
    }
}

/// Chooses as many samples a lane as there are registers for, and keeps all weights in shared
/// memory if they fit.
fn tiled(request: &Request<'_>, shape: &Shape) -> Result<Tiled, MlpError> {
    let limit = request.target.shared_bytes;
    let wide = shape.bytes == 4;
    // The scalar product holds weights and inputs of four steps.
    let others = if wide { OTHERS + 70 } else { OTHERS };
    let inputs = shape.widths[0];
    let fits = |rows: usize, extra: usize, inputs: usize| {
        rows * (shape.forward_registers(inputs) + PIECE + extra) + others <= budget::REGISTERS
    };
    // Scalar products are long programs: more than two samples a lane take the compiler too long.
    let candidates: &[usize] = if wide { &[2, 1] } else { &[4, 2] };
    let (mut cut, mut parked) = (32, 0);
    let ahead_registers = shape.operand(inputs);
    let (rows, ahead) = if let Some(&rows) = candidates.iter().find(|&&rows| fits(rows, 0, inputs)) {
        (rows, !wide && fits(rows, ahead_registers, inputs))
    } else {
        // The least; inputs that do not fit wait in shared memory.
        let rows = candidates[candidates.len() - 1];
        let kept = (1..=inputs / 32).map(|pieces| inputs - 32 * pieces);
        // The compiler needs more room here: half of the registers for what is kept.
        let few = |&kept: &usize| rows * shape.forward_registers(kept) <= budget::REGISTERS / 2 + 1;
        match kept.into_iter().find(few) {
            Some(kept) if shape.layers() == 2 => (cut, parked) = (16, inputs - kept),
            _ => return Err(request.unsupported(format!(
                "a lane keeps two layers of a sample in registers, {} here at least: too many; coopmat keeps them in shared memory",
                rows * shape.forward_registers(inputs)
            ))),
        }
        (rows, false)
    };
    let instructions = |rolled| shape.forward_instructions(rows, cut, rolled);
    let Some(rolled) =
        Rolled::ALL.into_iter().find(|&rolled| super::is_short(request, instructions(rolled), rolled))
    else {
        return Err(budget::exceeded(request, instructions(Rolled::Operands)));
    };
    let biases: usize = 4 * shape.widths[1..].iter().sum::<usize>();
    let slabs = shape.forward_slabs(cut);
    // Registers for so many warps.
    let most = |warps: usize| 65_536 / (32 * warps);
    let used =
        rows * (shape.forward_registers(inputs) + PIECE + if ahead { ahead_registers } else { 0 }) + others;
    let shared = |warps: usize, stages: usize| {
        let weights = if stages == 0 { slabs.all } else { stages * slabs.largest };
        biases + shape.bytes * (weights + warps * 8 * rows * parked)
    };
    let room = limit.min(if request.target.capability.major == 7 { 64 * 1024 } else { limit });
    // Small blocks share a multiprocessor if the weights fit several times; otherwise one block has
    // it for itself.
    for (warps, blocks) in [(4, 4), (4, 3), (4, 2), (8, 1)] {
        let bytes = shared(warps, 0);
        if bytes * blocks <= room && used <= most(warps * blocks) {
            return Ok(Tiled { rows, warps, blocks, stages: 0, ahead, cut, parked, rolled, shared: bytes });
        }
    }
    let stages = [4, 3, 2].into_iter().find(|&stages| shared(8, stages) <= room);
    match stages {
        Some(stages) => {
            Ok(Tiled { rows, warps: 8, blocks: 1, stages, ahead, cut, parked, rolled, shared: shared(8, stages) })
        }
        None => Err(request.unsupported(format!(
            "two pieces of a layer's weights take {} bytes of shared memory, a block has {room}; coopmat cuts them smaller",
            shared(8, 2)
        ))),
    }
}

/// For device functions: see [`super::resident`].
pub(super) fn resident(request: &Request<'_>) -> Result<super::Resident, MlpError> {
    let shape = Shape::new(request.network, request.precision);
    let tiled = tiled(request, &shape)?;
    if tiled.parked > 0 {
        return Err(request.unsupported("its inputs do not stay in registers"));
    }
    let weights = shape.forward_slabs(tiled.cut).all;
    Ok(super::Resident { rows: tiled.rows, rolled: tiled.rolled as usize, weights })
}

/// Networks of one hidden layer: a slice of it for every warp, clusters of blocks where one block
/// would load too much.
fn sliced(request: &Request<'_>, shape: &Shape) -> Option<Sliced> {
    let &[inputs, hidden, outputs] = shape.widths.as_slice() else { return None };
    let slice = [16, 8].into_iter().find(|slice| hidden % slice == 0)?;
    // A warp holds its inputs, the outputs, and the weights of a slice on their way.
    let most = if request.target.capability.major < 8 { MOST_SLICED_TURING } else { MOST_SLICED };
    if 2 * (shape.operand(inputs) + Shape::sum(outputs)) > most
        || request.options.accumulate == Accumulate::F16
    {
        return None;
    }
    let slices = hidden / slice;
    let cluster =
        if request.target.capability.major < 9 { 1 } else { (slices / 4).clamp(1, 8).next_power_of_two() };
    let cluster = if slices <= 8 { 1 } else { cluster };
    let warps = slices.div_ceil(cluster).clamp(1, 8);
    let shared = warps * 16 * (outputs + 8) * 4;
    if shared > request.target.shared_bytes {
        return None;
    }
    let blocks = request.target.multiprocessors / u32::try_from(cluster).ok()?;
    Some(Sliced { warps, cluster, slice, shared, most: blocks * SLICED_SAMPLES })
}

/// A loaded kernel; the launch has as many blocks as fill the device.
#[derive(Debug)]
struct Pass {
    name: String,
    kernel: Kernel,
    launch: Launch,
}

/// Each kernel without and with a tape.
#[derive(Debug)]
struct CoopvecForward {
    tiled: [Pass; 2],
    /// Samples of a warp, or of a block whose warps go together.
    samples: u32,
    sliced: Option<(u32, [Pass; 2])>,
}

impl Forward for CoopvecForward {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        let kind = usize::from(call.tape.is_some());
        let (pass, blocks) = match &self.sliced {
            Some((most, passes)) if call.batch <= *most => {
                let pass = &passes[kind];
                (pass, call.batch.div_ceil(SLICED_SAMPLES) * pass.launch.cluster)
            }
            _ => {
                let pass = &self.tiled[kind];
                (pass, call.batch.div_ceil(self.samples).min(pass.launch.grid.0))
            }
        };
        let arguments = Arguments::default().addresses([call.parameters, call.x, call.y]);
        let arguments = match call.tape {
            Some(tape) => arguments.addresses([tape]),
            None => arguments,
        };
        let launch = Launch { grid: (blocks, 1, 1), ..pass.launch };
        // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
        // expects: `Model` checked them.
        unsafe { launch.queue(call.stream, &pass.kernel, arguments.u32(call.batch)) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let sliced = self.sliced.iter().flat_map(|(_, passes)| passes);
        let all = self.tiled.iter().chain(sliced);
        all.map(|pass| KernelFacts::new(&pass.name, &pass.kernel, pass.launch.shared)).collect()
    }
}
