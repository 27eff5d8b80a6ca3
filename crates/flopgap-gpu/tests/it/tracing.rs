//! Another client of CUPTI that traces kernels while a session counts, as `torch.profiler` does, on
//! a real GPU.

use std::alloc::{Layout, alloc, dealloc};

use flopgap_gpu::counters::{Chip, CounterError, CounterSession, Preset};
use flopgap_gpu::library::{Library, probe};
use flopgap_gpu::{Buffer, Context, Kernel, Stream};

use crate::gpu;
use crate::work::{kernel, launch};

/// `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`.
const CONCURRENT_KERNEL: u32 = 10;
const BUFFER: Layout = match Layout::from_size_align(1 << 20, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

type Requested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = extern "C" fn(*mut u8, u32, *mut u8, usize, usize);

/// CUPTI wants a buffer for records.
extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    // SAFETY: CUPTI gives three valid pointers; the layout is not empty.
    unsafe {
        *buffer = alloc(BUFFER);
        *size = BUFFER.size();
        *records = 0;
    }
}

/// CUPTI hands a buffer back. What was traced is of no interest.
extern "C" fn completed(_context: *mut u8, _stream: u32, buffer: *mut u8, _size: usize, _valid: usize) {
    // SAFETY: it came from `requested`.
    unsafe { dealloc(buffer, BUFFER) };
}

/// Something that traces kernels with CUPTI, by itself.
struct Tracer {
    cupti: libloading::Library,
}

impl Tracer {
    fn new() -> Self {
        let path = probe(Library::Cupti).unwrap().path();
        // SAFETY: CUPTI is loaded already.
        let cupti = unsafe { libloading::Library::new(path) }.unwrap();
        // SAFETY: the signature of `cupti_activity.h`.
        let code = unsafe {
            let register = cupti
                .get::<unsafe extern "C" fn(Requested, Completed) -> u32>(b"cuptiActivityRegisterCallbacks")
                .unwrap();
            register(requested, completed)
        };
        assert_eq!(code, 0, "cuptiActivityRegisterCallbacks");
        Tracer { cupti }
    }

    fn trace(&self, enable: bool) {
        let name: &[u8] = if enable { b"cuptiActivityEnable" } else { b"cuptiActivityDisable" };
        // SAFETY: both have this signature in `cupti_activity.h`; the kind is an enum of 32 bits.
        let code =
            unsafe { self.cupti.get::<unsafe extern "C" fn(u32) -> u32>(name).unwrap()(CONCURRENT_KERNEL) };
        assert_eq!(code, 0, "{}", String::from_utf8_lossy(name));
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.trace(false);
        // SAFETY: the signature of `cupti_activity.h`.
        unsafe { self.cupti.get::<unsafe extern "C" fn(u32) -> u32>(b"cuptiActivityFlushAll").unwrap()(1) };
    }
}

/// Everything that the tests count with.
struct Bench {
    context: Context,
    chip: Chip,
    stream: Stream,
    ffma: Kernel,
    x: Buffer<f32>,
}

impl Bench {
    fn new(context: &Context) -> Option<Self> {
        if !crate::has_cupti() {
            return None;
        }
        let chip = match Chip::new(context) {
            Err(error @ CounterError::Privileges { .. }) => {
                return flopgap_testing::none("privileges", error);
            }
            chip => chip.unwrap(),
        };
        let stream = context.stream().unwrap();
        let x = stream.zeros(64).unwrap();
        Some(Bench { context: context.clone(), chip, ffma: kernel(context, "count_ffma")?, x, stream })
    }

    fn open(&self, metrics: &[String]) -> Result<CounterSession, CounterError> {
        CounterSession::on_chip(&self.context, &self.chip, metrics)
    }

    fn flops(&self) -> Result<CounterSession, CounterError> {
        self.open(&self.chip.preset(Preset::Flops))
    }

    /// Counts one launch of 576 fused multiply-adds, in front of which `first` is done.
    fn count(&mut self, session: &mut CounterSession, first: impl Fn()) -> Result<Vec<u64>, CounterError> {
        let rows = session.per_launch(4, &mut |_| {
            first();
            launch(&self.stream, &self.ffma, &mut self.x, (2, 32, 9))?;
            Ok(())
        })?;
        assert_eq!(rows.len(), 1, "the calibration is no row");
        Ok(rows[0].counts.clone())
    }

    /// The same in a region.
    fn count_region(&mut self, session: &mut CounterSession) -> Result<Vec<u64>, CounterError> {
        let rows = session.per_region(1, &mut |regions| {
            regions.within("all", |_| {
                Ok::<_, CounterError>(launch(&self.stream, &self.ffma, &mut self.x, (2, 32, 9))?)
            })?;
            Ok(())
        })?;
        assert_eq!(rows.len(), 1, "the calibration is no region");
        assert_eq!(rows[0].launches.len(), 1);
        Ok(rows[0].counts.clone())
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, CounterError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, CounterError::Traced { .. }), "{error}");
}

#[test]
fn a_session_is_refused_while_kernels_are_traced_and_right_before_and_after() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut bench) = Bench::new(&context) else { return };
    let mut before = bench.flops().unwrap();
    assert_eq!(bench.count(&mut before, || ()).unwrap(), [0, 0, 576]);
    drop(before);
    let tracer = Tracer::new();
    tracer.trace(true);
    for preset in [Preset::Flops, Preset::FlopsAll, Preset::Bytes, Preset::Time] {
        refused(bench.open(&bench.chip.preset(preset)));
    }
    tracer.trace(false);
    for _ in 0..2 {
        let mut after = bench.flops().unwrap();
        assert_eq!(bench.count(&mut after, || ()).unwrap(), [0, 0, 576]);
        assert_eq!(bench.count_region(&mut after).unwrap(), [0, 0, 576]);
    }
}

#[test]
fn tracing_that_begins_later_is_found_at_the_end_of_a_measurement() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut bench) = Bench::new(&context) else { return };
    let mut session = bench.flops().unwrap();
    let tracer = Tracer::new();
    for _ in 0..2 {
        assert_eq!(bench.count(&mut session, || ()).unwrap(), [0, 0, 576]);
        // Between measurements.
        tracer.trace(true);
        refused(bench.count(&mut session, || ()));
        refused(bench.count_region(&mut session));
        tracer.trace(false);
        assert_eq!(bench.count(&mut session, || ()).unwrap(), [0, 0, 576]);
        // Within one.
        refused(bench.count(&mut session, || tracer.trace(true)));
        tracer.trace(false);
        assert_eq!(bench.count_region(&mut session).unwrap(), [0, 0, 576]);
    }
}

/// Without instructions of known number among the metrics, a measurement is checked by another.
#[test]
fn what_the_hardware_counts_is_checked_too() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut bench) = Bench::new(&context) else { return };
    let tracer = Tracer::new();
    let instructions = vec!["smsp__inst_executed.sum".to_owned(), "l1tex__t_bytes.sum".to_owned()];
    let times = bench.chip.preset(Preset::Time);
    for (metrics, exact) in [(instructions, true), (times, false)] {
        let mut session = bench.open(&metrics).unwrap();
        let right = bench.count(&mut session, || ()).unwrap();
        tracer.trace(true);
        refused(bench.count(&mut session, || ()));
        refused(bench.count_region(&mut session));
        tracer.trace(false);
        let again = bench.count(&mut session, || ()).unwrap();
        assert!(!exact || again == right, "{metrics:?}: {right:?}, then {again:?}");
    }
}
