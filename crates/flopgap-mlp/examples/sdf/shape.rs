//! The shape: a torus joined smoothly with a box, and samples of its distance.

use flopgap_mlp::numerics::uniform;

pub(crate) type Point = [f32; 3];

pub(crate) fn length(v: &[f32]) -> f32 {
    v.iter().map(|x| x * x).sum::<f32>().sqrt()
}

/// The signed distance of a place of the unit cube from the surface: negative inside. Where the two
/// parts join, it is a little less than the true one.
pub(crate) fn distance(place: Point) -> f32 {
    const JOINT: f32 = 0.08;
    let [x, y, z] = place.map(|x| x - 0.5);
    let torus = length(&[length(&[x, z]) - 0.27, y]) - 0.09;
    let beyond = [x.abs() - 0.2, y.abs() - 0.11, z.abs() - 0.07];
    let inside = beyond.into_iter().fold(f32::NEG_INFINITY, f32::max).min(0.0);
    let block = length(&beyond.map(|x| x.max(0.0))) + inside;
    let near = (JOINT - (torus - block).abs()).max(0.0) / JOINT;
    torus.min(block) - near * near * JOINT / 4.0
}

/// Its gradient, by differences.
fn slope(place: Point) -> Point {
    const STEP: f32 = 1e-3;
    [0, 1, 2].map(|d| {
        let moved = |by: f32| {
            let mut place = place;
            place[d] += by;
            distance(place)
        };
        (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
    })
}

/// Places of the unit cube: every second anywhere, the others near the surface.
pub(crate) fn places(seed: u64, count: usize) -> Vec<f32> {
    let of_index = |index: u64| {
        let mut place = [0, 1, 2].map(|d| 0.5 + 0.5 * uniform(seed, 6 * index + d));
        if index.is_multiple_of(2) {
            return place;
        }
        let (far, slope) = (distance(place), slope(place));
        for d in 0..3 {
            let off = 0.02 * uniform(seed, 6 * index + 3 + d as u64);
            place[d] = (place[d] - far * slope[d] + off).clamp(0.0, 1.0);
        }
        place
    };
    (0..count as u64).flat_map(of_index).collect()
}

/// The distance of each place.
pub(crate) fn distances(places: &[f32]) -> Vec<f32> {
    places.chunks_exact(3).map(|place| distance([place[0], place[1], place[2]])).collect()
}
