use crate::svg::Point;

/// A point in the box of the plot: each coordinate from 0 to 1, `z` upwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Vec3 {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) z: f64,
}

impl Vec3 {
    pub(crate) fn new(x: f64, y: f64, z: f64) -> Self {
        Self { x, y, z }
    }
}

/// An orthographic view of the box from above, from the corner where both x and y are high.
///
/// Parallel projection keeps equal steps equal along an axis, so that values can be read off
/// against the ticks. The corner is the same for all surfaces, so that pictures of several metrics
/// can be compared: overheads fall with size, and from the large end nothing hides behind the hill
/// of the small sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct View {
    scale: f64,
    origin: Point,
    /// Height of the box in units of its base.
    height: f64,
}

/// Turn of the box about its vertical axis. Not 45° beyond the half turn: a slight turn keeps
/// vertical edges from covering each other.
const YAW: f64 = std::f64::consts::PI + 0.70;
/// Angle of the view above the horizon.
const PITCH: f64 = 0.50;

impl View {
    /// The view as large as fits between two opposite corners of a rectangle, and centered in it.
    pub(crate) fn fitted((left, top): Point, (right, bottom): Point) -> Self {
        let mut view = Self { scale: 1.0, origin: (0.0, 0.0), height: 0.0 };
        // A taller box shows more of the values; it is as tall as the rectangle allows within these
        // bounds.
        let (base_width, base_depth) = view.extent();
        let scale = (right - left) / base_width;
        view.height = (((bottom - top) / scale - base_depth) / PITCH.cos()).clamp(0.55, 0.85);
        let (width, depth) = view.extent();
        view.scale = ((right - left) / width).min((bottom - top) / depth).max(0.0);
        view.origin = (f64::midpoint(left, right), f64::midpoint(top, bottom));
        view
    }

    /// Width and height of the projected box, which is centered on the origin.
    fn extent(&self) -> (f64, f64) {
        let corners = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)];
        let corners = corners.iter().flat_map(|(x, y)| [0.0, 1.0].map(|z| Vec3::new(*x, *y, z)));
        corners
            .map(|corner| self.project(corner))
            .fold((0.0, 0.0), |(width, depth), (x, y)| (width.max(2.0 * x.abs()), depth.max(2.0 * y.abs())))
    }

    /// Where a point of the box is in the picture.
    pub(crate) fn project(&self, point: Vec3) -> Point {
        let (sin, cos) = YAW.sin_cos();
        let (x, y) = (point.x - 0.5, point.y - 0.5);
        let right = x * cos - y * sin;
        let away = x * sin + y * cos;
        let up = (point.z - 0.5) * self.height * PITCH.cos() + away * PITCH.sin();
        (self.origin.0 + right * self.scale, self.origin.1 - up * self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_ends_are_nearest() {
        let view = View::fitted((0.0, 0.0), (700.0, 500.0));
        let lowest = |x, y| view.project(Vec3::new(x, y, 0.0)).1;
        // Lower on the page is nearer, y grows downwards.
        for (x, y) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)] {
            assert!(lowest(1.0, 1.0) > lowest(x, y), "{x} {y}");
        }
    }

    #[test]
    fn the_box_fits_its_rectangle() {
        for (right, bottom) in [(700.0, 500.0), (300.0, 900.0), (1200.0, 300.0)] {
            let view = View::fitted((0.0, 0.0), (right, bottom));
            for corner in 0..8_u8 {
                let at = |bit: u8| f64::from(corner >> bit & 1);
                let (x, y) = view.project(Vec3::new(at(0), at(1), at(2)));
                assert!((-1e-6..=right + 1e-6).contains(&x), "{x} {right}");
                assert!((-1e-6..=bottom + 1e-6).contains(&y), "{y} {bottom}");
            }
        }
    }
}
