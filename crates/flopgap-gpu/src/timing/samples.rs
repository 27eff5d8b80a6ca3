//! Measurements of one thing.

/// Measurements of one thing, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    sorted: Vec<f64>,
}

impl Samples {
    /// These measurements.
    pub fn new(mut nanoseconds: Vec<f64>) -> Self {
        nanoseconds.sort_by(f64::total_cmp);
        Samples { sorted: nanoseconds }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// All of them, the shortest first.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// The measurement that this part of all is below, linear between neighbors; NaN of no
    /// measurements.
    ///
    /// ```
    /// let samples = flopgap_gpu::timing::Samples::new(vec![4.0, 1.0, 3.0, 2.0]);
    /// assert_eq!(samples.quantile(0.0), 1.0);
    /// assert_eq!(samples.median(), 2.5);
    /// assert_eq!(samples.quantile(0.9), 3.7);
    /// ```
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a vector")]
    pub fn quantile(&self, part: f64) -> f64 {
        let Some(last) = self.sorted.len().checked_sub(1) else { return f64::NAN };
        let place = part.clamp(0.0, 1.0) * last as f64;
        let (low, high) = (self.sorted[place.floor() as usize], self.sorted[place.ceil() as usize]);
        low + (high - low) * place.fract()
    }

    /// The measurement in the middle.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}
