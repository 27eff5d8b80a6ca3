//! Which implementation serves a request.

use flopgap_gpu::Context;
use flopgap_gpu::compile::Compiler;

use crate::MlpError;
use crate::dense::{Network, Precision};

use super::kernels::Kernels;
use super::options::{Accumulate, Implementation, Options};
use super::request::{Request, Target};
use super::source::Source;
use super::{coopmat, coopvec, forloop, naive};

/// Refuses what no implementation has.
fn check(request: &Request<'_>) -> Result<(), MlpError> {
    if request.options.accumulate == Accumulate::F16 && request.precision != Precision::F16 {
        return Err(request.unsupported("sums in 16 bits are there for fp16 alone"));
    }
    Ok(())
}

/// The sources of the kernels, without a device.
fn sources(request: &Request<'_>) -> Result<Vec<Source>, MlpError> {
    check(request)?;
    match request.options.implementation {
        Implementation::Naive => naive::sources(request),
        Implementation::Forloop => forloop::sources(request),
        Implementation::Coopvec => coopvec::sources(request),
        Implementation::Coopmat => coopmat::sources(request),
    }
}

/// The kernels, on a device.
pub(super) fn load(
    request: &Request<'_>,
    compiler: &Compiler,
    context: &Context,
) -> Result<Kernels, MlpError> {
    check(request)?;
    match request.options.implementation {
        Implementation::Naive => naive::load(request, compiler, context),
        Implementation::Forloop => forloop::load(request, compiler, context),
        Implementation::Coopvec => coopvec::load(request, compiler, context),
        Implementation::Coopmat => coopmat::load(request, compiler, context),
    }
}

/// Compiles the kernels of a network for a device that need not be here, and returns the name and the compiler's log (registers, spills) of
/// every source.
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
    let sources = sources(&Request { network, precision, options, target })?;
    let log = |source: &Source| Ok((source.name().to_owned(), source.compile(compiler)?.log().to_owned()));
    sources.iter().map(log).collect()
}
