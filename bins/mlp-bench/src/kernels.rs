//! `flopgap bench kernels`: the resources that the kernels use, for any architecture, without a
//! GPU.

use clap::Args;
use flopgap_cli::{Console, Exit, Failure, OutputArgs};
use flopgap_gpu::compile::{Architecture, Compiler};
use flopgap_mlp::cuda::{Implementation, Options, Target, compile_all};
use flopgap_mlp::{Activation, MlpError, Precision, Size};
use flopgap_report::table::{Cell, Column, Table};

use crate::networks::networks;
use crate::{PROGRAM, failed, unique};

/// Arguments of `kernels`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  flopgap bench kernels --impl coopmat --size large --arch sm_80,sm_90")]
pub(crate) struct Arguments {
    /// Architectures
    #[arg(
        long,
        value_name = "ARCH",
        value_delimiter = ',',
        default_value = "sm_75,sm_80,sm_86,sm_89,sm_90,sm_100,sm_120"
    )]
    pub(crate) arch: Vec<String>,
    /// Use the kernels of an older architecture, such as `sm_80`, compiled for those above
    #[arg(long, value_name = "ARCH")]
    pub(crate) arch_plan: Option<Architecture>,
    /// Networks
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "small,medium,large,xlarge")]
    pub(crate) size: Vec<Size>,
    /// Widths of another network from inputs to outputs, such as 32,64,64,8 (multiples of 8 are not
    /// padded)
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',', conflicts_with = "size")]
    pub(crate) widths: Vec<usize>,
    /// Implementations
    #[arg(
        long = "impl",
        value_name = "IMPL",
        value_delimiter = ',',
        default_value = "forloop,coopvec,coopmat"
    )]
    pub(crate) implementation: Vec<Implementation>,
    /// Precision of stored numbers
    #[arg(long, value_name = "PRECISION", value_delimiter = ',', default_value = "fp32,fp16")]
    pub(crate) precision: Vec<Precision>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Compiles and prints a table.
///
/// # Errors
/// Widths and architectures that do not exist; without NVRTC; when no kernel exists for what was
/// asked.
pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    // The default activations of the benchmark.
    let leaky = Activation::LeakyRelu;
    let networks = networks(&arguments.size, &arguments.widths, leaky, leaky)?;
    let architecture = |name: &String| -> Result<(String, Architecture), Failure> {
        match name.parse::<Architecture>() {
            Ok(architecture) => Ok((name.clone(), architecture)),
            Err(error) => Err(Failure::from_error(&error).exit(Exit::Usage)),
        }
    };
    let mut architectures: Vec<_> =
        unique(&arguments.arch).into_iter().map(architecture).collect::<Result<_, _>>()?;
    let compiler = Compiler::new().map_err(|error| Failure::of(&error).exit(Exit::Absent))?;
    // An older NVRTC does not know the newest architectures: the kernels of the others are listed.
    let known = |(_, architecture): &(String, Architecture)| {
        compiler.architectures().contains(&architecture.capability.into())
    };
    let (major, minor) = compiler.version();
    console.detail(format_args!("NVRTC {major}.{minor}"));
    if architectures.iter().any(known) {
        for (name, _) in architectures.extract_if(.., |architecture| !known(architecture)) {
            flopgap_cli::note(
                PROGRAM,
                format!("{name} is skipped: NVRTC {major}.{minor} does not support it"),
            );
        }
    }
    let mut table = Table::new(
        "Registers of a thread, bytes of spills, bytes of shared memory of a block that are known when it is compiled",
        [
            Column::text("impl", "implementation"),
            Column::text("precision", "type"),
            Column::text("size", "network"),
            Column::text("arch", "architecture").rank(0),
            Column::text("kernel", "kernel").rank(0),
            Column::number("registers", "registers").rank(0),
            Column::number("spill_stores", "spill stores").unit("bytes"),
            Column::number("spill_loads", "spill loads").unit("bytes").rank(2),
            Column::number("static_shared", "static shared").unit("bytes").rank(3),
        ],
    )
    .map_err(failed)?;
    let mut any = false;
    for (name, architecture) in &architectures {
        let target = Target::nominal(architecture.capability);
        let plan = arguments.arch_plan.map(|plan| plan.capability);
        if let Some(Err(error)) = plan.map(|plan| target.planned_for(plan)) {
            flopgap_cli::note(PROGRAM, format!("{name} is skipped: {error}"));
            continue;
        }
        for &implementation in unique(&arguments.implementation) {
            for &precision in unique(&arguments.precision) {
                for (size, network) in &networks {
                    let options = Options { plan, ..Options::new(implementation) };
                    let compile = || compile_all(&compiler, network, precision, options, target);
                    let what = format_args!("{implementation} {precision} {size} for {name}: compiled");
                    let logs = match console.timed(what, compile) {
                        Ok(logs) => logs,
                        Err(error @ MlpError::Unsupported { .. }) => {
                            flopgap_cli::note(PROGRAM, format!("{size}: {error}"));
                            continue;
                        }
                        Err(error) => return Err(error.into()),
                    };
                    any = true;
                    for kernel in logs.iter().flat_map(|(_, log)| kernels(log)) {
                        table
                            .push([
                                Cell::text(implementation.name()),
                                Cell::text(precision.name()),
                                Cell::text(size),
                                Cell::text(name),
                                Cell::text(kernel.name),
                                Cell::optional(kernel.registers, Cell::from),
                                Cell::optional(kernel.spill_stores, Cell::from),
                                Cell::optional(kernel.spill_loads, Cell::from),
                                Cell::from(kernel.shared.unwrap_or(0)),
                            ])
                            .map_err(failed)?;
                    }
                }
            }
        }
    }
    if !any {
        return Err(Failure::new("no kernel matches the request").exit(Exit::Absent));
    }
    let output = &arguments.output;
    output.write(console, &table.render(output.format(), &output.text()).map_err(failed)?)
}

/// The assembler's report on a kernel.
#[derive(Debug, Default, PartialEq)]
struct Kernel {
    name: String,
    registers: Option<u64>,
    spill_stores: Option<u64>,
    spill_loads: Option<u64>,
    shared: Option<u64>,
}

/// The kernels of a log of `ptxas -v`.
fn kernels(log: &str) -> Vec<Kernel> {
    let mut kernels: Vec<Kernel> = Vec::new();
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            kernels.push(Kernel { name, ..Kernel::default() });
        }
        let Some(kernel) = kernels.last_mut() else { continue };
        let before = |unit: &str| -> Option<u64> {
            line.split(unit)
                .next()
                .filter(|before| before.len() < line.len())?
                .split(' ')
                .rfind(|word| !word.is_empty())?
                .parse()
                .ok()
        };
        kernel.spill_stores = kernel.spill_stores.or(before(" bytes spill stores"));
        kernel.spill_loads = kernel.spill_loads.or(before(" bytes spill loads"));
        kernel.registers = kernel.registers.or(before(" registers"));
        kernel.shared = kernel.shared.or(before(" bytes smem"));
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_the_assembler_is_read() {
        let log = "ptxas info    : 0 bytes gmem\n\
                   ptxas info    : Compiling entry function 'naive_mlp_backward' for 'sm_89'\n\
                   ptxas info    : Function properties for naive_mlp_backward\n\
                   ptxas         .     1408 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n\
                   ptxas info    : Used 168 registers, used 1 barriers, 1408 bytes cumulative stack size, 4096 bytes smem, 396 bytes cmem[0]\n\
                   ptxas info    : Compiling entry function 'naive_mlp_forward' for 'sm_89'\n\
                   ptxas         .     576 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
                   ptxas info    : Used 79 registers, used 0 barriers, 380 bytes cmem[0]\n";
        let [backward, forward] = &kernels(log)[..] else { panic!() };
        let expected = Kernel {
            name: "naive_mlp_backward".to_owned(),
            registers: Some(168),
            spill_stores: Some(8),
            spill_loads: Some(12),
            shared: Some(4096),
        };
        assert_eq!(*backward, expected);
        assert_eq!((forward.registers, forward.spill_stores, forward.shared), (Some(79), Some(0), None));
    }
}
