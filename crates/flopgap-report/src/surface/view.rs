use crate::picture::canvas::Point;

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

/// An orthographic view of the box from above, from one of its four corners.
///
/// Parallel projection keeps equal steps equal along an axis, so that values can be read off
/// against the ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct View {
    corner: Corner,
    scale: f64,
    origin: Point,
    /// Height of the box in units of its base.
    height: f64,
}

/// The corner of the base that is nearest to the viewer: whether it is at the high end of x and of
/// y.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Corner {
    pub(crate) x_high: bool,
    pub(crate) y_high: bool,
}

impl Corner {
    /// All four.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [
        NEAR,
        Self { x_high: false, y_high: false },
        Self { x_high: true, y_high: false },
        Self { x_high: false, y_high: true },
    ];

    /// Turn of the box about its vertical axis.
    fn yaw(self) -> f64 {
        let quarter = std::f64::consts::FRAC_PI_2;
        let turns = match (self.x_high, self.y_high) {
            (false, false) => 0.0,
            (false, true) => 1.0,
            (true, true) => 2.0,
            (true, false) => 3.0,
        };
        BASE_YAW + turns * quarter
    }
}

/// The corner from which every surface is seen, so that pictures of several metrics can be
/// compared: overheads fall with size, and from the large end nothing hides behind the hill of the
/// small sizes.
pub(crate) const NEAR: Corner = Corner { x_high: true, y_high: true };

/// Not 45°: a slight turn keeps vertical edges from covering each other.
const BASE_YAW: f64 = 0.70;
/// Angle of the view above the horizon.
const PITCH: f64 = 0.50;

impl View {
    /// The view from `corner` in arbitrary units around the origin.
    pub(crate) fn unscaled(corner: Corner, height: f64) -> Self {
        Self { corner, scale: 1.0, origin: (0.0, 0.0), height }
    }

    /// The view from `corner`, as large as fits between two opposite corners of a rectangle, and
    /// centered in it.
    pub(crate) fn fitted(corner: Corner, (left, top): Point, (right, bottom): Point) -> Self {
        // A taller box shows more of the values; it is as tall as the rectangle allows within these
        // bounds.
        let (base_width, base_depth) = Self::unscaled(corner, 0.0).extent();
        let scale = (right - left) / base_width;
        let height = (((bottom - top) / scale - base_depth) / PITCH.cos()).clamp(0.55, 0.85);
        let mut view = Self::unscaled(corner, height);
        let (width, depth) = view.extent();
        view.scale = ((right - left) / width).min((bottom - top) / depth).max(0.0);
        view.origin = (f64::midpoint(left, right), f64::midpoint(top, bottom));
        view
    }

    /// Width and height of the projected box in unscaled units.
    fn extent(&self) -> (f64, f64) {
        let base = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)];
        let corners = base.iter().flat_map(|(x, y)| [0.0, 1.0].map(|z| Vec3::new(*x, *y, z)));
        let flat = Self { scale: 1.0, origin: (0.0, 0.0), ..*self };
        let (mut low, mut high) = ((f64::MAX, f64::MAX), (f64::MIN, f64::MIN));
        for (x, y) in corners.map(|corner| flat.project(corner)) {
            low = (low.0.min(x), low.1.min(y));
            high = (high.0.max(x), high.1.max(y));
        }
        (high.0 - low.0, high.1 - low.1)
    }

    /// Where a point of the box is on the canvas.
    pub(crate) fn project(&self, point: Vec3) -> Point {
        let (sin, cos) = self.corner.yaw().sin_cos();
        let (x, y) = (point.x - 0.5, point.y - 0.5);
        let right = x * cos - y * sin;
        let away = x * sin + y * cos;
        let up = (point.z - 0.5) * self.height * PITCH.cos() + away * PITCH.sin();
        (self.origin.0 + right * self.scale, self.origin.1 - up * self.scale)
    }

    /// The corner nearest to the viewer.
    pub(crate) fn corner(&self) -> Corner {
        self.corner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_corner_is_the_nearest_one() {
        for corner in Corner::ALL {
            let view = View::unscaled(corner, 0.7);
            let at = |x_high: bool, y_high: bool| {
                view.project(Vec3::new(f64::from(u8::from(x_high)), f64::from(u8::from(y_high)), 0.0))
            };
            let near = at(corner.x_high, corner.y_high);
            for other in Corner::ALL.into_iter().filter(|other| *other != corner) {
                // Lower on the page is nearer, y grows downwards.
                assert!(near.1 > at(other.x_high, other.y_high).1, "{corner:?} {other:?}");
            }
        }
    }

    #[test]
    fn the_box_fits_its_rectangle() {
        for corner in Corner::ALL {
            for (right, bottom) in [(700.0, 500.0), (300.0, 900.0), (1200.0, 300.0)] {
                let view = View::fitted(corner, (0.0, 0.0), (right, bottom));
                for x in [0.0, 1.0] {
                    for y in [0.0, 1.0] {
                        for z in [0.0, 1.0] {
                            let (px, py) = view.project(Vec3::new(x, y, z));
                            assert!((-1e-6..=right + 1e-6).contains(&px), "{px} {right}");
                            assert!((-1e-6..=bottom + 1e-6).contains(&py), "{py} {bottom}");
                        }
                    }
                }
            }
        }
    }
}
