//! A grid of values as pieces of surface in painter's order.
//!
//! The surface is a height field under a parallel projection from above. Of two points that fall on
//! one pixel, the one farther along the view's horizontal direction is the lower one, and hidden.
//! So painting cells from the far rows and columns to the near ones is exact, and no depth sort by
//! centroid, which errs on steep cells, is needed.

use super::view::{Corner, Vec3};

/// Values over a grid, scaled to the box: positions and heights from 0 to 1.
pub(crate) struct Grid {
    pub(crate) xs: Vec<f64>,
    pub(crate) ys: Vec<f64>,
    /// Height for each y and, within it, each x; `None` where nothing was measured.
    pub(crate) heights: Vec<Option<f64>>,
}

/// The surface between neighboring grid points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    /// The grid points that bound the cell, in order around it: four, or three next to a gap.
    pub(crate) corners: Vec<Vec3>,
}

impl Grid {
    pub(crate) fn point(&self, column: usize, row: usize) -> Option<Vec3> {
        let height = *self.heights.get(row * self.xs.len() + column)?;
        Some(Vec3::new(*self.xs.get(column)?, *self.ys.get(row)?, height?))
    }

    /// Cells from the far corner to the near one. A cell with one gap is the triangle of the
    /// others; one with more gaps is left out.
    pub(crate) fn cells(&self, near: Corner) -> Vec<Cell> {
        let columns = far_to_near(self.xs.len().saturating_sub(1), near.x_high);
        let mut cells = Vec::new();
        for column in columns {
            for row in far_to_near(self.ys.len().saturating_sub(1), near.y_high) {
                let around = [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)];
                let corners: Vec<Vec3> = around.iter().filter_map(|(c, r)| self.point(*c, *r)).collect();
                if corners.len() >= 3 {
                    cells.push(Cell { corners });
                }
            }
        }
        cells
    }

    /// Measured points that bound no cell: they would not be seen otherwise.
    pub(crate) fn lone_points(&self) -> Vec<Vec3> {
        let mut lone = Vec::new();
        for row in 0..self.ys.len() {
            for column in 0..self.xs.len() {
                if let Some(point) = self.point(column, row)
                    && !self.bounds_a_cell(column, row)
                {
                    lone.push(point);
                }
            }
        }
        lone
    }

    fn bounds_a_cell(&self, column: usize, row: usize) -> bool {
        let around = |c: usize, r: usize| {
            [(c, r), (c + 1, r), (c, r + 1), (c + 1, r + 1)]
                .iter()
                .filter(|(c, r)| self.point(*c, *r).is_some())
                .count()
        };
        let starts =
            |i: usize, len: usize| [i.checked_sub(1), (i + 1 < len).then_some(i)].into_iter().flatten();
        starts(column, self.xs.len()).any(|c| starts(row, self.ys.len()).any(|r| around(c, r) >= 3))
    }
}

/// Indices from the far end to the near end, where the near end is the high one or the low one.
fn far_to_near(count: usize, near_is_high: bool) -> Box<dyn Iterator<Item = usize>> {
    if near_is_high { Box::new(0..count) } else { Box::new((0..count).rev()) }
}

impl Cell {
    /// Splits the cell into `parts` by `parts` pieces, far to near, so that color can follow height
    /// within it. The bilinear patch through four corners stays the same surface however it is
    /// split; a triangle is split likewise.
    pub(crate) fn pieces(&self, parts: u32, near: Corner) -> Vec<Vec<Vec3>> {
        match self.corners[..] {
            [first, second, third, fourth] => patch_pieces([first, second, third, fourth], parts, near),
            [first, second, third] => triangle_pieces([first, second, third], parts),
            _ => Vec::new(),
        }
    }
}

fn patch_pieces(corners: [Vec3; 4], parts: u32, near: Corner) -> Vec<Vec<Vec3>> {
    let at = |column: u32, row: u32| {
        let (across, along) = (share(column, parts), share(row, parts));
        mix(mix(corners[0], corners[1], across), mix(corners[3], corners[2], across), along)
    };
    let order = |near_is_high: bool| (0..parts).map(move |i| if near_is_high { i } else { parts - 1 - i });
    order(near.x_high)
        .flat_map(|column| order(near.y_high).map(move |row| (column, row)))
        .map(|(column, row)| {
            vec![at(column, row), at(column + 1, row), at(column + 1, row + 1), at(column, row + 1)]
        })
        .collect()
}

/// A plane does not hide itself: any order will do.
fn triangle_pieces(corners: [Vec3; 3], parts: u32) -> Vec<Vec<Vec3>> {
    let at = |column: u32, row: u32| {
        // Along the side to the second corner, then parallel to the side to the third one.
        let (across, along) = (share(column, parts), share(row, parts));
        let from_first = mix(corners[0], corners[1], across);
        Vec3::new(
            from_first.x + (corners[2].x - corners[0].x) * along,
            from_first.y + (corners[2].y - corners[0].y) * along,
            from_first.z + (corners[2].z - corners[0].z) * along,
        )
    };
    let mut pieces = Vec::new();
    for column in 0..parts {
        for row in 0..parts - column {
            pieces.push(vec![at(column, row), at(column + 1, row), at(column, row + 1)]);
            if column + row + 1 < parts {
                pieces.push(vec![at(column + 1, row), at(column + 1, row + 1), at(column, row + 1)]);
            }
        }
    }
    pieces
}

fn share(index: u32, parts: u32) -> f64 {
    f64::from(index) / f64::from(parts)
}

fn mix(a: Vec3, b: Vec3, t: f64) -> Vec3 {
    Vec3::new(a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t, a.z + (b.z - a.z) * t)
}

#[cfg(test)]
mod tests {
    use super::super::view::View;
    use super::*;

    fn signed_area(outline: &[(f64, f64)]) -> f64 {
        let next = outline.iter().cycle().skip(1);
        outline.iter().zip(next).map(|(a, b)| a.0 * b.1 - b.0 * a.1).sum::<f64>() / 2.0
    }

    fn grid(side: usize, height: impl Fn(f64, f64) -> Option<f64>) -> Grid {
        let steps: Vec<f64> = (0..side).map(|i| i as f64 / (side - 1) as f64).collect();
        let heights = steps.iter().flat_map(|y| steps.iter().map(|x| height(*x, *y))).collect();
        Grid { xs: steps.clone(), ys: steps, heights }
    }

    #[test]
    fn gaps_cut_cells_to_triangles_or_leave_them_out() {
        let full = grid(3, |_, _| Some(0.5));
        assert_eq!(full.cells(Corner::ALL[0]).len(), 4);
        assert!(full.lone_points().is_empty());

        let hole = grid(3, |x, y| ((x, y) != (0.0, 0.0)).then_some(0.5));
        let mut sides: Vec<usize> =
            hole.cells(Corner::ALL[0]).iter().map(|cell| cell.corners.len()).collect();
        sides.sort_unstable();
        assert_eq!(sides, [3, 4, 4, 4]);
        assert!(hole.lone_points().is_empty());

        let diagonal = grid(3, |x, y| ((x - y).abs() < 1e-9).then_some(0.5));
        assert!(diagonal.cells(Corner::ALL[0]).is_empty());
        assert_eq!(diagonal.lone_points().len(), 3);
    }

    #[test]
    fn pieces_cover_their_cell() {
        let area = |outline: &[Vec3]| {
            let flat: Vec<_> = outline.iter().map(|p| (p.x, p.y)).collect();
            signed_area(&flat).abs()
        };
        for cell in grid(2, |x, y| Some(x * y)).cells(Corner::ALL[0]) {
            let pieces = cell.pieces(4, Corner::ALL[0]);
            assert_eq!(pieces.len(), 16);
            assert!((pieces.iter().map(|p| area(p)).sum::<f64>() - area(&cell.corners)).abs() < 1e-12);
        }
        let triangle = grid(2, |x, y| (x + y < 1.5).then_some(0.0)).cells(Corner::ALL[0]).remove(0);
        let pieces = triangle.pieces(3, Corner::ALL[0]);
        assert_eq!(pieces.len(), 9);
        assert!((pieces.iter().map(|p| area(p)).sum::<f64>() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn painting_order_is_back_to_front() {
        for corner in Corner::ALL {
            let view = View::unscaled(corner, 0.0);
            let cells = grid(5, |_, _| Some(0.0)).cells(corner);
            let far: Vec<f64> = cells
                .iter()
                .map(|cell| cell.corners.iter().map(|p| view.project(*p).1).sum::<f64>())
                .collect();
            // Within one column of cells each is nearer (lower on the page) than the one before it.
            for column in far.chunks_exact(4) {
                assert!(column.is_sorted(), "{corner:?} {column:?}");
            }
            assert!(far[0] < far[15], "{corner:?}");
        }
    }
}
