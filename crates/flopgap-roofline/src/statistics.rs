//! Statistics of samples.

use crate::Quantity;

impl Quantity {
    /// The median of samples, and half of the distance between their quartiles over it; `None` of
    /// no samples.
    ///
    /// ```
    /// let quantity = flopgap_roofline::Quantity::of(vec![1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    /// assert_eq!((quantity.value, quantity.spread), (3.0, 1.0 / 3.0));
    /// ```
    pub fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let value = quantile(&samples, 0.5)?;
        let spread = (quantile(&samples, 0.75)? - quantile(&samples, 0.25)?) / (2.0 * value.abs());
        Some(Quantity { value, spread: if spread.is_finite() { spread } else { 0.0 } })
    }

    /// The largest of samples, with the spread that [`Quantity::of`] gives them.
    pub(crate) fn largest(samples: Vec<f64>) -> Option<Self> {
        let value = samples.iter().copied().max_by(f64::total_cmp)?;
        Some(Quantity { value, ..Self::of(samples)? })
    }

    /// The smallest of samples, likewise.
    pub(crate) fn smallest(samples: Vec<f64>) -> Option<Self> {
        let value = samples.iter().copied().min_by(f64::total_cmp)?;
        Some(Quantity { value, ..Self::of(samples)? })
    }
}

/// What this part of sorted values is below, linear between neighbors (type 7 of Hyndman and Fan,
/// the default of `NumPy`). `None` without any value.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a slice")]
pub fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = part.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

#[cfg(test)]
mod tests {
    use crate::Quantity;

    #[test]
    fn a_quantity_is_the_median_with_the_spread_of_the_quartiles() {
        assert_eq!(Quantity::of(Vec::new()), None);
        let one = Quantity::of(vec![7.0]).unwrap();
        assert!((one.value - 7.0).abs() < 1e-12 && one.spread.abs() < 1e-12);
        let four = Quantity::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        assert!((four.value - 2.5).abs() < 1e-12);
        assert!((four.spread - 1.5 / 5.0).abs() < 1e-12, "quartiles 1.75 and 3.25");
        let (most, least) = (Quantity::largest(vec![1.0, 3.0]), Quantity::smallest(vec![1.0, 3.0]));
        assert_eq!((most.unwrap().value, least.unwrap().value), (3.0, 1.0));
    }
}
