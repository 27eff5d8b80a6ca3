//! What times of calls are shares of, so that those of calls that are alike are, too.

use super::Peaks;
use super::call::{Arithmetic, Call, Kind, Phase};
use crate::floor::Floor;

impl Kind {
    /// Seconds of a kernel besides arithmetic, bytes and the waves of its blocks; they keep
    /// utilizations of small calls smooth.
    const fn kernel(self) -> f64 {
        match self {
            Self::Product | Self::FusedAttention => 3e-6,
            Self::Convolution | Self::DepthwiseConvolution => 1e-6,
            Self::GroupedConvolution => 4e-6,
            Self::Fused | Self::Map => 0.5e-6,
            Self::Rows => 3.5e-6,
            _ => self.start(),
        }
    }

    /// Seconds of its floor besides arithmetic and bytes: what is less than them is a matter of
    /// launches.
    const fn start(self) -> f64 {
        match self {
            Self::Product | Self::Convolution | Self::GroupedConvolution | Self::DepthwiseConvolution => 2e-6,
            Self::FusedAttention => 5e-6,
            Self::GroupedProduct => 1e-5,
            Self::MathAttention => 15e-6,
            Self::Recurrent => 0.0,
            Self::Norm | Self::Map | Self::Rows | Self::Optimizer | Self::Fused => 1.5e-6,
        }
    }
}

impl Call {
    /// Seconds that its times are shares of: its floor and the waves of its blocks. The tiles of
    /// grouped convolutions are as full as their groups have channels, and in fp32 those are mostly
    /// a kernel for each group (321 of 360 on H100 and H200).
    pub(super) fn unit(&self, peaks: &Peaks) -> f64 {
        let floor = self.floor(peaks);
        let (filled, mut start) = match (self.kind, self.phase, self.sizes.as_slice()) {
            (_, Phase::Compiled, _) => (1.0, 0.0),
            (Kind::GroupedConvolution, _, &[_, _, _, _, inputs, _, groups, ..]) => {
                let filled = (inputs / groups.max(1)).clamp(1, 128) as f64 / 512.0;
                let start = if self.arithmetic == Arithmetic::Fp32 { 1e-6 * groups as f64 } else { 0.0 };
                (filled, start)
            }
            _ => (1.0, 0.0),
        };
        let mut bytes = floor.bytes;
        match (self.kind, self.phase, self.sizes.as_slice()) {
            // Keys and values that are repeated in place are read again for each.
            (Kind::FusedAttention, Phase::Forward, &[.., repeats]) => bytes *= repeats.max(1) as f64,
            // One element after the other, whose places are computed: copies that repeat heads take
            // 2.1 and 2.3 ps for an element of 16 bits, 2.8 of 32, their bytes 0.5 to 1.3.
            (Kind::Map, Phase::Forward, &[_, written, width, _, _, _, 1]) => {
                start += (written / width.max(1)) as f64 * 100.0 / peaks.fp32;
            }
            _ => {}
        }
        start += self.kind.kernel() + self.sequence() + self.waves(peaks.units);
        Floor { compute: floor.compute / filled, bytes, start }.seconds()
    }

    /// Seconds of the waves in which its blocks run: those of a block, and of each 64 elements of
    /// the sums in it. Tiles and seconds are those with the least error on architectures left out.
    fn waves(&self, units: f64) -> f64 {
        let half = self.arithmetic == Arithmetic::Half;
        let tiles = |size: u64, tile: u64| size.div_ceil(tile) as f64;
        let (blocks, sum, [block, step]) = match (self.kind, self.sizes.as_slice()) {
            (Kind::Product, &[batch, m, n, k, ..]) => {
                let step = if half { 0.03e-6 } else { 0.06e-6 };
                (batch as f64 * tiles(m, 32) * tiles(n, 32), k, [0.5e-6, step])
            }
            (Kind::Convolution, &[batch, pixels, _, kernel, inputs, outputs, ..]) => {
                let blocks = tiles(batch.saturating_mul(pixels), 128) * tiles(outputs, 128);
                let step = if half { 0.5e-6 } else { 1e-6 };
                (blocks, inputs.saturating_mul(kernel), [2e-6, step])
            }
            (Kind::GroupedConvolution, &[batch, pixels, _, _, _, outputs, groups, ..]) => {
                let columns = outputs / groups.max(1);
                let rows = tiles(batch.saturating_mul(pixels), 128);
                (groups as f64 * rows * tiles(columns, 64), 0, [1e-6, 0.0])
            }
            (Kind::FusedAttention, &[heads, queries, keys, ..]) => {
                let step = if half { 0.25e-6 } else { 4e-6 };
                (heads as f64 * tiles(queries, 64), keys.next_multiple_of(64), [0.0, step])
            }
            _ => return 0.0,
        };
        (blocks / units).max(1.0) * (block + step * sum as f64 / 64.0)
    }

    /// Seconds of the steps of a recurrent layer, one after the other.
    fn sequence(&self) -> f64 {
        match (self.kind, self.sizes.as_slice()) {
            (Kind::Recurrent, &[_, length, ..]) => {
                let [start, step] = if self.persists() { [20e-6, 0.7e-6] } else { [10e-6, 3e-6] };
                start + length as f64 * step
            }
            _ => 0.0,
        }
    }

    pub(super) fn floor(&self, peaks: &Peaks) -> Floor {
        let peak = match self.arithmetic {
            Arithmetic::Tf32 => peaks.tf32,
            Arithmetic::Half => peaks.half,
            Arithmetic::Fp32 => peaks.fp32,
        };
        let compute = match self.kind {
            Kind::Norm | Kind::Map | Kind::Rows | Kind::Optimizer | Kind::Fused => 0.0,
            _ => self.flops as f64 / peak,
        };
        let bytes =
            if self.kind == Kind::Recurrent { 0.0 } else { self.bytes as f64 / peaks.bytes_per_second };
        Floor { compute, bytes, start: self.kind.start() + self.sequence() }
    }
}
