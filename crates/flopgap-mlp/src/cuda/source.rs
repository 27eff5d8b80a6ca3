//! Kernel sources with the constants of a network before them.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flopgap_gpu::compile::{Architecture, Binary, CompileError, Compiler};
use flopgap_gpu::{ComputeCapability, Context, GpuError, Kernel, Module};
use rayon::prelude::*;

use crate::activation::{cuda_definitions, cuda_name};
use crate::{LEAKY_SLOPE, MlpError, Network, Precision};

use super::files::expand;
use super::options::Accumulate;
use super::target::Target;

/// What every source begins with, after the constants.
const COMMON: &str = "#include \"common.cuh\"";

/// One CUDA C source, written for one network and one architecture: what NVRTC compiles. It may
/// hold several kernels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Source {
    name: String,
    text: String,
    architecture: Architecture,
}

impl Source {
    /// `body` after the constants of the network and what all kernels share. `constants` are
    /// further ones, by name. `plan`: the older compute capability whose kernels these are.
    #[expect(clippy::too_many_arguments, reason = "what a source is made of")]
    pub(super) fn new(
        name: &str,
        body: &str,
        network: &Network,
        precision: Precision,
        accumulate: Accumulate,
        architecture: Architecture,
        plan: Option<ComputeCapability>,
        constants: &[(&str, usize)],
    ) -> Self {
        let mut text = preamble(network, precision, accumulate);
        text.push_str(&define(constants));
        let body = format!("{COMMON}\n#line 1 \"{name}\"\n{body}");
        Self::after(name, &text, &body, architecture, plan)
    }

    /// The kernels in a file, by its path from this folder, that are for no network: they know how
    /// numbers are stored, and these definitions and constants.
    pub(super) fn without_network(
        path: &str,
        definitions: &str,
        precision: Precision,
        target: Target,
        constants: &[(&str, usize)],
    ) -> Self {
        let text = format!("{}{definitions}{}", storage(precision), define(constants));
        let body = format!("#include \"tile/number.cuh\"\n#include \"{path}\"\n");
        Self::after(path, &text, &body, target.architecture(), target.plan())
    }

    fn after(
        name: &str,
        before: &str,
        body: &str,
        architecture: Architecture,
        plan: Option<ComputeCapability>,
    ) -> Self {
        // The compute capability whose code is taken, in the form of __CUDA_ARCH__.
        let capability = match plan {
            Some(ComputeCapability { major, minor }) => format!("{major}{minor}0"),
            None => "__CUDA_ARCH__".to_owned(),
        };
        let text = format!("#define ARCHITECTURE {capability}\n{before}{}", expand(name, body));
        Source { name: name.to_owned(), text, architecture }
    }

    /// The same with further code after it, which has a name of its own in the compiler's messages.
    pub(super) fn followed_by(&self, name: &str, code: &str) -> Self {
        let mut text = self.text.clone();
        let _ = write!(text, "\n#line 1 \"{name}\"\n{code}\n");
        Source { name: name.to_owned(), text, architecture: self.architecture }
    }

    /// The file name, as the compiler's messages have it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text: constants of the network, what all kernels share, the kernels.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it is compiled for: `sm_90a` where a kernel uses instructions of exactly that
    /// architecture.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Machine code, from the compiler's cache if it is there.
    ///
    /// # Errors
    /// When NVRTC refuses.
    pub fn compile(&self, compiler: &Compiler) -> Result<Binary, CompileError> {
        compiler.compile(&self.name, &self.text, self.architecture, &OPTIONS)
    }

    /// Machine code on a device.
    pub(super) fn load(&self, binaries: &Binaries, context: &Context) -> Result<Program, MlpError> {
        let module = match binaries.0.get(self) {
            Some(binary) => context.load(binary)?,
            None => context.load(&self.compile(&Compiler::new()?)?)?,
        };
        Ok(Program { module })
    }
}

/// How far the compiler is with the sources of a model: given after each.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Compiled<'a> {
    /// The source.
    pub source: &'a Source,
    /// Whether its machine code was in the cache.
    pub cached: bool,
    /// How long it took.
    pub elapsed: Duration,
    /// How many sources are done, and how many the model has.
    pub done: usize,
    /// How many sources the model has.
    pub of: usize,
}

/// Machine code by source.
#[derive(Debug, Default)]
pub(super) struct Binaries(HashMap<Source, Binary>);

impl Binaries {
    /// Compiles all sources at once, on the threads of `rayon`'s global pool: NVRTC compiles
    /// several programs side by side. Of equal sources one is compiled. `observe` is called after
    /// each, on the thread that compiled it.
    pub(super) fn compile(
        compiler: &Compiler,
        sources: Vec<Source>,
        observe: &(dyn Fn(Compiled<'_>) + Sync),
    ) -> Result<Self, CompileError> {
        let distinct: HashSet<Source> = sources.into_iter().collect();
        let (of, done) = (distinct.len(), AtomicUsize::new(0));
        let compile = |source: Source| {
            let begin = Instant::now();
            let binary = source.compile(compiler)?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            let (cached, elapsed) = (binary.is_cached(), begin.elapsed());
            observe(Compiled { source: &source, cached, elapsed, done, of });
            Ok((source, binary))
        };
        distinct.into_par_iter().map(compile).collect::<Result<_, _>>().map(Binaries)
    }
}

/// Registers and spills are in the compiler's log. No fast mathematics. Not every kernel needs
/// every constant (warning 177). Generic lambdas are for the device, like all else.
const OPTIONS: [&str; 3] =
    ["--ptxas-options=-v", "--diag-suppress=177", "--device-as-default-execution-space"];

/// Loaded kernels.
#[derive(Debug, Clone)]
pub(super) struct Program {
    module: Module,
}

impl Program {
    /// A kernel that takes this much dynamic shared memory.
    pub(super) fn kernel(&self, name: &str, shared: usize) -> Result<Kernel, GpuError> {
        self.module.kernel_with_shared(name, shared)
    }
}

/// A function of an index in CUDA C that gives these values.
pub(super) fn table(name: &str, values: &[usize]) -> String {
    table_of("int", name, values)
}

/// The same, for values of a type.
pub(super) fn table_of(kind: &str, name: &str, values: &[usize]) -> String {
    let last = values.len() - 1;
    let rest = (0..last)
        .rev()
        .fold(values[last].to_string(), |rest, index| format!("i == {index} ? {} : {rest}", values[index]));
    format!("__device__ constexpr {kind} {name}(int i) {{ return {rest}; }}\n")
}

/// How numbers are stored.
fn storage(precision: Precision) -> String {
    let storage = match precision {
        Precision::F32 => "STORAGE_F32",
        Precision::F16 => "STORAGE_F16",
        Precision::Bf16 => "STORAGE_BF16",
    };
    format!(
        "#define STORAGE_F32 0\n#define STORAGE_F16 1\n#define STORAGE_BF16 2\n#define STORAGE {storage}\n"
    )
}

/// Constants by name.
fn define(constants: &[(&str, usize)]) -> String {
    constants.iter().fold(String::new(), |mut text, (constant, value)| {
        let _ = writeln!(text, "constexpr int {constant} = {value};");
        text
    })
}

/// The constants of a network: its widths, where its parameters lie, its activations and types.
fn preamble(network: &Network, precision: Precision, accumulate: Accumulate) -> String {
    let layers = network.layers();
    let mut text = storage(precision);
    let _ = writeln!(text, "#define ACCUMULATE_F16 {}", u8::from(accumulate == Accumulate::F16));
    let _ = writeln!(text, "constexpr float LEAKY_SLOPE = {LEAKY_SLOPE}f;");
    let _ = writeln!(text, "constexpr int LAYERS = {layers};");
    text.push_str(&cuda_definitions());
    let activations = [("HIDDEN", network.activation(0)), ("OUTPUT", network.activation(layers - 1))];
    for (which, activation) in activations {
        let _ = writeln!(text, "constexpr int {which}_ACTIVATION = {};", cuda_name(activation));
    }
    let _ = writeln!(text, "constexpr int PARAMETERS = {};", network.parameters());
    let widest = network.widths().iter().copied().max().unwrap_or_default();
    let _ = writeln!(text, "constexpr int WIDEST = {widest};");
    // Inputs, hidden layers, outputs; then, for each layer, where its weights and biases begin.
    let weights: Vec<usize> = (0..layers).map(|layer| network.weights(layer).start).collect();
    let biases: Vec<usize> = (0..layers).map(|layer| network.biases(layer).start).collect();
    for (name, values) in [("width", network.widths()), ("weights_at", &weights), ("biases_at", &biases)] {
        text.push_str(&table(name, values));
    }
    text.push_str("constexpr int INPUTS = width(0), OUTPUTS = width(LAYERS);\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activation;

    #[test]
    fn constants_are_those_of_the_network() {
        let network = Network::new(&[64, 128, 16]).unwrap().with_output_activation(Activation::Sigmoid);
        let text = preamble(&network, Precision::Bf16, Accumulate::F32);
        assert!(text.contains("#define STORAGE STORAGE_BF16\n"));
        assert!(text.contains("int width(int i) { return i == 0 ? 64 : i == 1 ? 128 : 16; }"));
        assert!(text.contains("int biases_at(int i) { return i == 0 ? 8192 : 10368; }"));
        assert!(text.contains(
            "constexpr int HIDDEN_ACTIVATION = LEAKY_RELU;\nconstexpr int OUTPUT_ACTIVATION = SIGMOID;\n"
        ));
    }
}
