//! Exact signed fractions.

use std::cmp::Ordering;
use std::fmt;

use crate::FlopError;

/// A signed fraction of integers in lowest terms: the exact value of an overhead factor.
///
/// `{}` prints the nearest `f64`. `{:.4}` prints the fraction itself rounded to four decimals, ties
/// to even, from its integers: no binary rounding happens in between. Width, fill, `+` and `0` are
/// honored as for numbers.
///
/// ```
/// use flopgap_flops::Ratio;
///
/// let third = Ratio::new(-2, 6)?;
/// assert_eq!((third.numerator(), third.denominator()), (-1, 3));
/// assert_eq!(format!("{third:.4}"), "-0.3333");
/// assert_eq!(third.to_f64(), -1.0 / 3.0);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ratio {
    numerator: i128,
    denominator: u128,
}

impl Ratio {
    /// 0.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };
    /// 1.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// `numerator / denominator`, reduced to lowest terms.
    ///
    /// # Errors
    /// [`FlopError::ZeroDenominator`].
    pub fn new(numerator: i128, denominator: u128) -> Result<Self, FlopError> {
        if denominator == 0 {
            return Err(FlopError::ZeroDenominator);
        }
        let common = gcd(numerator.unsigned_abs(), denominator);
        let magnitude = numerator.unsigned_abs() / common;
        // Reducing never enlarges the magnitude, so it fits the sign that it came with.
        Ok(Self::signed(numerator < 0, magnitude, denominator / common).unwrap_or(Self::ZERO))
    }

    /// `part / whole` of two counts.
    ///
    /// # Errors
    /// [`FlopError::ZeroDenominator`] when `whole` is 0.
    pub fn of_counts(part: u64, whole: u64) -> Result<Self, FlopError> {
        Self::new(i128::from(part), u128::from(whole))
    }

    /// `counted / expected - 1`: how far a count lies above (positive) or below (negative) what was
    /// expected.
    ///
    /// # Errors
    /// [`FlopError::ZeroDenominator`] when `expected` is 0.
    pub fn excess(counted: u64, expected: u64) -> Result<Self, FlopError> {
        Self::new(i128::from(counted) - i128::from(expected), u128::from(expected))
    }

    /// The numerator in lowest terms; it carries the sign.
    pub const fn numerator(self) -> i128 {
        self.numerator
    }

    /// The denominator in lowest terms, at least 1.
    pub const fn denominator(self) -> u128 {
        self.denominator
    }

    /// Exact sum; `None` when it does not fit.
    ///
    /// Works over the least common denominator, so that fractions of the same whole never grow.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let common = gcd(self.denominator, other.denominator);
        let (left_scale, right_scale) = (other.denominator / common, self.denominator / common);
        let left = self.numerator.checked_mul(i128::try_from(left_scale).ok()?)?;
        let right = other.numerator.checked_mul(i128::try_from(right_scale).ok()?)?;
        let denominator = self.denominator.checked_mul(left_scale)?;
        Self::new(left.checked_add(right)?, denominator).ok()
    }

    /// Exact product with a count; `None` when it does not fit.
    ///
    /// Common factors are canceled before multiplying, so the product overflows only if its lowest
    /// terms do.
    #[must_use]
    pub fn checked_scale(self, factor: u64) -> Option<Self> {
        let factor = u128::from(factor);
        let common = gcd(factor, self.denominator);
        let magnitude = self.numerator.unsigned_abs().checked_mul(factor / common)?;
        Self::signed(self.numerator < 0, magnitude, self.denominator / common)
    }

    /// The value as an unsigned count, rounded to the nearest integer with halves upwards; `None`
    /// when it is negative or exceeds `u64`.
    #[must_use]
    pub fn round_to_count(self) -> Option<u64> {
        let magnitude = u128::try_from(self.numerator).ok()?;
        let (whole, rest) = (magnitude / self.denominator, magnitude % self.denominator);
        // `rest >= denominator / 2` without doubling, which could overflow.
        let up = rest >= self.denominator - rest;
        u64::try_from(whole + u128::from(up)).ok()
    }

    /// The nearest `f64`, ties to even: correctly rounded for every ratio.
    pub fn to_f64(self) -> f64 {
        let magnitude = nearest_f64(self.numerator.unsigned_abs(), self.denominator);
        if self.numerator < 0 { -magnitude } else { magnitude }
    }

    fn signed(negative: bool, magnitude: u128, denominator: u128) -> Option<Self> {
        let numerator = if negative {
            0_i128.checked_sub_unsigned(magnitude)?
        } else {
            i128::try_from(magnitude).ok()?
        };
        Some(Self { numerator, denominator })
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        let magnitudes = || {
            compare_fractions(
                (self.numerator.unsigned_abs(), self.denominator),
                (other.numerator.unsigned_abs(), other.denominator),
            )
        };
        match (self.numerator < 0, other.numerator < 0) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => magnitudes(),
            (true, true) => magnitudes().reverse(),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.precision() {
            None => fmt::Display::fmt(&self.to_f64(), f),
            Some(decimals) => {
                let text = decimal(self.numerator.unsigned_abs(), self.denominator, decimals);
                f.pad_integral(self.numerator >= 0, "", &text)
            }
        }
    }
}

/// Greatest common divisor; `denominator` of a ratio is never 0, so neither is the result.
fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Compares two fractions by their continued fractions: no product, hence no overflow.
fn compare_fractions(mut left: (u128, u128), mut right: (u128, u128)) -> Ordering {
    loop {
        let (left_whole, right_whole) = (left.0 / left.1, right.0 / right.1);
        if left_whole != right_whole {
            return left_whole.cmp(&right_whole);
        }
        match (left.0 % left.1, right.0 % right.1) {
            (0, 0) => return Ordering::Equal,
            (0, _) => return Ordering::Less,
            (_, 0) => return Ordering::Greater,
            // What is left compares as its reciprocals do, the other way round.
            (left_rest, right_rest) => (left, right) = ((right.1, right_rest), (left.1, left_rest)),
        }
    }
}

/// Adds `step` to `rest` modulo `modulus` and says whether it wrapped. Needs both below `modulus`.
fn add_modulo(rest: u128, step: u128, modulus: u128) -> (u128, bool) {
    let room = modulus - step;
    if rest >= room { (rest - room, true) } else { (rest + step, false) }
}

/// `numerator / denominator` correctly rounded, ties to even.
fn nearest_f64(numerator: u128, denominator: u128) -> f64 {
    if numerator == 0 {
        return 0.0;
    }
    // Long division in binary: `digits` collects the leading bits of the quotient, `exponent` the
    // place of its last bit. 55 bits and the rest decide the rounding to 53.
    let mut digits = numerator / denominator;
    let mut rest = numerator % denominator;
    let mut exponent = 0_i32;
    while digits.leading_zeros() > 128 - 55 {
        let (doubled, bit) = add_modulo(rest, rest, denominator);
        rest = doubled;
        digits = digits << 1 | u128::from(bit);
        exponent -= 1;
    }
    // At least 55 bits now; more when the integer part alone had them. Keep 53.
    let surplus = 128 - 53 - digits.leading_zeros();
    let mut mantissa = digits >> surplus;
    let dropped = digits & ((1 << surplus) - 1);
    let half = 1_u128 << (surplus - 1);
    let above_half = dropped > half || (dropped == half && rest != 0);
    let tie_to_even = dropped == half && rest == 0 && mantissa & 1 == 1;
    if above_half || tie_to_even {
        mantissa += 1;
    }
    exponent += surplus.cast_signed();
    // At most 53 significant bits and an exponent within -183..=75: both conversions and the
    // product are exact.
    mantissa as f64 * 2_f64.powi(exponent)
}

/// `numerator / denominator` with a fixed number of decimals, ties to even.
fn decimal(numerator: u128, denominator: u128, decimals: usize) -> String {
    let mut text = (numerator / denominator).to_string().into_bytes();
    let mut rest = numerator % denominator;
    let point = text.len();
    for _ in 0..decimals {
        // rest * 10 / denominator by ten additions, because the product could overflow.
        let step = rest;
        let (mut digit, mut remainder) = (b'0', 0);
        for _ in 0..10 {
            let wrapped;
            (remainder, wrapped) = add_modulo(remainder, step, denominator);
            digit += u8::from(wrapped);
        }
        text.push(digit);
        rest = remainder;
    }
    let odd = text.last().is_some_and(|digit| digit % 2 == 1);
    let up = match rest.cmp(&(denominator - rest)) {
        Ordering::Greater => true,
        Ordering::Equal => odd,
        Ordering::Less => false,
    };
    let mut point = point;
    if up {
        if let Some(place) = text.iter().rposition(|&digit| digit != b'9') {
            text[place] += 1;
            text[place + 1..].fill(b'0');
        } else {
            text.fill(b'0');
            text.insert(0, b'1');
            point += 1;
        }
    }
    if decimals > 0 {
        text.insert(point, b'.');
    }
    text.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ratio(numerator: i128, denominator: u128) -> Ratio {
        Ratio::new(numerator, denominator).unwrap()
    }

    #[test]
    fn lowest_terms_and_the_extremes() {
        assert_eq!(ratio(6, 4), ratio(3, 2));
        assert_eq!(ratio(0, 17), Ratio::ZERO);
        assert_eq!(ratio(17, 17), Ratio::ONE);
        assert_eq!(Ratio::new(1, 0), Err(FlopError::ZeroDenominator));
        assert_eq!(ratio(i128::MIN, 1).numerator(), i128::MIN);
        assert_eq!(ratio(i128::MIN, 1 << 127), ratio(-1, 1));
        assert_eq!(ratio(i128::MIN, u128::MAX).denominator(), u128::MAX);
    }

    #[test]
    fn decimals_are_rounded_from_the_fraction() {
        assert_eq!(format!("{:.4}", ratio(1, 3)), "0.3333");
        assert_eq!(format!("{:.4}", ratio(-2, 3)), "-0.6667");
        assert_eq!(format!("{:.0}", ratio(5, 2)), "2");
        assert_eq!(format!("{:.0}", ratio(7, 2)), "4");
        assert_eq!(format!("{:.1}", ratio(1, 4)), "0.2");
        assert_eq!(format!("{:.1}", ratio(3, 4)), "0.8");
        assert_eq!(format!("{:.2}", ratio(9_999, 1_000)), "10.00");
        assert_eq!(format!("{:.3}", ratio(99_999, 100)), "999.990");
        assert_eq!(
            format!("{:+09.2}|{:>8.1}|{:<8.1}|", ratio(5, 4), ratio(-1, 2), ratio(1, 2)),
            "+00001.25|    -0.5|0.5     |"
        );
        // Ties of the fraction; as an f64, 1.015 is below the tie and prints as 1.01.
        assert_eq!(format!("{:.2}", ratio(1_005, 1_000)), "1.00");
        assert_eq!(format!("{:.2}", ratio(1_015, 1_000)), "1.02");
        assert_eq!(format!("{:.2}", 1.015_f64), "1.01");
        assert_eq!(format!("{}", ratio(1, 4)), "0.25");
    }

    #[test]
    fn round_to_count_takes_the_nearest() {
        assert_eq!(ratio(7, 3).round_to_count(), Some(2));
        assert_eq!(ratio(5, 2).round_to_count(), Some(3));
        assert_eq!(ratio(-1, 2).round_to_count(), None);
        assert_eq!(ratio(i128::from(u64::MAX), 1).round_to_count(), Some(u64::MAX));
        assert_eq!(ratio(i128::from(u64::MAX) * 2 + 1, 2).round_to_count(), None);
    }

    #[test]
    fn overflow_is_none() {
        assert_eq!(ratio(i128::MAX, 1).checked_add(Ratio::ONE), None);
        assert_eq!(ratio(i128::MAX, 1).checked_scale(2), None);
        assert_eq!(ratio(1, u128::MAX).checked_add(ratio(1, u128::MAX - 1)), None);
        assert_eq!(ratio(i128::MAX, 2).checked_scale(2), Some(ratio(i128::MAX, 1)));
    }

    #[test]
    fn f64_ties_go_to_even() {
        let tie = (1_i128 << 53) + 1;
        assert_eq!(ratio(tie, 1).to_f64().to_bits(), 9_007_199_254_740_992_f64.to_bits());
        assert_eq!(ratio(tie + 2, 1).to_f64().to_bits(), 9_007_199_254_740_996_f64.to_bits());
        // The same tie, broken by one part in 2^74.
        assert_eq!(ratio((tie << 70) + 1, 1 << 70).to_f64().to_bits(), 9_007_199_254_740_994_f64.to_bits());
        assert_eq!(ratio(i128::MAX, 1).to_f64().to_bits(), 2_f64.powi(127).to_bits());
        assert_eq!(ratio(1, u128::MAX).to_f64().to_bits(), 2_f64.powi(-128).to_bits());
        assert_eq!(ratio(i128::MIN, 1).to_f64().to_bits(), (-2_f64.powi(127)).to_bits());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// IEEE 754 division of two exactly represented integers is correctly rounded, so it must
        /// agree.
        #[test]
        fn f64_agrees_with_ieee_division(
            n in -(1_i64 << 53)..=(1 << 53),
            d in 1_u64..=(1 << 53),
            shift in 0_u32..53,
        ) {
            let d = (d >> shift).max(1);
            let got = ratio(n.into(), d.into()).to_f64();
            prop_assert_eq!(got.to_bits(), (n as f64 / d as f64).to_bits());
        }

        /// Scaling by a power of two scales the f64 exactly, also where the integers no longer fit
        /// an f64.
        #[test]
        fn f64_scales_by_powers_of_two(n in 1_u64.., d in 1_u64.., up in 0_u32..63, down in 0_u32..63) {
            let base = ratio(n.into(), d.into()).to_f64();
            let scaled = ratio(i128::from(n) << up, u128::from(d) << down).to_f64();
            let expected = base * 2_f64.powi(up.cast_signed()) / 2_f64.powi(down.cast_signed());
            prop_assert_eq!(scaled.to_bits(), expected.to_bits());
        }

        /// The integers themselves convert as the language converts them.
        #[test]
        fn f64_of_integers(n in any::<i128>()) {
            prop_assert_eq!(ratio(n, 1).to_f64().to_bits(), (n as f64).to_bits());
        }

        /// A printed value lies within half a unit of its last decimal.
        #[test]
        fn decimals_are_nearest(n in any::<i64>(), d in 1_u64..=u64::from(u32::MAX), decimals in 0_usize..9) {
            let text = format!("{:.decimals$}", ratio(n.into(), d.into()));
            let scale = 10_i128.pow(u32::try_from(decimals).unwrap());
            let printed: i128 = text.replace('.', "").parse().unwrap();
            // |printed/scale - n/d| <= 1/(2 scale), over the common denominator.
            let gap = (printed * i128::from(d) - i128::from(n) * scale).unsigned_abs();
            prop_assert!(2 * gap <= u128::from(d), "{n}/{d} printed as {text}");
        }

        #[test]
        fn order_agrees_with_cross_products(
            a in any::<i64>(),
            b in 1_u64..1 << 62,
            c in any::<i64>(),
            d in 1_u64..1 << 62,
        ) {
            let cross = (i128::from(a) * i128::from(d)).cmp(&(i128::from(c) * i128::from(b)));
            prop_assert_eq!(ratio(a.into(), b.into()).cmp(&ratio(c.into(), d.into())), cross);
        }

        #[test]
        fn sums_and_products_agree_with_cross_products(
            a in any::<i32>(),
            b in 1_u32..,
            c in any::<i32>(),
            d in 1_u32..,
            k in any::<u32>(),
        ) {
            let (a, b, c, d) = (i128::from(a), u128::from(b), i128::from(c), u128::from(d));
            let sum = ratio(a * d.cast_signed() + c * b.cast_signed(), b * d);
            prop_assert_eq!(ratio(a, b).checked_add(ratio(c, d)), Some(sum));
            prop_assert_eq!(ratio(a, b).checked_scale(k.into()), Some(ratio(a * i128::from(k), b)));
        }
    }
}
