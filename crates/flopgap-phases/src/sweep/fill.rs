//! Measures what is missing. One thread for each device takes configurations from a shared queue;
//! the calling thread writes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::Strictness;
use flopgap_files::chain;
use flopgap_kernels::Classifier;

use crate::sweep::{Backend, Config, MeterError, Record, RunError, Session};

/// The outcome of one configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Its record was written.
    Done(Config),
    /// It does not fit into memory, with the sizes.
    Skipped(Config, &'a MeterError),
    /// It could not be measured, with what happened.
    Failed(Config, &'a MeterError),
}

/// What a process added to a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filled {
    /// How many configurations were measured.
    pub done: usize,
    /// Those that do not fit into memory, with the sizes. They are tried again when the run is
    /// resumed.
    pub skipped: Vec<(Config, MeterError)>,
    /// Those that could not be measured, with what happened. They are tried again when the run is
    /// resumed.
    pub failed: Vec<(Config, MeterError)>,
    /// How many nobody came to, because the process was asked to stop.
    pub left: usize,
}

/// How one configuration ended on one device.
struct Outcome {
    device: u32,
    /// Absent when the device could not be opened.
    config: Option<Config>,
    result: Result<Record, MeterError>,
}

impl Session {
    /// Measures configurations, each on the first free device, and writes each record as soon as it
    /// is complete. `watch` is called for every configuration, on this thread. Once `stop`
    /// is set, measurements in progress are completed and no new one starts.
    ///
    /// # Errors
    /// [`RunError::Device`] when a device is lost or missing, [`RunError::Write`] when the disk is
    /// full or read-only. Measurements that were complete, or running on other devices when one was
    /// lost, are kept.
    pub fn fill(
        &mut self,
        backend: &dyn Backend,
        configs: &[Config],
        stop: &AtomicBool,
        mut watch: impl FnMut(Event<'_>),
    ) -> Result<Filled, RunError> {
        let devices = self.worker().devices.clone();
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            // A small buffer, so that no device waits while a record is written.
            let (sender, outcomes) = sync_channel(4 * devices.len());
            for device in devices {
                let sender = sender.clone();
                let queue = Queue { configs, next: &next, stop: [stop, &failed] };
                scope.spawn(move || work(backend, device, &queue, &sender));
            }
            drop(sender);
            let mut filled = Filled::default();
            let mut lost = None;
            for outcome in outcomes {
                if let Err(error) = self.take(outcome, &mut filled, &mut watch) {
                    failed.store(true, Ordering::Relaxed);
                    if !matches!(error, RunError::Device { .. }) {
                        return Err(error); // what cannot be written is not waited for
                    }
                    lost.get_or_insert(error);
                }
            }
            filled.left = configs.len() - filled.done - filled.skipped.len() - filled.failed.len();
            lost.map_or(Ok(filled), Err)
        })
    }

    /// Writes the outcome of one configuration.
    fn take(
        &self,
        outcome: Outcome,
        filled: &mut Filled,
        watch: &mut impl FnMut(Event<'_>),
    ) -> Result<(), RunError> {
        let Outcome { device, config, result } = outcome;
        match (result, config) {
            (Ok(record), _) => {
                let config = record.config();
                record.write(&self.record_path(config))?;
                filled.done += 1;
                watch(Event::Done(config));
            }
            (Err(error @ MeterError::DoesNotFit { .. }), Some(config)) => {
                watch(Event::Skipped(config, &error));
                filled.skipped.push((config, error));
            }
            (Err(error @ MeterError::Failed { .. }), Some(config)) => {
                watch(Event::Failed(config, &error));
                filled.failed.push((config, error));
            }
            (Err(error), _) => return Err(RunError::Device { device, error }),
        }
        Ok(())
    }
}

/// The remaining work, shared by the devices.
struct Queue<'a> {
    configs: &'a [Config],
    next: &'a AtomicUsize,
    /// Each ends the work when it is set.
    stop: [&'a AtomicBool; 2],
}

impl Queue<'_> {
    fn pull(&self) -> Option<Config> {
        if self.stop.iter().any(|stop| stop.load(Ordering::Relaxed)) {
            return None;
        }
        self.configs.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }
}

/// One device's thread. Ends when no work is left, the device is lost, or the receiver has gone.
fn work(backend: &dyn Backend, device: u32, queue: &Queue<'_>, sender: &SyncSender<Outcome>) {
    // A panic inside a library must not lose the others' work.
    let worked = catch_unwind(AssertUnwindSafe(|| -> Result<(), MeterError> {
        let mut meter = backend.open(device)?;
        let classifier = Classifier::new();
        while let Some(config) = queue.pull() {
            let result = meter.measure(config).and_then(|record| match record.config() {
                // A record that lacks launches must not be stored: the configuration would never be
                // measured again.
                counted if counted == config => {
                    match record.analyze(Path::new("live counters"), &classifier, Strictness::Strict) {
                        Ok(_) => Ok(record),
                        Err(error) => Err(MeterError::Failed { message: chain(&error).to_string() }),
                    }
                }
                counted => Err(MeterError::Failed { message: format!("{counted} was measured instead") }),
            });
            let last = matches!(result, Err(MeterError::Lost { .. } | MeterError::Unavailable { .. }));
            let outcome = Outcome { device, config: Some(config), result };
            if sender.send(outcome).is_err() || last {
                break;
            }
        }
        Ok(())
    }));
    let error = match worked {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(_) => MeterError::Lost { message: "the thread that counts on it panicked".to_owned() },
    };
    let _ = sender.send(Outcome { device, config: None, result: Err(error) });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::sync::{Arc, Barrier};

    use flopgap_files::Hint as _;

    use super::*;
    use crate::Phase;
    use crate::sweep::{Grid, Meter, Origin, Quantity, Shard, Worker};

    /// FAKE counters: the function determines the outcome of each configuration.
    struct Fake<'a>(&'a Act<'a>);

    type Act<'a> = dyn Fn(u32, Config) -> Result<(), MeterError> + Sync + 'a;

    impl Backend for Fake<'_> {
        fn origin(&self, device: u32) -> Result<Origin, MeterError> {
            let name = if device < 8 { "FAKE" } else { "another FAKE" };
            Ok(Origin { device: Some(name.to_owned()), ..Origin::default() })
        }

        fn open(&self, device: u32) -> Result<Box<dyn Meter + '_>, MeterError> {
            Ok(Box::new(FakeDevice { device, act: self.0 }))
        }
    }

    struct FakeDevice<'a> {
        device: u32,
        act: &'a Act<'a>,
    }

    impl Meter for FakeDevice<'_> {
        fn measure(&mut self, config: Config) -> Result<Record, MeterError> {
            (self.act)(self.device, config)?;
            let Config { n, d, m } = config;
            let mut record = Record::new(config, &Quantity::FP32);
            for (phase, products) in [(Phase::Forward, n), (Phase::Backward, 2 * n - 1)] {
                for _ in 0..products {
                    record.push(phase, "gemm", [1; 3], [1; 3], &[0, 0, d * d * m]);
                    record.push(phase, "sigmoid", [1; 3], [1; 3], &[d * m, 0, 0]);
                }
            }
            Ok(record)
        }
    }

    fn grid(n: u64) -> Grid {
        Grid { n: (1..=n).collect(), d: vec![8], m: vec![4] }
    }

    fn fill(
        run: &Path,
        devices: &[u32],
        n: u64,
        act: impl Fn(u32, Config) -> Result<(), MeterError> + Sync,
    ) -> Result<Filled, RunError> {
        let backend = Fake(&act);
        let worker = Worker::new(&backend, "fake", devices, Shard::WHOLE)?;
        let mut session = Session::create(run, &grid(n), worker)?;
        let configs = session.outstanding(&grid(n).configs().collect())?.configs;
        session.fill(&backend, &configs, &AtomicBool::new(false), |_| {})
    }

    #[test]
    fn asked_to_stop_it_finishes_what_it_measures() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let stop = AtomicBool::new(false);
        let backend = Fake(&|_, config| {
            stop.store(config.n == 3, Ordering::Relaxed);
            Ok(())
        });
        let worker = Worker::new(&backend, "fake", &[0], Shard::WHOLE).unwrap();
        let mut session = Session::create(&run, &grid(8), worker).unwrap();
        let configs: Vec<Config> = grid(8).configs().collect();
        let filled = session.fill(&backend, &configs, &stop, |_| {}).unwrap();
        assert_eq!(filled, Filled { done: 3, left: 5, ..Filled::default() });
        assert_eq!(records(&run), (1..=3).collect());
    }

    fn records(run: &Path) -> BTreeSet<u64> {
        crate::sweep::RawFiles::list(&run.join("raw"))
            .unwrap()
            .configs
            .keys()
            .map(|config| config.n)
            .collect()
    }

    #[test]
    fn every_device_takes_part() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        // Three devices wait for each other twice: one thread alone would wait forever.
        let barrier = Arc::new(Barrier::new(3));
        let by_device: [AtomicUsize; 6] = Default::default();
        let filled = fill(&run, &[0, 3, 5], 6, |device, _| {
            by_device[device as usize].fetch_add(1, Ordering::Relaxed);
            barrier.wait();
            Ok(())
        });
        assert_eq!(filled.unwrap(), Filled { done: 6, ..Filled::default() });
        assert_eq!(by_device.map(AtomicUsize::into_inner), [2, 0, 0, 2, 0, 2]);
    }

    #[test]
    fn a_lost_device_stops_the_run_and_what_others_were_measuring_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let (both, first) = (Barrier::new(2), AtomicBool::new(true));
        let error = fill(&run, &[0, 1], 50, |device, _| {
            if device == 0 {
                both.wait();
                return Err(MeterError::Lost { message: "gone".to_owned() });
            }
            if first.swap(false, Ordering::Relaxed) {
                both.wait(); // so that the one is measuring when the other is lost
            }
            Ok(())
        });
        assert_eq!(chain(&error.unwrap_err()).to_string(), "counting on device 0 failed: gone");
        let kept = records(&run).len();
        assert!((1..50).contains(&kept), "{kept} records");
    }

    #[test]
    fn what_fails_alone_costs_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let filled = fill(&run, &[0], 5, |_, config| match config.n {
            2 => Err(MeterError::Failed { message: "no kernel".to_owned() }),
            4 => Err(MeterError::DoesNotFit { needed: 9, available: 8 }),
            _ => Ok(()),
        })
        .unwrap();
        let config = |n| Config { n, d: 8, m: 4 };
        assert_eq!(filled.failed, [(config(2), MeterError::Failed { message: "no kernel".to_owned() })]);
        assert_eq!(filled.skipped, [(config(4), MeterError::DoesNotFit { needed: 9, available: 8 })]);
        assert_eq!(records(&run), BTreeSet::from([1, 3, 5]));
        let analysis = crate::sweep::analyze(&run, Strictness::Strict, |_, _| {}).unwrap();
        let problems: Vec<String> =
            analysis.problems.iter().map(|problem| problem.kind.to_string()).collect();
        assert_eq!(problems, ["not measured yet", "not measured yet"]);
    }

    #[test]
    fn a_panic_is_a_lost_device() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let error = fill(&run, &[0], 3, |_, config| {
            assert!(config.n < 2, "a bug of a library");
            Ok(())
        });
        let error = chain(&error.unwrap_err()).to_string();
        assert_eq!(error, "counting on device 0 failed: the thread that counts on it panicked");
        assert_eq!(records(&run), BTreeSet::from([1]));
    }

    #[test]
    fn unlike_devices_share_no_run() {
        let dir = tempfile::tempdir().unwrap();
        let error = fill(&dir.path().join("run"), &[0, 9], 3, |_, _| Ok(()));
        assert_eq!(
            error.unwrap_err().to_string(),
            "devices 0 and 9 differ in their device: `FAKE` and `another FAKE`"
        );
        assert!(!dir.path().join("run").exists());
    }

    /// A link is what it leads to; one that leads nowhere is refused, and so is a file.
    #[cfg(unix)]
    #[test]
    fn a_run_is_not_created_where_something_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let link = |name: &str, target: &str| std::os::unix::fs::symlink(path(target), path(name)).unwrap();
        let create = |name: &str| fill(&path(name), &[0], 2, |_, _| Ok(()));
        create("run").unwrap();
        fs::create_dir(path("empty")).unwrap();
        fs::write(path("file"), "x").unwrap();
        for (name, target) in
            [("to run", "run"), ("to nothing", "nothing"), ("circle", "circle"), ("to empty", "empty")]
        {
            link(name, target);
        }
        for (name, hint) in [
            ("run", "resume the run"),
            ("to run", "resume the run"),
            ("file", "a file has this name"),
            ("file/below", "a file has this name"),
            ("to nothing", "the path is a link that leads nowhere"),
            ("circle", "the path is a link that leads nowhere"),
        ] {
            let error = create(name).unwrap_err();
            assert!(
                error.hint().is_some_and(|found| found.starts_with(hint)),
                "{name}: {error} {:?}",
                error.hint()
            );
            assert!(error.to_string().contains(name), "{error}");
        }
        assert!(!path("nothing").exists());
        create("to empty").unwrap();
        assert!(path("empty/manifest.json").exists());
    }

    #[test]
    fn several_workers_join_one_run_and_a_second_one_learns_who_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let backend = Fake(&|_, _| Ok(()));
        let worker = |shard: &str| Worker::new(&backend, "fake", &[0], shard.parse().unwrap()).unwrap();
        let first = Session::create(&run, &grid(4), worker("1/2")).unwrap();
        let second = Session::create(&run, &grid(4), worker("2/2")).unwrap();
        let message = |result: Result<Session, RunError>| result.unwrap_err().to_string();
        let holder = format!("process {} on ", std::process::id());
        for overlapping in ["1/2", "1/3", "1/1"] {
            let message = message(Session::resume(&run, None, worker(overlapping), false));
            assert!(message.contains(&holder), "{message}");
        }
        assert!(message(Session::create(&run, &grid(5), worker("2/2"))).contains("another grid or backend"));
        let plan: BTreeSet<Config> = first.manifest().plan();
        let mut all = first.outstanding(&plan).unwrap().configs;
        all.extend(second.outstanding(&plan).unwrap().configs);
        all.sort_unstable();
        assert_eq!(all, plan.into_iter().collect::<Vec<_>>());
        drop((first, second));
        Session::resume(&run, None, worker("1/1"), false).unwrap();
    }
}
