//! Which implementation serves a request.

use flopgap_gpu::Context;
use flopgap_gpu::compile::Compiler;
use rayon::prelude::*;

use crate::{MlpError, Network, Precision};

use super::kernels::Kernels;
use super::options::{Accumulate, Implementation, Options};
use super::request::Request;
use super::source::{Binaries, Compiled, Source};
use super::target::Target;
use super::{choice, coopmat, coopvec, forloop, naive, padding};

/// Refuses what no implementation has.
fn check(request: &Request<'_>) -> Result<(), MlpError> {
    if request.options.accumulate == Accumulate::F16 && request.precision != Precision::F16 {
        return Err(request.unsupported("sums in 16 bits are there for fp16 alone"));
    }
    Ok(())
}

/// The sources of the kernels of a network, for a device that need not be here. Several kernels may
/// share one; none depends on another.
///
/// # Errors
/// [`MlpError::Unsupported`]; [`MlpError::Widths`] where they suit a CPU alone.
pub fn sources(
    network: &Network,
    precision: Precision,
    options: Options,
    target: Target,
) -> Result<Vec<Source>, MlpError> {
    let padded = network.for_kernels()?;
    let request = resolve(Request { network: &padded, precision, options, target: options.target(target)? })?;
    let mut sources = sources_of(&request)?;
    sources.extend(padding::source(network, &request));
    Ok(sources)
}

/// The request with the implementation that [`Implementation::Auto`] stands for, and the sums that
/// its kernels have.
///
/// # Errors
/// [`MlpError::Unsupported`] when there is none.
pub(super) fn resolve(request: Request<'_>) -> Result<Request<'_>, MlpError> {
    check(&request)?;
    let Request { mut options, precision, target, .. } = request;
    if !target.has_16_bit_sums() {
        options.accumulate = Accumulate::F32;
    }
    let supports = |options| sources_of(&Request { options, ..request }).map(drop);
    let options = choice::resolve(options, precision, supports, |reason| request.unsupported(reason))?;
    Ok(Request { options, ..request })
}

fn sources_of(request: &Request<'_>) -> Result<Vec<Source>, MlpError> {
    match request.options.implementation {
        Implementation::Naive => naive::sources(request),
        Implementation::Forloop => forloop::sources(request),
        Implementation::Coopvec => coopvec::sources(request),
        Implementation::Coopmat => coopmat::sources(request),
        Implementation::Auto => sources_of(&resolve(*request)?),
    }
}

/// The kernels, on a device, and what else was compiled for the caller's network `own`. All sources
/// are compiled at once, and `observe` is called after each.
pub(super) fn load(
    own: &Network,
    request: &Request<'_>,
    compiler: &Compiler,
    context: &Context,
    observe: &(dyn Fn(Compiled<'_>) + Sync),
) -> Result<(Kernels, Binaries), MlpError> {
    let request = &resolve(*request)?;
    let mut sources = sources_of(request)?;
    sources.extend(padding::source(own, request));
    let binaries = Binaries::compile(compiler, sources, observe)?;
    let kernels = match request.options.implementation {
        Implementation::Naive => naive::load(request, &binaries, context),
        Implementation::Forloop => forloop::load(request, &binaries, context),
        Implementation::Coopvec => coopvec::load(request, &binaries, context),
        Implementation::Coopmat => coopmat::load(request, &binaries, context),
        Implementation::Auto => Err(request.unsupported("no implementation was chosen")),
    };
    Ok((kernels?, binaries))
}

/// Compiles the kernels of a network for a device that need not be here, all at once, and returns
/// the name and the compiler's log (registers, spills) of every source.
///
/// # Errors
/// [`MlpError::Unsupported`]; when NVRTC is missing or refuses.
pub fn compile_all(
    compiler: &Compiler,
    network: &Network,
    precision: Precision,
    options: Options,
    target: Target,
) -> Result<Vec<(String, String)>, MlpError> {
    let sources = sources(network, precision, options, target)?;
    let log = |source: &Source| Ok((source.name().to_owned(), source.compile(compiler)?.log().to_owned()));
    sources.par_iter().map(log).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activation;

    #[test]
    fn networks_for_the_cpu_alone_are_refused() {
        let target = Target::nominal(flopgap_gpu::ComputeCapability { major: 8, minor: 0 });
        for implementation in
            [Implementation::Naive, Implementation::Forloop, Implementation::Coopvec, Implementation::Coopmat]
        {
            let sources = |network: Network| {
                sources(&network, Precision::F32, Options::new(implementation), target).map(|_| ())
            };
            let error = sources(Network::of_any_widths(&[8, 20_000, 8]).unwrap()).unwrap_err();
            assert!(error.to_string().contains("number 2 is 20000"), "{error}");
            assert_eq!(sources(Network::of_any_widths(&[8, 16, 8]).unwrap()), Ok(()));
            assert_eq!(sources(Network::of_any_widths(&[3, 12, 8]).unwrap()), Ok(()));
        }
    }

    /// An activation that is forgotten in `common.cuh` would be compiled to the code of another
    /// one. (The first attempt stands for all: they share that file, and the compiler gives some of
    /// the others other bits for the same source.)
    #[test]
    fn each_activation_has_code_of_its_own() {
        let compiler = match Compiler::without_cache() {
            Ok(compiler) => compiler,
            Err(error) => return flopgap_testing::skip("nvrtc", error),
        };
        let capability = flopgap_gpu::ComputeCapability { major: 8, minor: 0 };
        let code = |activation| {
            let network = Network::new(&[8, 8, 8]).unwrap().with_activation(activation);
            let request = Request {
                network: &network.with_output_activation(Activation::Identity),
                precision: Precision::F32,
                options: Options::new(Implementation::Naive),
                target: Target::nominal(capability),
            };
            let [source] = &sources_of(&request).unwrap()[..] else { panic!("one source") };
            source.compile(&compiler).unwrap().image().to_vec()
        };
        let all = Activation::ALL.map(|activation| (activation, code(activation)));
        assert!(all[0].1 == code(all[0].0), "the same source, the same code");
        for (index, (first, code)) in all.iter().enumerate() {
            for (second, other) in &all[index + 1..] {
                assert!(code != other, "{first} is {second}");
            }
        }
    }
}
