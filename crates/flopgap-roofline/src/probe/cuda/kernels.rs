//! The kernels, compiled and launched. Everything unsafe of the probe of a GPU is here.
#![expect(unsafe_code, reason = "launching a kernel is unsafe: nobody checks that the arguments are its own")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use flopgap_gpu::compile::{Architecture, Compiler};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Buffer, ComputeCapability, Context, GpuError, Kernel, Module, Stream};

use super::super::ProbeError;

/// A source of the probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSource {
    /// Its name in messages of the compiler.
    pub name: &'static str,
    /// CUDA C.
    pub text: String,
    /// What it is compiled for.
    pub architecture: Architecture,
    /// Its kernels.
    pub kernels: Vec<&'static str>,
}

const PEAK: &str = include_str!("peak.cu");
const WGMMA: &str = include_str!("wgmma.cu");
const BANDWIDTH: &str = include_str!("bandwidth.cu");

/// Compute capability of Hopper, which alone has `wgmma`.
const HOPPER: ComputeCapability = ComputeCapability { major: 9, minor: 0 };
/// The first with `mma.sync` of bf16 and tf32.
const AMPERE: ComputeCapability = ComputeCapability { major: 8, minor: 0 };

/// The sources compiled for a GPU of this compute capability.
pub fn sources(capability: ComputeCapability) -> Vec<ProbeSource> {
    let architecture = Architecture::from(capability);
    let mut peaks = vec!["empty", "peak_fma", "peak_mma_fp16", "peak_mma_int8"];
    if capability >= AMPERE {
        peaks.extend(["peak_mma_bf16", "peak_mma_tf32"]);
    }
    let bandwidth = vec!["shared_read", "shared_write", "shared_copy", "own_read", "own_write", "own_copy"];
    let mut sources = vec![
        ProbeSource { name: "peak.cu", text: PEAK.to_owned(), architecture, kernels: peaks },
        ProbeSource { name: "bandwidth.cu", text: BANDWIDTH.to_owned(), architecture, kernels: bandwidth },
    ];
    if capability == HOPPER {
        sources.push(ProbeSource {
            name: "wgmma.cu",
            text: format!("{PEAK}{}{WGMMA}", wgmma_functions()),
            architecture: architecture.specific(),
            kernels: vec!["peak_wgmma_fp16", "peak_wgmma_bf16", "peak_wgmma_tf32", "peak_wgmma_int8"],
        });
    }
    sources
}

/// `wgmma` of 256 columns for each type: an operand for each of the 128 sums of a thread is more
/// than anyone wants to write.
fn wgmma_functions() -> String {
    let sums: Vec<String> = (0..128).map(|i| format!("%{i}")).collect();
    let mut text = String::new();
    for (name, instruction, sum, constraint, flags) in [
        ("fp16", "m64n256k16.f32.f16.f16", "float", "f", ", 1, 1, 0, 0"),
        ("bf16", "m64n256k16.f32.bf16.bf16", "float", "f", ", 1, 1, 0, 0"),
        ("tf32", "m64n256k8.f32.tf32.tf32", "float", "f", ", 1, 1"),
        ("int8", "m64n256k32.s32.s8.s8", "int", "r", ""),
    ] {
        let outputs: Vec<String> = (0..128).map(|i| format!("\"+{constraint}\"(d[{i}])")).collect();
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "__device__ __forceinline__ void wgmma_{name}({sum} (&d)[128], u64 a, u64 b) {{\n\
             asm volatile(\"wgmma.mma_async.sync.aligned.{instruction} {{{}}}, %128, %129, 1{flags};\"\n\
             : {} : \"l\"(a), \"l\"(b));\n}}\n",
            sums.join(", "),
            outputs.join(", "),
        );
    }
    text
}

/// The kernels of a GPU.
#[derive(Debug)]
pub(super) struct Kernels {
    context: Context,
    by_name: BTreeMap<&'static str, Kernel>,
    nvrtc: (u32, u32),
}

/// How the registers of a peak are filled: `hash & keep | set`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) keep: u32,
    pub(super) set: u32,
}

/// The repetitions and threads of a peak.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) blocks: u32,
    pub(super) steps: u32,
}

/// Threads of a block of every peak.
pub(super) const PEAK_THREADS: u32 = 256;
/// Units of 16 bytes that a thread moves in a step of a walk.
pub(super) const UNITS_AT_ONCE: u64 = 8;
/// Bytes of a unit.
pub(super) const UNIT: u64 = 16;

/// A walk through a working set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk {
    pub(super) blocks: u32,
    pub(super) threads: u32,
    /// Units of the set, of each block's slice, or of half of it for a copy.
    pub(super) units: u32,
    /// Units that the launch touches in all: those of all slices, and both halves.
    pub(super) touched: u64,
    pub(super) steps: u32,
}

/// Where a peak stores its sums, and the cycles and nanoseconds of its first thread.
#[derive(Debug)]
pub(super) struct Sums {
    sums: Buffer<f32>,
    clock: Buffer<u64>,
}

impl Kernels {
    pub(super) fn load(context: &Context) -> Result<Self, ProbeError> {
        let compiler = Compiler::new()?;
        let mut kernels = BTreeMap::new();
        for source in sources(context.device().compute_capability) {
            let binary = compiler.compile(source.name, &source.text, source.architecture, &[])?;
            let module: Module = context.load(&binary)?;
            for name in source.kernels {
                kernels.insert(name, module.kernel(name)?);
            }
        }
        // All of the memory of a multiprocessor that shared memory and the first-level cache share
        // is for the cache.
        for (name, kernel) in &kernels {
            if name.starts_with("own_") {
                let carveout = flopgap_gpu::cudarc::driver::sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
                kernel.set_attribute(carveout, 0).map_err(GpuError::from)?;
            }
        }
        Ok(Kernels { context: context.clone(), by_name: kernels, nvrtc: compiler.version() })
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    pub(super) fn nvrtc(&self) -> (u32, u32) {
        self.nvrtc
    }

    /// Whether this GPU has the kernel.
    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// A kernel of those that are compiled for this GPU.
    fn kernel(&self, name: &'static str) -> Result<&Kernel, ProbeError> {
        self.by_name
            .get(name)
            .ok_or_else(|| ProbeError::Start { reason: format!("this GPU has no kernel {name}") })
    }

    /// Queues a kernel that does nothing.
    pub(super) fn queue_empty(&self, stream: &Stream) -> Result<(), ProbeError> {
        let kernel = self.kernel("empty")?;
        // SAFETY: it has no arguments.
        Ok(unsafe { Launch::new(1, 32).queue(stream, kernel, Arguments::default()) }?)
    }

    /// Queues a peak.
    pub(super) fn queue_peak(
        &self,
        stream: &Stream,
        name: &'static str,
        extent: Extent,
        pattern: Pattern,
        out: &mut Sums,
    ) -> Result<(), ProbeError> {
        let kernel = self.kernel(name)?;
        let threads = extent.blocks as usize * PEAK_THREADS as usize;
        if out.sums.len() < threads {
            return Err(
                GpuError::Length { what: "sums of a peak", needed: threads, found: out.sums.len() }.into()
            );
        }
        let arguments = Arguments::default()
            .u32(extent.steps)
            .u32(pattern.keep)
            .u32(pattern.set)
            .write(&mut out.sums)
            .write(&mut out.clock);
        // SAFETY: these are the arguments of every kernel `peak_*`. It writes a sum for each
        // thread, for which there is room, and two numbers of the clock.
        Ok(unsafe { Launch::new(extent.blocks, PEAK_THREADS).queue(stream, kernel, arguments) }?)
    }

    /// Queues a walk: `shared_read`, `own_copy`, …
    pub(super) fn queue_walk(
        &self,
        stream: &Stream,
        name: &'static str,
        walk: Walk,
        data: &mut Buffer<u8>,
    ) -> Result<(), ProbeError> {
        let kernel = self.kernel(name)?;
        let (slices, halves) = (
            if name.starts_with("own_") { u64::from(walk.blocks) } else { 1 },
            if name.ends_with("copy") { 2 } else { 1 },
        );
        let units = u64::from(walk.units) * slices * halves;
        let needed = usize::try_from(units * UNIT).unwrap_or(usize::MAX);
        if data.len() < needed || units != walk.touched || walk.units == 0 {
            return Err(GpuError::Length { what: "a working set", needed, found: data.len() }.into());
        }
        let arguments = Arguments::default().write(data).u32(walk.units).u32(walk.steps);
        // SAFETY: these are the arguments of the kernels of `bandwidth.cu`. They touch `units` of
        // 16 bytes, in both halves and all slices where there are such, which the buffer has; the
        // driver aligns buffers to 256 bytes.
        Ok(unsafe { Launch::new(walk.blocks, walk.threads).queue(stream, kernel, arguments) }?)
    }
}

impl Sums {
    /// Room for so many threads.
    pub(super) fn new(stream: &Stream, threads: usize) -> Result<Self, GpuError> {
        Ok(Sums { sums: stream.zeros(threads)?, clock: stream.zeros(2)? })
    }

    /// The sums of all threads of the last peak.
    pub(super) fn download(&self, stream: &Stream) -> Result<Vec<f32>, GpuError> {
        stream.download(&self.sums)
    }

    /// The clock of the last peak in kHz; `None` where its two counters did not advance.
    pub(super) fn clock_khz(&self, stream: &Stream) -> Result<Option<f64>, GpuError> {
        let counted = stream.download(&self.clock)?;
        let (cycles, nanoseconds) = (counted[0], counted[1]);
        Ok((cycles > 0 && nanoseconds > 0).then(|| cycles as f64 / nanoseconds as f64 * 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hopper_alone_has_wgmma_and_turing_neither_bf16_nor_tf32() {
        let kernels = |major, minor| -> Vec<&str> {
            sources(ComputeCapability { major, minor })
                .into_iter()
                .flat_map(|source| source.kernels)
                .collect()
        };
        assert!(kernels(9, 0).contains(&"peak_wgmma_int8"));
        assert!(!kernels(10, 0).contains(&"peak_wgmma_int8") && kernels(10, 0).contains(&"peak_mma_tf32"));
        assert!(!kernels(7, 5).contains(&"peak_mma_bf16") && kernels(7, 5).contains(&"peak_mma_int8"));
    }

    #[test]
    fn an_instruction_of_wgmma_has_an_operand_for_each_sum() {
        let text = wgmma_functions();
        assert_eq!(text.matches("\"+f\"(d[127])").count(), 3);
        assert_eq!(text.matches("\"+r\"(d[127])").count(), 1);
        assert!(text.contains("%127}, %128, %129, 1, 1, 1, 0, 0;"));
        assert!(text.contains("m64n256k32.s32.s8.s8 {%0, %1,") && text.contains("%127}, %128, %129, 1;"));
    }
}
