//! When the host waited for the GPU.

use flopgap_trace::{ReadError, Recording, ThreadId};

use crate::intervals::Intervals;

/// When each thread was in a call that waits for the GPU.
pub(crate) struct Waits(Intervals);

/// Whether a call of the runtime or driver API returns only when work on the GPU is done, by its
/// name: `cuda{Device,Stream,Event,Thread}Synchronize`, `cu{Ctx,Stream,Event}Synchronize`, and the
/// copies that are not asynchronous.
pub(crate) fn waits(name: &str) -> bool {
    let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    let name = match name.rsplit_once("_v") {
        Some((base, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    };
    let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    let copies = name.starts_with("cudaMemcpy") || name.starts_with("cuMemcpy");
    name.ends_with("Synchronize") || (copies && !name.contains("Async"))
}

impl Waits {
    /// Reads all calls.
    pub(crate) fn read(trace: &dyn Recording) -> Result<Waits, ReadError> {
        let mut intervals = Intervals::default();
        trace.each_call(&waits, &mut |thread, start, end| {
            if end > start {
                intervals.add(thread, start, end);
            }
        })?;
        // A runtime call contains the driver call that it makes.
        intervals.join();
        Ok(Waits(intervals))
    }

    /// For how long a thread waited between two instants.
    pub(crate) fn within(&self, thread: ThreadId, start: i64, end: i64) -> i64 {
        self.0.overlap(thread, start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_wait() {
        for name in [
            "cudaDeviceSynchronize_v3020",
            "cudaStreamSynchronize_ptsz_v7000",
            "cudaStreamSynchronize_v3020_ptsz",
            "cuCtxSynchronize",
            "cuEventSynchronize",
            "cudaMemcpy_v3020",
            "cudaMemcpy2D_v3020",
            "cuMemcpyDtoH_v2",
            "cudaMemcpyToSymbol_v3020",
        ] {
            assert!(waits(name), "{name}");
        }
        for name in
            ["cudaMemcpyAsync_v3020", "cuMemcpyHtoDAsync_v2", "cudaLaunchKernel_v7000", "cudaMalloc_v3020"]
        {
            assert!(!waits(name), "{name}");
        }
    }
}
