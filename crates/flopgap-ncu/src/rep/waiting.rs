//! Launches that were read before the names of their metrics.
//!
//! ncu 2023.3 writes a result as soon as it is there and adds what its string table lacked in later
//! blocks, so an index beyond the table is no damage. Only the end of the file proves that a name
//! is missing, and then it is the metric that is lost, not the launch (NVIDIA's reader shows such a
//! metric without a name).

use std::collections::VecDeque;

use super::launch::{Name, Unnamed, properties};
use crate::model::Launch;
use crate::source::Context;
use crate::warning::WarningKind;

/// Metrics that wait at most: about 64 MB. The names follow some blocks later, so this is reached
/// only if they never come.
const MOST_METRICS: usize = 1 << 20;

/// A launch that lacks names, or comes behind one that does.
#[derive(Debug)]
struct Launched {
    launch: Launch,
    unnamed: Vec<Unnamed>,
    /// How long the string table has to be.
    strings: usize,
}

/// Launches in the file's order; the first of them lacks names.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    launches: VecDeque<Launched>,
    metrics: usize,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }

    pub(super) fn push(&mut self, launch: Launch, unnamed: Vec<Unnamed>) {
        self.metrics += weight(&launch);
        let strings = unnamed.iter().map(|metric| metric.index as usize + 1).max().unwrap_or(0);
        self.launches.push_back(Launched { launch, unnamed, strings });
    }

    /// Hands out the first launch if its names are there, or if nothing more comes (`ended`).
    pub(super) fn release(
        &mut self,
        names: &[Name],
        ended: bool,
        context: &mut Context,
        launch: &mut Launch,
    ) -> bool {
        let give_up = ended || self.metrics > MOST_METRICS;
        let is_ready = |first: &mut Launched| give_up || first.strings <= names.len();
        let Some(first) = self.launches.pop_front_if(is_ready) else { return false };
        self.metrics -= weight(&first.launch);
        *launch = first.launch;
        let mut lost = Vec::new();
        for metric in &first.unnamed {
            let place = &mut launch.metrics[metric.place];
            match names.get(metric.index as usize) {
                Some(name) => (place.name, place.unit) = (name.symbol, name.unit),
                None => lost.push(metric),
            }
        }
        if let Some(first) = lost.first() {
            let kind = WarningKind::MetricsUnnamed { launch: launch.position, metrics: lost.len() };
            context.warn(first.at, kind);
            let mut lost = lost.iter().map(|metric| metric.place).peekable();
            let mut place = 0..;
            launch.metrics.retain(|_| lost.next_if_eq(&place.next().unwrap_or_default()).is_none());
        }
        properties(launch, &context.strings);
        true
    }
}

/// A launch without metrics takes room, too.
fn weight(launch: &Launch) -> usize {
    launch.metrics.len() + launch.opcodes.len() + launch.nvtx.len() + 4
}
