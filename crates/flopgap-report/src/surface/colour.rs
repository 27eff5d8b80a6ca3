/// An sRGB colour.
pub(crate) type Rgb = (u8, u8, u8);

/// The viridis map of matplotlib (CC0), every eighth of its 256 entries. Interpolating between these is within 2/255 of
/// the full table in each channel.
const VIRIDIS: [Rgb; 33] = [
    (68, 1, 84),
    (71, 13, 96),
    (72, 24, 106),
    (72, 35, 116),
    (71, 45, 123),
    (69, 55, 129),
    (66, 64, 134),
    (62, 73, 137),
    (59, 82, 139),
    (55, 91, 141),
    (51, 99, 141),
    (47, 107, 142),
    (44, 114, 142),
    (41, 122, 142),
    (38, 130, 142),
    (35, 137, 142),
    (33, 144, 140),
    (31, 151, 139),
    (31, 159, 136),
    (33, 166, 133),
    (39, 173, 129),
    (49, 181, 123),
    (62, 188, 116),
    (77, 194, 108),
    (92, 200, 99),
    (110, 206, 88),
    (130, 211, 77),
    (149, 216, 64),
    (170, 220, 50),
    (192, 223, 37),
    (213, 226, 26),
    (234, 229, 26),
    (253, 231, 37),
];

/// Evenly spaced stops of the map, for code outside this crate's drawing.
pub(crate) fn stops() -> &'static [Rgb] {
    &VIRIDIS
}

/// The viridis colour at `t` from 0 (dark violet) to 1 (yellow); values outside are clamped.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the table and to a byte before the cast"
)]
pub(crate) fn viridis(t: f64) -> Rgb {
    let last = VIRIDIS.len() - 1;
    let position = if t.is_nan() { 0.0 } else { t.clamp(0.0, 1.0) } * last as f64;
    let index = (position as usize).min(last - 1);
    let fraction = position - index as f64;
    let (from, to) = (VIRIDIS[index], VIRIDIS[index + 1]);
    let mix = |a: u8, b: u8| {
        (f64::from(a) + (f64::from(b) - f64::from(a)) * fraction).round().clamp(0.0, 255.0) as u8
    };
    (mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// Moves a colour towards black: 0 leaves it, 1 is black.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a byte scaled by at most one is a byte"
)]
pub(crate) fn darken((r, g, b): Rgb, amount: f64) -> Rgb {
    let scale = |c: u8| (f64::from(c) * (1.0 - amount.clamp(0.0, 1.0))).round() as u8;
    (scale(r), scale(g), scale(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_bounds() {
        assert_eq!(viridis(0.0), (68, 1, 84));
        assert_eq!(viridis(1.0), (253, 231, 37));
        assert_eq!(viridis(-3.0), viridis(0.0));
        assert_eq!(viridis(f64::INFINITY), viridis(1.0));
        assert_eq!(viridis(f64::NAN), viridis(0.0));
    }

    #[test]
    fn brightness_rises_all_the_way() {
        // Relative luminance weights: the property that makes the map readable in grey and by colour-blind readers.
        let brightness = |t: f64| {
            let (r, g, b) = viridis(t);
            0.2126 * f64::from(r) + 0.7152 * f64::from(g) + 0.0722 * f64::from(b)
        };
        let steps: Vec<f64> = (0..=32).map(|i| brightness(f64::from(i) / 32.0)).collect();
        assert!(steps.is_sorted(), "{steps:?}");
    }
}
