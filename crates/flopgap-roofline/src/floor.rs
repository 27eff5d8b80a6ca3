//! What a time is compared with before it is interpolated.

/// The least time of a kernel, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Floor {
    /// Of its arithmetic at the peak.
    pub(crate) compute: f64,
    /// Of its bytes.
    pub(crate) bytes: f64,
    /// Of everything else.
    pub(crate) start: f64,
}

impl Floor {
    pub(crate) fn seconds(self) -> f64 {
        self.compute.max(self.bytes) + self.start
    }
}

/// The idle part of the last wave of blocks, in powers of two; 0 where all blocks are in one.
pub(crate) fn last_wave(blocks: f64, units: f64) -> f64 {
    let waves = blocks / units;
    if waves > 1.0 { (waves.ceil() / waves).log2() } else { 0.0 }
}
