//! The picture that the network learns, made by a formula: a sky with a sun, two ridges, water with
//! reflections, and a chequered buoy. It has smooth gradients, sharp edges and fine detail.

use std::f32::consts::TAU;

use flopgap_mlp::numerics::uniform;

use crate::common::byte;

/// Width and height in pixels.
pub(crate) const SIDE: usize = 256;

type Color = [f32; 3];

fn mix(a: Color, b: Color, t: f32) -> Color {
    let t = t.clamp(0.0, 1.0);
    [0, 1, 2].map(|channel| a[channel] + (b[channel] - a[channel]) * t)
}

/// The height of a ridge at `u`.
fn ridge(u: f32, base: f32, size: f32, phase: f32) -> f32 {
    let wave = |frequency: f32, weight: f32| weight * (TAU * frequency * u + phase * frequency).sin();
    base + size * (wave(1.3, 0.6) + wave(3.1, 0.3) + wave(7.7, 0.12) + wave(19.0, 0.05))
}

/// Above the horizon: `v` is 0 at the top and 1 at the bottom of the picture.
fn land(u: f32, v: f32) -> Color {
    let (du, dv) = (u - 0.68, v - 0.27);
    let distance = (du * du + dv * dv).sqrt();
    let sky = mix([0.11, 0.18, 0.42], [0.98, 0.62, 0.35], v / 0.6);
    let glow = mix(sky, [1.0, 0.86, 0.55], (-8.0 * distance).exp());
    let sky = if distance < 0.075 { [1.0, 0.96, 0.82] } else { glow };
    if v > ridge(u, 0.52, 0.05, 2.0) {
        let snow = v < ridge(u, 0.52, 0.05, 2.0) + 0.012 + 0.01 * (90.0 * u).sin();
        return if snow {
            [0.9, 0.92, 0.97]
        } else {
            mix([0.24, 0.22, 0.36], [0.12, 0.12, 0.2], (v - 0.45) * 6.0)
        };
    }
    if v > ridge(u, 0.43, 0.07, 0.4) {
        return mix([0.45, 0.36, 0.5], [0.62, 0.45, 0.48], (v - 0.36) * 6.0);
    }
    sky
}

/// The color at a place of the unit square.
pub(crate) fn color(u: f32, v: f32) -> Color {
    const HORIZON: f32 = 0.62;
    // The buoy: a disc with chequers over everything else.
    let (du, dv) = (u - 0.27, v - 0.78);
    if du * du + dv * dv < 0.011 {
        let odd = ((du * 60.0).floor() + (dv * 60.0).floor()).rem_euclid(2.0) > 0.5;
        return if odd { [0.92, 0.9, 0.86] } else { [0.8, 0.13, 0.12] };
    }
    if v < HORIZON {
        return land(u, v);
    }
    // Water mirrors the land, bent by waves that are finer in the distance.
    let depth = (v - HORIZON) / (1.0 - HORIZON);
    let wave = (24.0 / (0.12 + depth)).sin() * 0.02 * (0.3 + depth);
    let mirrored = land((u + wave).clamp(0.0, 1.0), (HORIZON - (v - HORIZON) * 0.95 + wave).clamp(0.0, 1.0));
    mix(
        mix(mirrored, [0.05, 0.16, 0.25], 0.25 + 0.5 * depth),
        [1.0, 0.9, 0.7],
        if wave > 0.016 { 0.35 } else { 0.0 },
    )
}

/// Directions of the encoding.
const WAVES: usize = 32;
/// Numbers that the network is given for a place: a sine and a cosine for each wave.
pub(crate) const FEATURES: usize = 2 * WAVES;
/// Standard deviation of the waves' frequencies, in periods over the picture.
const SPREAD: f32 = 9.0;

/// The random Fourier features of Tancik and others (2020): waves with normally distributed
/// frequencies, the same ones in every run.
fn waves() -> Vec<[f32; 2]> {
    let positive = |index: usize| 0.5 + 0.5 * uniform(7, index as u64);
    let wave = |index: usize| {
        // Box and Muller's pair of normal numbers.
        let radius = SPREAD * (-2.0 * (1.0 - positive(2 * index)).max(1e-7).ln()).sqrt();
        let angle = TAU * positive(2 * index + 1);
        [radius * angle.cos(), radius * angle.sin()]
    };
    (0..WAVES).map(wave).collect()
}

/// All pixels in the order in which the network sees them.
pub(crate) struct Pixels {
    /// `pixels x 2`: places in the unit square.
    pub(crate) places: Vec<f32>,
    /// `pixels x 3`.
    pub(crate) colors: Vec<f32>,
    /// The pixel of each row of the others, counted along the rows of the picture.
    pub(crate) order: Vec<usize>,
}

impl Pixels {
    /// In an order that mixes the picture: steps of a number without a common factor with the
    /// number of pixels.
    pub(crate) fn mixed() -> Self {
        const STEP: usize = 40_503;
        let order: Vec<usize> = (0..SIDE * SIDE).map(|index| index * STEP % (SIDE * SIDE)).collect();
        let place = |pixel: usize| {
            let middle = |index: usize| (index as f32 + 0.5) / SIDE as f32;
            (middle(pixel % SIDE), middle(pixel / SIDE))
        };
        let places = order.iter().flat_map(|&pixel| <[f32; 2]>::from(place(pixel))).collect();
        let colors = order.iter().flat_map(|&pixel| color(place(pixel).0, place(pixel).1)).collect();
        Pixels { places, colors, order }
    }

    /// What the network takes of random Fourier features: `pixels x FEATURES`.
    pub(crate) fn features(&self) -> Vec<f32> {
        let waves = waves();
        let of_place = |place: &[f32]| {
            let phase = |wave: &[f32; 2]| TAU * (wave[0] * place[0] + wave[1] * place[1]);
            waves.iter().flat_map(|wave| <[f32; 2]>::from(phase(wave).sin_cos())).collect::<Vec<_>>()
        };
        self.places.chunks_exact(2).flat_map(of_place).collect()
    }

    /// The picture of colors in the mixed order, in bytes.
    pub(crate) fn picture(&self, colors: &[f32]) -> Vec<u8> {
        let mut bytes = vec![0; 3 * SIDE * SIDE];
        for (color, &pixel) in colors.chunks_exact(3).zip(&self.order) {
            bytes[3 * pixel..3 * pixel + 3].iter_mut().zip(color).for_each(|(to, &value)| *to = byte(value));
        }
        bytes
    }
}
