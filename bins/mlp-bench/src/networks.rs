//! The requested networks.

use flopgap_cli::{Exit, Failure};
use flopgap_mlp::{Activation, Network, Size};

use crate::unique;

/// Networks and their names: those of the sizes, or, where there are widths, the one that has them.
///
/// # Errors
/// Widths that no network has.
pub(crate) fn networks(
    sizes: &[Size],
    widths: &[usize],
    hidden: Activation,
    output: Activation,
) -> Result<Vec<(String, Network)>, Failure> {
    let mut networks: Vec<(String, Network)> =
        unique(sizes).into_iter().map(|size| (size.to_string(), size.network())).collect();
    if !widths.is_empty() {
        let name: Vec<String> = widths.iter().map(usize::to_string).collect();
        let network = Network::new(widths).map_err(|error| Failure::of(&error).exit(Exit::Usage))?;
        networks = vec![(name.join("-"), network)];
    }
    let dressed = |network: Network| network.with_activation(hidden).with_output_activation(output);
    Ok(networks.into_iter().map(|(name, network)| (name, dressed(network))).collect())
}
