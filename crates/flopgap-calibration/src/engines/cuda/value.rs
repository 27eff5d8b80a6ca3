//! Helpers of the checks: functions in 64 bits, and sampled indices.

use flopgap_flops::Activation;

/// The slope of [`Activation::LeakyRelu`] below 0.
const LEAKY_SLOPE: f64 = 0.01;

/// An activation in 64 bits.
pub(super) fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Relu => x.max(0.0),
        Activation::LeakyRelu if x < 0.0 => LEAKY_SLOPE * x,
        Activation::Identity | Activation::LeakyRelu => x,
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
        Activation::Gelu => 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// Numbers from a seed (`SplitMix64`).
#[derive(Debug, Clone)]
pub(super) struct Picker(u64);

impl Picker {
    pub(super) fn new(seed: u64) -> Self {
        Picker(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// An index below `limit`; 0 if there is none.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        let limit = limit.max(1) as u64;
        usize::try_from(self.next() % limit).unwrap_or_default()
    }

    /// Up to `count` distinct indices below `limit`, including the first and the last, since tiles
    /// end at the edges.
    pub(super) fn some(&mut self, limit: usize, count: usize) -> Vec<usize> {
        if limit <= count {
            return (0..limit).collect();
        }
        let mut places: Vec<usize> = [0, limit - 1].into_iter().take(count).collect();
        while places.len() < count {
            let place = self.below(limit);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places.sort_unstable();
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_different_and_hold_the_edges() {
        let mut picker = Picker::new(1);
        let places = picker.some(1000, 16);
        assert_eq!(places.len(), 16);
        assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!((places[0], places[15]), (0, 999));
        assert_eq!(picker.some(3, 16), [0, 1, 2]);
        assert!(picker.some(0, 16).is_empty());
    }

    #[test]
    fn activations_have_their_known_values() {
        let close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        close(activate(Activation::Gelu, 1.0), 0.841_345);
        close(activate(Activation::GeluTanh, 1.0), 0.841_192);
        close(activate(Activation::Silu, 1.0), 0.731_059);
        close(activate(Activation::LeakyRelu, -2.0), -0.02);
        close(activate(Activation::Sigmoid, 0.0), 0.5);
    }
}
