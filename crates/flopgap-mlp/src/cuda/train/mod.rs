//! Training on a GPU: the loss and the optimizer around the passes of a [`Model`](super::Model).
//! Everything can be captured in a graph.

mod adamw;
mod array;
mod loss;

use crate::{Network, Precision};

use super::options::{Implementation, Options};
use super::request::Request;
use super::source::Source;
use super::target::Target;

pub use adamw::AdamW;
pub use array::ArrayAdamW;
pub use loss::MeanSquaredError;

/// Threads of every block.
const THREADS: u32 = 256;

/// The sources. The implementation of the passes plays no part.
fn request(network: &Network, precision: Precision, target: Target) -> Request<'_> {
    Request { network, precision, options: Options::new(Implementation::Naive), target }
}

fn adamw_source(precision: Precision, target: Target) -> Source {
    Source::without_network("train/adamw.cu", "", precision, target, &[])
}

fn loss_source(request: &Request<'_>, columns: usize) -> Source {
    let constants = [("THREADS", THREADS as usize), ("COLUMNS", columns)];
    request.kernel("train/loss.cu", "", &constants)
}

/// The sources of loss and optimizer, for a device that need not be here.
pub fn sources(network: &Network, precision: Precision, target: Target) -> Vec<Source> {
    let request = request(network, precision, target);
    vec![adamw_source(precision, target), loss_source(&request, network.outputs())]
}
