//! Launches that were read before the names of their metrics.
//!
//! ncu 2023.3 writes a result as soon as it is there and adds what its string table lacked in later
//! blocks, so an index beyond the table is not damage. Only the end of the file proves that a name
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
    launch.metrics.len() + launch.opcodes.len() + launch.modified_opcodes.len() + launch.nvtx.len() + 4
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::tests::{read, read_well};
    use super::super::writer::{Block, Proto, file, kernel, metric};
    use crate::model::Value;

    /// ncu 2023.3 writes a result first and adds the names that it lacked in blocks of their own.
    #[test]
    fn names_may_come_behind_the_results_that_use_them() {
        let number = |value| Proto::default().number(5, value);
        let device = kernel("first")
            .message(13, &metric(0, &number(5)))
            .message(13, &metric(2, &number(7)))
            .message(13, &metric(1, &number(3)));
        let block = |strings, kernels| Block { strings, kernels, ..Block::default() };
        let blocks = [
            block(vec!["dram__bytes.sum"], vec![device]),
            block(vec![], vec![kernel("second").message(13, &metric(0, &number(9)))]),
            block(vec!["launch__device_id"], vec![]),
            block(vec!["gpu__time_duration.sum"], vec![]),
            block(vec![], vec![kernel("third").message(13, &metric(2, &number(8)))]),
        ];
        let outcome = read_well(&file(7, &blocks));
        assert_eq!(outcome.names(), ["first", "second", "third"]);
        let metrics = |launch: usize| {
            let metrics = outcome.launches[launch].metrics.iter();
            let metrics =
                metrics.map(|metric| (outcome.text(metric.name), outcome.text(metric.unit), metric.value));
            metrics.collect::<Vec<_>>()
        };
        let first = [
            ("dram__bytes.sum", "byte", Value::U64(5)),
            ("gpu__time_duration.sum", "ns", Value::U64(7)),
            ("launch__device_id", "", Value::U64(3)),
        ];
        assert_eq!(metrics(0), first);
        assert_eq!(metrics(1), [("dram__bytes.sum", "byte", Value::U64(9))]);
        assert_eq!(metrics(2), [("gpu__time_duration.sum", "ns", Value::U64(8))]);
        let devices: Vec<_> = outcome.launches.iter().map(|launch| launch.device).collect();
        assert_eq!(devices, [Some(3), None, None]);
    }

    #[test]
    fn a_metric_that_is_never_named_is_lost_and_its_launch_is_not() {
        let number = |value| Proto::default().number(5, value);
        let result = kernel("k")
            .message(13, &metric(0, &number(1)))
            .message(13, &metric(9, &number(2)))
            .message(13, &metric(1, &number(3)))
            .message(13, &metric(8, &number(4)));
        let kernels = vec![result, kernel("l").message(13, &metric(1, &number(5)))];
        let outcome = read(&file(7, &[Block { strings: vec!["a", "b"], kernels, ..Block::default() }])[..]);
        assert!(outcome.error.is_none());
        assert_eq!(outcome.names(), ["k", "l"]);
        let metrics = outcome.launches.iter().flat_map(|launch| &launch.metrics);
        let metrics: Vec<_> = metrics.map(|metric| (outcome.text(metric.name), metric.value)).collect();
        assert_eq!(metrics, [("a", Value::U64(1)), ("b", Value::U64(3)), ("b", Value::U64(5))]);
        let warnings = outcome.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("2 metrics of launch 0 have no name"), "{warnings:?}");
        assert!(outcome.context.lost_at.is_some());
    }

    /// Launches do not pile up behind one whose names never come.
    #[test]
    fn few_launches_wait_for_names() {
        let number = |value| Proto::default().number(5, value);
        let first = kernel("k").message(13, &metric(7, &number(1)));
        let many =
            (0..100_000).fold(kernel("k"), |result, value| result.message(13, &metric(0, &number(value))));
        let block = |kernels, strings| Block { strings, kernels, ..Block::default() };
        let blocks =
            [block(vec![first], vec!["a"]), block(vec![many; 12], vec![]), block(vec![], vec!["b"; 9])];
        let outcome = read(&file(7, &blocks)[..]);
        assert_eq!((outcome.launches.len(), outcome.launches[0].metrics.len()), (13, 0));
        assert_eq!(outcome.warnings().len(), 1, "{:?}", outcome.warnings());
    }

    /// Of the second, NVIDIA's reader says: 5 launches and 87,136 ns.
    #[test]
    fn reports_of_ncu_2023_3_are_not_damaged() {
        let Some(corpus) = std::env::var_os("FLOPGAP_CORPUS") else {
            return flopgap_testing::skip("corpus", "FLOPGAP_CORPUS is not set");
        };
        let path = |name| PathBuf::from(&corpus).join("ncu").join(name);
        for (name, launches, time) in
            [("ncu2023_3_lammps.ncu-rep", 1, "6133792.0"), ("ncu2023_3_sglang.ncu-rep.zst", 5, "87136.0")]
        {
            let report = crate::read(path(name)).unwrap();
            assert_eq!((report.warnings.len(), report.lost_at), (0, None), "{name}");
            assert_eq!(report.launches.len(), launches, "{name}");
            let duration = report.strings.find("gpu__time_duration.sum").unwrap();
            let times = report.launches.iter().filter_map(|launch| launch.metric(duration)?.value.as_f64());
            assert_eq!(format!("{:?}", times.sum::<f64>()), time, "{name}");
            let late = ["lts__gcomp_input_sectors.sum", "nvlrx__bytes.sum.per_second"];
            for metric in late {
                assert!(
                    report.launches[0].metric(report.strings.find(metric).unwrap()).is_some(),
                    "{metric}"
                );
            }
            let opcodes = report.launches[0].opcodes.iter();
            let total =
                report.launches[0].metric(report.strings.find("sass__inst_executed_per_opcode").unwrap());
            let sum: u64 = opcodes.map(|opcode| opcode.count).sum();
            assert_eq!(total.and_then(|total| total.value.as_f64()), Some(sum as f64), "{name}");
        }
    }
}
