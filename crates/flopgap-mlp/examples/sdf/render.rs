//! A picture of a surface, by sphere tracing.

use crate::common::{Failure, byte};
use crate::shape::{Point, length};

/// Steps of a ray. A step is a little shorter than the distance, which may be learned.
const STEPS: usize = 96;
const SHORTER: f32 = 0.9;
/// What counts as the surface.
const NEAR: f32 = 1e-3;
/// Half the difference that a normal is computed from.
const STEP: f32 = 0.005;

fn along(from: Point, direction: Point, by: f32) -> Point {
    [0, 1, 2].map(|d| from[d] + by * direction[d])
}

fn dot(a: Point, b: Point) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn normalized(v: Point) -> Point {
    let length = length(&v).max(1e-9);
    v.map(|x| x / length)
}

fn cross(a: Point, b: Point) -> Point {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// A ray between where it enters the unit cube and where it leaves it; it misses the cube where the
/// first is not before the second.
struct Ray {
    direction: Point,
    at: Point,
    left: f32,
}

/// The rays of a camera that looks at the middle of the cube from above, row by row.
fn rays(side: usize) -> Vec<Ray> {
    let eye: Point = [1.25, 1.45, -0.75];
    let forward = normalized(eye.map(|x| 0.5 - x));
    let right = normalized(cross([0.0, 1.0, 0.0], forward));
    let up = cross(forward, right);
    let of_pixel = |pixel: usize| {
        let middle = |index: usize| (index as f32 + 0.5) / side as f32 - 0.5;
        let (u, v) = (0.52 * middle(pixel % side), -0.52 * middle(pixel / side));
        let direction = normalized([0, 1, 2].map(|d| forward[d] + u * right[d] + v * up[d]));
        let (mut enter, mut leave) = (0.0_f32, f32::INFINITY);
        for d in 0..3 {
            let (a, b) = (-eye[d] / direction[d], (1.0 - eye[d]) / direction[d]);
            (enter, leave) = (enter.max(a.min(b)), leave.min(a.max(b)));
        }
        Ray { direction, at: along(eye, direction, enter), left: leave - enter }
    };
    (0..side * side).map(of_pixel).collect()
}

/// The distances of places of the unit cube.
pub(crate) type Distances<'a> = dyn FnMut(&[f32]) -> Result<Vec<f32>, Failure> + 'a;

/// A picture of the surface with these distances: `side x side` pixels, 3 bytes each.
pub(crate) fn picture(side: usize, distances: &mut Distances<'_>) -> Result<Vec<u8>, Failure> {
    let mut rays = rays(side);
    let places = |rays: &[Ray], offset: Point| -> Vec<f32> {
        rays.iter().flat_map(|ray| along(ray.at, offset, 1.0)).collect()
    };
    for _ in 0..STEPS {
        let far = distances(&places(&rays, [0.0; 3]))?;
        for (ray, far) in rays.iter_mut().zip(far) {
            if far > NEAR && ray.left > 0.0 {
                ray.at = along(ray.at, ray.direction, SHORTER * far);
                ray.left -= SHORTER * far;
            }
        }
    }
    let mut normals = vec![[0.0; 3]; rays.len()];
    for d in 0..3 {
        for sign in [1.0, -1.0] {
            let mut offset = [0.0; 3];
            offset[d] = sign * STEP;
            let far = distances(&places(&rays, offset))?;
            normals.iter_mut().zip(far).for_each(|(normal, far)| normal[d] += sign * far);
        }
    }
    let light = normalized([0.6, 1.0, -0.3]);
    let colors = rays.iter().zip(normals).enumerate().flat_map(|(pixel, (ray, normal))| {
        let height = (pixel / side) as f32 / side as f32;
        if ray.left <= 0.0 {
            return [0.93 - 0.25 * height, 0.95 - 0.2 * height, 0.98 - 0.12 * height];
        }
        let normal = normalized(normal);
        let shade = 0.3 + 0.65 * dot(normal, light).max(0.0);
        let gloss =
            (dot(normal, normalized([0, 1, 2].map(|d| light[d] - ray.direction[d])))).max(0.0).powi(40);
        [0.9, 0.5, 0.3].map(|color| color * shade + 0.35 * gloss)
    });
    Ok(colors.map(byte).collect())
}
