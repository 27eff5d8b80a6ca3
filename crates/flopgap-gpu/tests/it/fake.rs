//! The trait `CounterSource` without a GPU: a fake source, as code that is built on counters tests
//! itself with.

use flopgap_gpu::counters::{CounterError, CounterSource, Launch, LaunchCounts, RegionCounts, Regions, Work};

/// Returns the same count for every region that the work enters, and runs the work as often as it
/// says it has passes.
struct FakeCounters {
    metrics: Vec<String>,
    passes: usize,
}

#[derive(Default)]
struct Entered {
    open: usize,
    names: Vec<String>,
}

impl Regions for Entered {
    fn enter(&mut self, name: &str) -> Result<(), CounterError> {
        self.open += 1;
        self.names.push(name.to_owned());
        Ok(())
    }

    fn leave(&mut self) -> Result<(), CounterError> {
        let none = || CounterError::NoRegion { what: "no region to leave".to_owned() };
        self.open = self.open.checked_sub(1).ok_or_else(none)?;
        Ok(())
    }
}

impl FakeCounters {
    fn run(&self, work: &mut Work<'_>) -> Result<Vec<String>, CounterError> {
        let mut names = Vec::new();
        for _ in 0..self.passes {
            let mut entered = Entered::default();
            work(&mut entered).map_err(CounterError::Work)?;
            names = entered.names;
        }
        Ok(names)
    }
}

impl CounterSource for FakeCounters {
    fn metrics(&self) -> &[String] {
        &self.metrics
    }

    fn passes(&self) -> usize {
        self.passes
    }

    fn per_launch(&mut self, _: usize, work: &mut Work<'_>) -> Result<Vec<LaunchCounts>, CounterError> {
        let names = self.run(work)?;
        let rows = names.into_iter().map(|name| LaunchCounts {
            launch: Launch { symbol: "fake".into(), grid: [1; 3], block: [1; 3], shared_bytes: 0 },
            region: Some(name.into()),
            counts: vec![1; self.metrics.len()],
        });
        Ok(rows.collect())
    }

    fn uncounted(&mut self, work: &mut Work<'_>) -> Result<Vec<LaunchCounts>, CounterError> {
        let mut rows = self.per_launch(0, work)?;
        for row in &mut rows {
            row.counts.clear();
        }
        Ok(rows)
    }

    fn per_region(&mut self, _: usize, work: &mut Work<'_>) -> Result<Vec<RegionCounts>, CounterError> {
        let rows = self.run(work)?.into_iter().map(|name| RegionCounts {
            region: name.into(),
            launches: Vec::new(),
            graphs: 0,
            counts: vec![1; self.metrics.len()],
        });
        Ok(rows.collect())
    }
}

#[test]
fn a_source_can_be_replaced_and_used_as_an_object() {
    let mut fake = FakeCounters { metrics: vec!["ffma.sum".to_owned()], passes: 3 };
    let source: &mut dyn CounterSource = &mut fake;
    let mut runs = 0;
    let rows = source
        .per_launch(10, &mut |regions| {
            runs += 1;
            regions.within("forward", |_| Ok(()))
        })
        .unwrap();
    assert_eq!((runs, rows.len()), (3, 1));
    assert_eq!(rows[0].region.as_deref(), Some("forward"));
}

#[test]
fn the_error_of_the_work_comes_back_whole() {
    let mut fake = FakeCounters { metrics: Vec::new(), passes: 1 };
    let error = fake.per_region(1, &mut |_| Err("the weights are gone".into())).unwrap_err();
    assert!(matches!(error, CounterError::Work(_)));
    assert_eq!(error.to_string(), "the weights are gone");
}
