//! FAKE counters for tests of what is built on them: launches have the counts that tests give them.

use std::cell::RefCell;
use std::rc::Rc;

use flopgap_gpu::counters::{CounterError, CounterSource, Launch, LaunchCounts, RegionCounts, Regions, Work};

/// The launches so far, each in the region that was open.
#[derive(Debug, Default)]
struct Stream {
    region: Option<String>,
    rows: Vec<LaunchCounts>,
}

/// Counts what networks of this source launch.
#[derive(Debug, Default)]
pub(super) struct Fake {
    stream: Rc<RefCell<Stream>>,
    /// What each measurement expected.
    pub(super) expected: Vec<usize>,
    /// How many launches were counted.
    pub(super) counted: usize,
}

/// Launches kernels.
#[derive(Debug, Clone)]
pub(super) struct Network(Rc<RefCell<Stream>>);

impl Network {
    /// Launches a kernel that executes so many instructions.
    pub(super) fn launch(&mut self, symbol: &str, counts: [u64; 3]) {
        let mut stream = self.0.borrow_mut();
        let region = stream.region.as_deref().map(Into::into);
        let launch = Launch { symbol: symbol.into(), grid: [2, 1, 1], block: [32, 1, 1], shared_bytes: 0 };
        stream.rows.push(LaunchCounts { launch, region, counts: counts.to_vec() });
    }
}

struct Open(Rc<RefCell<Stream>>);

impl Regions for Open {
    fn enter(&mut self, name: &str) -> Result<(), CounterError> {
        self.0.borrow_mut().region = Some(name.to_owned());
        Ok(())
    }

    fn leave(&mut self) -> Result<(), CounterError> {
        self.0.borrow_mut().region = None;
        Ok(())
    }
}

impl Fake {
    pub(super) fn network(&self) -> Network {
        Network(self.stream.clone())
    }
}

impl CounterSource for Fake {
    fn metrics(&self) -> &[String] {
        &[]
    }

    fn passes(&self) -> usize {
        1
    }

    fn per_launch(
        &mut self,
        expected: usize,
        work: &mut Work<'_>,
    ) -> Result<Vec<LaunchCounts>, CounterError> {
        self.expected.push(expected);
        work(&mut Open(self.stream.clone())).map_err(|error| match error.downcast::<CounterError>() {
            Ok(error) => *error,
            Err(error) => CounterError::Work(error),
        })?;
        let rows = std::mem::take(&mut self.stream.borrow_mut().rows);
        self.counted += rows.len();
        Ok(rows)
    }

    fn uncounted(&mut self, work: &mut Work<'_>) -> Result<Vec<LaunchCounts>, CounterError> {
        let counted = self.counted;
        let mut rows = self.per_launch(0, work)?;
        self.counted = counted;
        for row in &mut rows {
            row.counts.clear();
        }
        Ok(rows)
    }

    fn per_region(&mut self, _: usize, _: &mut Work<'_>) -> Result<Vec<RegionCounts>, CounterError> {
        unreachable!("launches are counted")
    }
}
