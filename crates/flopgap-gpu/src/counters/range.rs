//! CUPTI's range profiler in user replay: it never replays anything implicitly.

use std::ffi::CString;
use std::ptr::{null, null_mut};

use cudarc::cupti::sys;

use super::cupti::Cupti;
use super::{CounterError, MetricPlan, Rows};
use crate::context::Context;
use crate::device::copy_c_string;
use crate::error::GpuError;

/// The subject of a row of counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Launch,
    Region,
}

impl From<Rows> for Mode {
    fn from(rows: Rows) -> Self {
        match rows {
            Rows::Launches => Mode::Launch,
            Rows::Regions => Mode::Region,
        }
    }
}

/// CUPTI's range profiler on one context.
#[derive(Debug)]
pub(super) struct RangeProfiler {
    cupti: &'static Cupti,
    /// Null after a failed attempt to make a new one; CUPTI refuses it then.
    object: *mut sys::CUpti_RangeProfiler_Object,
    /// What the object counts. It keeps its first configuration whatever comes later: with another
    /// mode `PushRange` is refused, with more room rows are lost silently (CUPTI 13.0).
    mode: Option<Mode>,
    /// Rows that object and image have room for.
    room: usize,
    /// Whether the last measurement came to its end. Otherwise rows of it may be left in the
    /// object.
    clean: bool,
    /// The counter data image, which CUPTI fills: some 50 KiB a row. Kept between measurements.
    data: Vec<u8>,
}

// SAFETY: the object belongs to a context, not to a thread: each use makes the context current on
// its thread before.
unsafe impl Send for RangeProfiler {}

impl RangeProfiler {
    pub(super) fn enable(cupti: &'static Cupti, context: &Context) -> Result<Self, CounterError> {
        let object = enable(cupti, context)?;
        Ok(RangeProfiler { cupti, object, mode: None, room: 0, clean: true, data: Vec::new() })
    }

    /// The measurement came to its end, so that the next can go on with this object.
    pub(super) fn ended_well(&mut self) {
        self.clean = true;
    }

    /// Releases the counters for another profiler. The next [`RangeProfiler::prepare`] takes them
    /// again.
    pub(super) fn release(&mut self) -> Result<(), CounterError> {
        self.mode = None;
        disable(self.cupti, std::mem::replace(&mut self.object, null_mut()))
    }

    /// Makes room for `rows` rows in an image, and sets the mode.
    pub(super) fn prepare(
        &mut self,
        mode: Mode,
        rows: usize,
        plan: &MetricPlan,
        context: &Context,
    ) -> Result<(), CounterError> {
        let rows = rows.max(1);
        // Every measurement pays for all of the room, and a change of it for a new object: neither
        // too much nor changed without need.
        let fits = (rows..=rows.saturating_mul(2)).contains(&self.room);
        if !fits || !self.clean || self.mode != Some(mode) {
            if self.mode.take().is_some() {
                disable(self.cupti, std::mem::replace(&mut self.object, null_mut()))?;
            }
            if self.object.is_null() {
                self.object = enable(self.cupti, context)?;
            }
            // A new object must be asked for the size also where it is known: it crashes on an
            // image otherwise.
            let size = self.data_size(rows, plan)?;
            self.data.clear();
            self.data.resize(size, 0);
            self.room = rows;
        }
        self.mode = Some(mode);
        self.clean = false;
        Ok(())
    }

    /// Clears the image, so that the rows that are counted next go to its beginning.
    pub(super) fn clear(&mut self, plan: &MetricPlan) -> Result<(), CounterError> {
        let Some(mode) = self.mode else {
            return Err(CounterError::NoRegion { what: "no measurement has begun".to_owned() });
        };
        let mut initialize = sys::CUpti_RangeProfiler_CounterDataImage_Initialize_Params {
            structSize: sys::RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pRangeProfilerObject: self.object,
            counterDataSize: self.data.len(),
            pCounterData: self.data.as_mut_ptr(),
        };
        // SAFETY: the object is alive, the image has the size that CUPTI asked for.
        unsafe {
            self.cupti.call(
                "cuptiRangeProfilerCounterDataImageInitialize",
                self.cupti.data_initialize,
                &mut initialize,
            )
        }?;
        let mut config = sys::CUpti_RangeProfiler_SetConfig_Params {
            structSize: sys::RangeProfiler_SetConfig_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pRangeProfilerObject: self.object,
            configSize: plan.config().len(),
            pConfig: plan.config().as_ptr(),
            counterDataImageSize: self.data.len(),
            pCounterDataImage: self.data.as_mut_ptr(),
            range: match mode {
                Mode::Launch => sys::CUpti_ProfilerRange::CUPTI_AutoRange,
                Mode::Region => sys::CUpti_ProfilerRange::CUPTI_UserRange,
            },
            replayMode: sys::CUpti_ProfilerReplayMode::CUPTI_UserReplay,
            maxRangesPerPass: self.room,
            numNestingLevels: 1,
            minNestingLevel: 1,
            passIndex: 0,
            targetNestingLevel: 1,
        };
        // SAFETY: the plan's configuration and the image live as long as the session, and are
        // neither moved nor freed before the next call of this function: a `Vec`'s bytes stay where
        // they are when the `Vec` moves.
        unsafe { self.cupti.call("cuptiRangeProfilerSetConfig", self.cupti.set_config, &mut config) }
    }

    /// Bytes of an image with room for so many rows.
    fn data_size(&self, rows: usize, plan: &MetricPlan) -> Result<usize, CounterError> {
        let mut pointers = plan.names().pointers();
        let nodes = u32::try_from(rows)
            .map_err(|_| GpuError::TooLarge { what: "the rows of an image", value: rows })?;
        let mut size = sys::CUpti_RangeProfiler_GetCounterDataSize_Params {
            structSize: sys::RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pRangeProfilerObject: self.object,
            pMetricNames: pointers.as_mut_ptr(),
            numMetrics: pointers.len(),
            maxNumOfRanges: rows,
            maxNumRangeTreeNodes: nodes,
            counterDataSize: 0,
        };
        // SAFETY: the object is alive; the names live until the call returns.
        unsafe {
            self.cupti.call_alone("cuptiRangeProfilerGetCounterDataSize", self.cupti.data_size, &mut size)
        }?;
        Ok(size.counterDataSize)
    }

    pub(super) fn start(&self) -> Result<(), CounterError> {
        let mut start = sys::CUpti_RangeProfiler_Start_Params {
            structSize: sys::RangeProfiler_Start_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pRangeProfilerObject: self.object,
        };
        // SAFETY: the object is alive.
        unsafe { self.cupti.call("cuptiRangeProfilerStart", self.cupti.start, &mut start) }
    }

    /// Ends a pass. Returns whether it was the last.
    pub(super) fn stop(&self) -> Result<bool, CounterError> {
        let mut stop = sys::CUpti_RangeProfiler_Stop_Params {
            structSize: sys::RangeProfiler_Stop_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pRangeProfilerObject: self.object,
            passIndex: 0,
            targetNestingLevel: 0,
            isAllPassSubmitted: 0,
        };
        // SAFETY: the object is alive.
        unsafe { self.cupti.call("cuptiRangeProfilerStop", self.cupti.stop, &mut stop) }?;
        Ok(stop.isAllPassSubmitted != 0)
    }

    /// Begins a range named by its number.
    pub(super) fn push(&self, number: usize) -> Result<(), CounterError> {
        // Digits hold no zero byte.
        let name = CString::new(number.to_string()).unwrap_or_default();
        let mut push = sys::CUpti_RangeProfiler_PushRange_Params {
            structSize: sys::RangeProfiler_PushRange_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pRangeProfilerObject: self.object,
            pRangeName: name.as_ptr(),
        };
        // SAFETY: the object is alive, the name lives until the call returns.
        unsafe { self.cupti.call("cuptiRangeProfilerPushRange", self.cupti.push_range, &mut push) }
    }

    pub(super) fn pop(&self) -> Result<(), CounterError> {
        let mut pop = sys::CUpti_RangeProfiler_PopRange_Params {
            structSize: sys::RangeProfiler_PopRange_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pRangeProfilerObject: self.object,
        };
        // SAFETY: the object is alive.
        unsafe { self.cupti.call("cuptiRangeProfilerPopRange", self.cupti.pop_range, &mut pop) }
    }

    /// Moves what the hardware counted into the image. Returns how many ranges did not fit.
    pub(super) fn decode(&mut self) -> Result<usize, CounterError> {
        let mut decode = sys::CUpti_RangeProfiler_DecodeData_Params {
            structSize: sys::RangeProfiler_DecodeData_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pRangeProfilerObject: self.object,
            numOfRangeDropped: 0,
        };
        // SAFETY: the object is alive, and so is the image that was set in `prepare`.
        unsafe { self.cupti.call("cuptiRangeProfilerDecodeData", self.cupti.decode, &mut decode) }?;
        Ok(decode.numOfRangeDropped)
    }

    /// Rows in the image.
    pub(super) fn ranges(&self) -> Result<usize, CounterError> {
        let mut info = sys::CUpti_RangeProfiler_GetCounterDataInfo_Params {
            structSize: sys::RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pCounterDataImage: self.data.as_ptr(),
            counterDataImageSize: self.data.len(),
            numTotalRanges: 0,
        };
        // SAFETY: the image is alive.
        unsafe { self.cupti.call("cuptiRangeProfilerGetCounterDataInfo", self.cupti.data_info, &mut info) }?;
        Ok(info.numTotalRanges)
    }

    /// Checks that rows come in the order in which they were counted: the name of a region is the
    /// number that it was pushed with, and launches are numbered on by CUPTI.
    pub(super) fn check_order(&self, rows: usize) -> Result<(), CounterError> {
        let mut first = 0;
        for row in 0..rows {
            let name = self.range_name(row)?;
            let number: Option<usize> = name.parse().ok();
            if row == 0 {
                first = number.unwrap_or(0);
            }
            if number != Some(first + row) {
                return Err(CounterError::Order { index: row, name });
            }
        }
        Ok(())
    }

    /// The name of a row: the number that it was pushed with, or that CUPTI gave the launch.
    fn range_name(&self, row: usize) -> Result<String, CounterError> {
        let mut info = sys::CUpti_RangeProfiler_CounterData_GetRangeInfo_Params {
            structSize: sys::RangeProfiler_CounterData_GetRangeInfo_Params_STRUCT_SIZE as usize,
            pPriv: null_mut(),
            pCounterDataImage: self.data.as_ptr(),
            counterDataImageSize: self.data.len(),
            rangeIndex: row,
            rangeDelimiter: c"/".as_ptr(),
            rangeName: null(),
        };
        // SAFETY: the image is alive.
        unsafe {
            self.cupti.call("cuptiRangeProfilerCounterDataGetRangeInfo", self.cupti.range_info, &mut info)
        }?;
        // SAFETY: after success, a C string or null. CUPTI does not say who frees it, so it is left
        // alone: a few bytes a session.
        Ok(unsafe { copy_c_string(info.rangeName) }.unwrap_or_default())
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for RangeProfiler {
    fn drop(&mut self) {
        // Nothing can be done about an error here.
        let _ = disable(self.cupti, self.object);
    }
}

fn enable(
    cupti: &'static Cupti,
    context: &Context,
) -> Result<*mut sys::CUpti_RangeProfiler_Object, CounterError> {
    let mut enable = sys::CUpti_RangeProfiler_Enable_Params {
        structSize: sys::RangeProfiler_Enable_Params_STRUCT_SIZE as usize,
        pPriv: null_mut(),
        ctx: context.cuda().cu_ctx(),
        pRangeProfilerObject: null_mut(),
    };
    // SAFETY: filled as `cupti_range_profiler.h` says; the context is alive, and outlives the
    // profiler in `CounterSession`.
    unsafe { cupti.call_alone("cuptiRangeProfilerEnable", cupti.enable, &mut enable) }?;
    Ok(enable.pRangeProfilerObject)
}

fn disable(cupti: &'static Cupti, object: *mut sys::CUpti_RangeProfiler_Object) -> Result<(), CounterError> {
    let mut disable = sys::CUpti_RangeProfiler_Disable_Params {
        structSize: sys::RangeProfiler_Disable_Params_STRUCT_SIZE as usize,
        pPriv: null_mut(),
        pRangeProfilerObject: object,
    };
    // SAFETY: the object is alive (or null, which CUPTI refuses), and the callers do not use it
    // again.
    unsafe { cupti.call_alone("cuptiRangeProfilerDisable", cupti.disable, &mut disable) }
}
