//! CUPTI's range profiler: counts what the GPU does between two calls, in one pass.
//!
//! Each of its functions takes a struct that begins with its own size and a null pointer. All
//! members are words or share one, so a struct is an array of words here. Their meaning is in
//! `cupti_range_profiler.h` and `cupti_profiler_host.h`.

use std::ffi::{CStr, CString, c_char, c_void};

use super::c::Loaded;
use super::cupti::{Code, Cupti, SUCCESS, wanted};

type Call = unsafe extern "C" fn(*mut u64) -> Code;

/// The functions, of CUDA 12.6 and newer.
pub(super) struct Functions {
    initialize: Call,
    availability: Call,
    host_initialize: Call,
    host_deinitialize: Call,
    add_metrics: Call,
    config_size: Call,
    config_image: Call,
    evaluate: Call,
    enable: Call,
    disable: Call,
    data_size: Call,
    data_initialize: Call,
    set_config: Call,
    start: Call,
    stop: Call,
    push: Call,
    pop: Call,
    decode: Call,
    data_info: Call,
    range_info: Call,
}

/// Counts one group of metrics on one context. Begun and ended where no graph is captured.
pub(super) struct Counter {
    metrics: Vec<CString>,
    host: u64,
    object: u64,
    /// CUPTI keeps pointers to both.
    config: Vec<u8>,
    data: Vec<u8>,
}

/// Ranges of one counter: CUPTI wants some 50 kB for each, and time for all of them.
pub(super) const ROOM: usize = 128;

const RANGE_PROFILER: u64 = 0;
const RANGES_OF_THE_USER: u64 = 2;
const REPLAY_OF_THE_USER: u64 = 3;

impl Functions {
    pub(super) fn new(library: Loaded) -> Result<Functions, String> {
        let call = |name: &CStr| {
            // SAFETY: these functions take a pointer to a struct and return a code.
            let call = unsafe { wanted::<Call>(library, name) };
            call.map_err(|missing| format!("CUPTI is older than CUDA 12.6: it has no {missing}"))
        };
        Ok(Functions {
            initialize: call(c"cuptiProfilerInitialize")?,
            availability: call(c"cuptiProfilerGetCounterAvailability")?,
            host_initialize: call(c"cuptiProfilerHostInitialize")?,
            host_deinitialize: call(c"cuptiProfilerHostDeinitialize")?,
            add_metrics: call(c"cuptiProfilerHostConfigAddMetrics")?,
            config_size: call(c"cuptiProfilerHostGetConfigImageSize")?,
            config_image: call(c"cuptiProfilerHostGetConfigImage")?,
            evaluate: call(c"cuptiProfilerHostEvaluateToGpuValues")?,
            enable: call(c"cuptiRangeProfilerEnable")?,
            disable: call(c"cuptiRangeProfilerDisable")?,
            data_size: call(c"cuptiRangeProfilerGetCounterDataSize")?,
            data_initialize: call(c"cuptiRangeProfilerCounterDataImageInitialize")?,
            set_config: call(c"cuptiRangeProfilerSetConfig")?,
            start: call(c"cuptiRangeProfilerStart")?,
            stop: call(c"cuptiRangeProfilerStop")?,
            push: call(c"cuptiRangeProfilerPushRange")?,
            pop: call(c"cuptiRangeProfilerPopRange")?,
            decode: call(c"cuptiRangeProfilerDecodeData")?,
            data_info: call(c"cuptiRangeProfilerGetCounterDataInfo")?,
            range_info: call(c"cuptiRangeProfilerCounterDataGetRangeInfo")?,
        })
    }
}

/// Calls a function with the members of its struct after the first two.
///
/// # Safety
/// The members are what this function takes, and pointers among them are valid for it.
unsafe fn with<const N: usize>(
    cupti: &Cupti,
    call: Call,
    size: usize,
    members: [u64; N],
) -> Result<[u64; N], String> {
    let mut all = [0_u64; 12];
    all[0] = size as u64;
    all[2..2 + N].copy_from_slice(&members);
    // SAFETY: as the caller says; the array is longer than every struct.
    match unsafe { call(all.as_mut_ptr()) } {
        SUCCESS => {
            let mut members = [0; N];
            members.copy_from_slice(&all[2..2 + N]);
            Ok(members)
        }
        code => Err(cupti.explain(code)),
    }
}

/// Where something lies that a function reads.
fn address<T>(values: &[T]) -> u64 {
    values.as_ptr().expose_provenance() as u64
}

/// Where something lies that a function fills.
fn place<T>(values: &mut [T]) -> u64 {
    values.as_mut_ptr().expose_provenance() as u64
}

/// A buffer of as many bytes as a function asked for.
fn buffer(size: u64) -> Vec<u8> {
    vec![0; usize::try_from(size).unwrap_or(0)]
}

fn pointers(names: &[CString]) -> Vec<*const c_char> {
    names.iter().map(|name| name.as_ptr()).collect()
}

impl Counter {
    /// Begins to count on a context, which is current on this thread.
    pub(super) fn begin(
        cupti: &Cupti,
        functions: &Functions,
        chip: &CStr,
        metrics: &[CString],
        context: *mut c_void,
    ) -> Result<Counter, String> {
        let mut counter =
            Counter { metrics: metrics.to_vec(), host: 0, object: 0, config: Vec::new(), data: Vec::new() };
        match counter.set_up(cupti, functions, chip, context.addr() as u64) {
            Ok(()) => Ok(counter),
            Err(reason) => {
                counter.end(cupti, functions);
                Err(reason)
            }
        }
    }

    fn set_up(
        &mut self,
        cupti: &Cupti,
        functions: &Functions,
        chip: &CStr,
        context: u64,
    ) -> Result<(), String> {
        let names = pointers(&self.metrics);
        let (list, count) = (address(&names), names.len() as u64);
        // SAFETY: every struct has the members of its header, in its order; buffers and names live
        // until the calls return, and those that CUPTI keeps as long as the counter.
        unsafe {
            with(cupti, functions.initialize, 16, [])?;
            let [_, size, _] = with(cupti, functions.availability, 40, [context, 0, 0])?;
            let mut available = buffer(size);
            with(cupti, functions.availability, 40, [context, size, place(&mut available)])?;
            let chip = address(chip.to_bytes_with_nul());
            let opened = [RANGE_PROFILER, chip, address(&available), 0];
            self.host = with(cupti, functions.host_initialize, 48, opened)?[3];
            with(cupti, functions.add_metrics, 40, [self.host, list, count])?;
            let [_, size] = with(cupti, functions.config_size, 32, [self.host, 0])?;
            self.config = buffer(size);
            with(cupti, functions.config_image, 40, [self.host, size, place(&mut self.config)])?;
            self.object = with(cupti, functions.enable, 32, [context, 0])?[1];
            let room = ROOM as u64;
            let asked = [self.object, list, count, room, room, 0];
            let size = with(cupti, functions.data_size, 64, asked)?[5];
            self.data = buffer(size);
            let (config, data) = (address(&self.config), place(&mut self.data));
            with(cupti, functions.data_initialize, 40, [self.object, size, data])?;
            let mode = RANGES_OF_THE_USER | REPLAY_OF_THE_USER << 32;
            let one_level = 1 | 1 << 16;
            let length = self.config.len() as u64;
            let configured = [self.object, length, config, size, data, mode, room, one_level, 0, 1];
            with(cupti, functions.set_config, 90, configured)?;
            with(cupti, functions.start, 24, [self.object])?;
        }
        Ok(())
    }

    /// Begins a range that is named by its number, which is that of its row.
    pub(super) fn push(&self, cupti: &Cupti, functions: &Functions, row: usize) -> Result<(), String> {
        // Digits hold no zero byte.
        let name = CString::new(row.to_string()).unwrap_or_default();
        // SAFETY: the object is alive, the name lives until the call returns.
        unsafe { with(cupti, functions.push, 32, [self.object, address(name.as_bytes_with_nul())]) }.map(drop)
    }

    /// Ends the range.
    pub(super) fn pop(&self, cupti: &Cupti, functions: &Functions) -> Result<(), String> {
        // SAFETY: the object is alive.
        unsafe { with(cupti, functions.pop, 24, [self.object]) }.map(drop)
    }

    /// Ends counting, and calls `take` with the values of each row, in the order of the metrics.
    pub(super) fn finish(
        mut self,
        cupti: &Cupti,
        functions: &Functions,
        rows: usize,
        take: impl FnMut(usize, &[f64]),
    ) -> Result<(), String> {
        let read = self.read(cupti, functions, rows, take);
        self.end(cupti, functions);
        read
    }

    fn read(
        &self,
        cupti: &Cupti,
        functions: &Functions,
        rows: usize,
        mut take: impl FnMut(usize, &[f64]),
    ) -> Result<(), String> {
        let (names, mut values) = (pointers(&self.metrics), vec![0_f64; self.metrics.len()]);
        let (data, size) = (address(&self.data), self.data.len() as u64);
        // SAFETY: as in `set_up`.
        unsafe {
            with(cupti, functions.stop, 41, [self.object, 0, 0, 0])?;
            let [_, dropped] = with(cupti, functions.decode, 32, [self.object, 0])?;
            let [_, _, counted] = with(cupti, functions.data_info, 40, [data, size, 0])?;
            if dropped != 0 || counted != rows as u64 {
                return Err(format!("of {rows} ranges, CUPTI counted {counted}"));
            }
            for row in 0..rows {
                let delimiter = address(c"/".to_bytes_with_nul());
                let asked = [data, size, row as u64, delimiter, 0];
                let name = with(cupti, functions.range_info, 56, asked)?[4];
                let name = std::ptr::with_exposed_provenance::<c_char>(usize::try_from(name).unwrap_or(0));
                let number = if name.is_null() { None } else { CStr::from_ptr(name).to_str().ok() };
                if number != Some(row.to_string().as_str()) {
                    return Err(format!("row {row} of CUPTI is range {}", number.unwrap_or("without name")));
                }
                let (list, count) = (address(&names), names.len() as u64);
                let asked = [self.host, data, size, row as u64, list, count, place(&mut values)];
                with(cupti, functions.evaluate, 72, asked)?;
                take(row, &values);
            }
        }
        Ok(())
    }

    /// Gives the counters back. Nothing can be done about an error here.
    pub(super) fn end(&mut self, cupti: &Cupti, functions: &Functions) {
        // SAFETY: what lives is ended once.
        unsafe {
            if self.object != 0 {
                let _ = with(cupti, functions.disable, 24, [self.object]);
            }
            if self.host != 0 {
                let _ = with(cupti, functions.host_deinitialize, 24, [self.host]);
            }
        }
        (self.object, self.host) = (0, 0);
    }
}
