//! What communication says.

use flopgap_timings::communication::Communication;

use super::{percent, spread, time};

/// How much of the communication is exposed, and which place computes and communicates longest.
pub fn communication(found: &Communication) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(spread_of) = found.spread(|own| own.computation_ns) {
        said.push(format!("Of the time of kernels that compute, {}.", spread(&spread_of)));
    }
    let worst =
        found.places.iter().filter(|own| own.communication_kernels > 0).max_by_key(|own| own.exposed_ns);
    if let Some(own) = worst {
        let share = own.exposed_ns as f64 / own.extent_ns.max(1) as f64;
        let hidden = own.hidden().map(|share| format!(", {} of it hidden by other kernels", percent(share)));
        said.push(format!(
            "Communication takes {} on {}{}: {} of it is exposed, {} of the time from the first operation to the last.",
            time(own.communication_ns as f64),
            own.place,
            hidden.unwrap_or_default(),
            time(own.exposed_ns as f64),
            percent(share)
        ));
        // The last to arrive waits for nobody.
        if let (Some(compute), Some(wait)) =
            (found.spread(|own| own.computation_ns), found.spread(|own| own.communication_ns))
            && compute.slowest != wait.slowest
            && compute.max_ns > compute.min_ns * 1.02
        {
            said.push(format!(
                "{} computes longest and {} communicates longest: the others may wait for the former.",
                super::upper_first(&compute.slowest.to_string()),
                wait.slowest
            ));
        }
    }
    said
}
