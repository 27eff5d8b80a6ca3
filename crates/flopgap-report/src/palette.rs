//! Every color of this crate's pictures and pages, in one place.
//!
//! Values are drawn on [`RAMP`], from pale (little) to dark (much), things of different kinds in
//! [`CATEGORIES_LIGHT`] and [`CATEGORIES_DARK`], and what is around them in the colors of a
//! [`Theme`]. Pages get the same numbers as pictures, so that a color
//! means the same in both. The tests hold what readers with deuteranopia can tell apart.

/// An sRGB color.
pub(crate) type Rgb = (u8, u8, u8);

/// Matplotlib's inferno map (CC0) from pale to dark: every tenth of its entries from 250 down
/// to 30. Interpolating between these is within 3/255 of the full table in each channel.
const RAMP: [Rgb; 23] = [
    (245, 249, 146),
    (242, 234, 105),
    (246, 215, 70),
    (250, 196, 42),
    (252, 176, 20),
    (251, 157, 7),
    (249, 139, 11),
    (244, 121, 24),
    (237, 105, 37),
    (228, 90, 49),
    (217, 77, 61),
    (204, 66, 72),
    (191, 57, 82),
    (176, 49, 91),
    (160, 42, 99),
    (144, 37, 104),
    (128, 31, 108),
    (113, 25, 110),
    (97, 19, 110),
    (81, 14, 108),
    (64, 10, 103),
    (47, 10, 91),
    (30, 12, 69),
];

/// The ramp's color at `t` from 0 (pale yellow) to 1 (nearly black); values outside are clamped.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the table")]
pub(crate) fn ramp(t: f64) -> Rgb {
    let last = RAMP.len() - 1;
    let position = if t.is_nan() { 0.0 } else { t.clamp(0.0, 1.0) } * last as f64;
    let index = (position as usize).min(last - 1);
    mix(RAMP[index], RAMP[index + 1], position - index as f64)
}

/// Moves a color towards black: 0 leaves it, 1 is black.
pub(crate) fn darken(color: Rgb, amount: f64) -> Rgb {
    mix(color, (0, 0, 0), amount)
}

/// A color between two others.
fn mix(from: Rgb, to: Rgb, share: f64) -> Rgb {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
    let channel = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
    (channel(from.0, to.0), channel(from.1, to.1), channel(from.2, to.2))
}

/// Colors of things that are distinguished, on white: found by simulated annealing, so that any two
/// differ as much as possible for ordinary vision, deuteranopia and protanopia. The last one is
/// gray, for what is left over.
pub(crate) const CATEGORIES_LIGHT: [&str; 17] = [
    "#0e57b8", "#63242f", "#50b6f9", "#680177", "#1ac94d", "#7e0902", "#5359fd", "#572951", "#668dff",
    "#2200f4", "#886843", "#d9a08f", "#2318b0", "#8b7000", "#a271b8", "#eb92c2", "#6b7280",
];
/// The same on black.
pub(crate) const CATEGORIES_DARK: [&str; 17] = [
    "#157081", "#855d00", "#0c8b6a", "#9582c2", "#46cb16", "#c80348", "#388ef2", "#ecf82a", "#2edefd",
    "#9a13f1", "#82fec7", "#c8864d", "#7e4bb2", "#e0f77b", "#94f1ec", "#87e489", "#9aa3af",
];

/// Letters on a color: white or black, whichever has the greater contrast.
pub(crate) fn letters_on(color: &str) -> &'static str {
    // Both have the same contrast on this luminance: (1.05 / (l + 0.05)) = ((l + 0.05) / 0.05).
    if luminance(rgb(color)) > 0.179 { "#000000" } else { "#ffffff" }
}

/// A color as it is written in SVG.
pub(crate) fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// A color written `#rrggbb`.
fn rgb(color: &str) -> Rgb {
    let channel =
        |at: usize| color.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0);
    (channel(1), channel(3), channel(5))
}

/// Red, green and blue in proportion to light.
fn linear((r, g, b): Rgb) -> [f64; 3] {
    [r, g, b].map(|channel| {
        let value = f64::from(channel) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

/// The relative luminance of WCAG 2.1.
fn luminance(color: Rgb) -> f64 {
    let [r, g, b] = linear(color);
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

/// What is around the data, by its name in style sheets: the paper, a surface that stands out a
/// little from it, letters, grids, and axes with outlines.
pub(crate) type Theme = [(&'static str, &'static str); 6];

/// For readers who prefer light.
pub(crate) const LIGHT: Theme = [
    ("paper", "#ffffff"),
    ("raised", "#f6f7f9"),
    ("ink", "#1f2430"),
    ("muted", "#565d6b"),
    ("line", "#d9dce2"),
    ("edge", "#969ca8"),
];
/// For readers who prefer dark.
pub(crate) const DARK: Theme = [
    ("paper", "#15181e"),
    ("raised", "#1e222b"),
    ("ink", "#e6e9ef"),
    ("muted", "#a4abb8"),
    ("line", "#363c48"),
    ("edge", "#6b7280"),
];

/// How colors look to people, for the tests of whatever draws with them.
#[cfg(test)]
pub(crate) mod seen {
    use super::{Rgb, linear, luminance};

    /// The contrast ratio of WCAG 2.1.
    pub(crate) fn contrast(a: Rgb, b: Rgb) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// Linear RGB of a color as complete deuteranopia sees it (Machado, Oliveira and Fernandes
    /// 2009, severity 1.0).
    fn deuteranopia(color: Rgb) -> [f64; 3] {
        const MATRIX: [[f64; 3]; 3] = [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ];
        let rgb = linear(color);
        MATRIX.map(|row| row.iter().zip(rgb).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0))
    }

    /// CIE L*a*b* (D65) of linear RGB.
    fn lab(rgb: [f64; 3]) -> [f64; 3] {
        /// To XYZ, each divided by that of white.
        const MATRIX: [[f64; 3]; 3] = [
            [0.412_456 / 0.950_47, 0.357_576 / 0.950_47, 0.180_437 / 0.950_47],
            [0.212_673, 0.715_152, 0.072_175],
            [0.019_334 / 1.088_83, 0.119_192 / 1.088_83, 0.950_304 / 1.088_83],
        ];
        let [x, y, z] = MATRIX.map(|row| {
            let t = row.iter().zip(rgb).map(|(a, b)| a * b).sum::<f64>();
            if t > 216.0 / 24_389.0 { t.cbrt() } else { (24_389.0 / 27.0 * t + 16.0) / 116.0 }
        });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    /// CIE76 difference of two colors, the smaller one of ordinary vision and deuteranopia. Above
    /// 10, they are distinguished at a glance.
    pub(crate) fn difference(a: Rgb, b: Rgb) -> f64 {
        let ordinary = distance(lab(linear(a)), lab(linear(b)));
        ordinary.min(distance(lab(deuteranopia(a)), lab(deuteranopia(b))))
    }

    /// Lightness L* as deuteranopia sees it.
    pub(crate) fn lightness(color: Rgb) -> f64 {
        lab(deuteranopia(color))[0]
    }
}

#[cfg(test)]
mod tests {
    use super::seen::{contrast, difference, lightness};
    use super::*;

    #[test]
    fn ends_and_bounds() {
        assert_eq!(ramp(0.0), RAMP[0]);
        assert_eq!(ramp(1.0), RAMP[RAMP.len() - 1]);
        assert_eq!(ramp(-3.0), ramp(0.0));
        assert_eq!(ramp(f64::INFINITY), ramp(1.0));
        assert_eq!(ramp(f64::NAN), ramp(0.0));
    }

    /// What makes the ramp readable in gray and with deuteranopia.
    #[test]
    fn the_ramp_darkens_all_the_way() {
        let steps: Vec<f64> = (0..=44).map(|i| lightness(ramp(f64::from(i) / 44.0))).collect();
        assert!(steps.windows(2).all(|pair| pair[0] > pair[1]), "{steps:?}");
    }

    /// As many classes as a heatmap has at most.
    #[test]
    fn eight_steps_of_the_ramp_differ_at_a_glance() {
        let colors: Vec<Rgb> = (0..8).map(|i| ramp(f64::from(i) / 7.0)).collect();
        for pair in colors.windows(2) {
            let difference = difference(pair[0], pair[1]);
            assert!(difference > 10.0, "{pair:?}: {difference}");
        }
    }

    /// The threshold is that of WCAG 2.1, level AA, for text.
    #[test]
    fn letters_stand_out_from_every_color() {
        for color in CATEGORIES_LIGHT.iter().chain(&CATEGORIES_DARK) {
            let contrast = contrast(rgb(color), rgb(letters_on(color)));
            assert!(contrast >= 4.5, "{color}: {contrast}");
        }
    }

    /// Before, two colors differed by 2.5 for readers with deuteranopia: they could not be
    /// distinguished.
    #[test]
    fn any_two_categories_differ_at_a_glance() {
        for colors in [CATEGORIES_LIGHT, CATEGORIES_DARK] {
            for (at, one) in colors.iter().enumerate() {
                for other in &colors[at + 1..] {
                    let difference = difference(rgb(one), rgb(other));
                    assert!(difference > 18.0, "{one} and {other}: {difference}");
                }
            }
        }
    }
}
