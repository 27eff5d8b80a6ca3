//! A grid of values as pieces of surface in painter's order.
//!
//! The surface is a height field under a parallel projection from above. Of two points that fall on
//! one pixel, the one farther along the view's horizontal direction is the lower one, and hidden.
//! So painting cells from the far rows and columns to the near ones is exact, and no depth sort by
//! centroid, which errs on steep cells, is needed.

use super::view::Vec3;

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

    /// Cells from the far corner, where x and y are low, to the near one. A cell with one gap is
    /// the triangle of the others; one with more gaps is left out.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for column in 1..self.xs.len() {
            for row in 1..self.ys.len() {
                let around = [(column - 1, row - 1), (column, row - 1), (column, row), (column - 1, row)];
                let corners: Vec<Vec3> = around.iter().filter_map(|(c, r)| self.point(*c, *r)).collect();
                if corners.len() >= 3 {
                    cells.push(Cell { corners });
                }
            }
        }
        cells
    }
}

impl Cell {
    /// Splits the cell into `parts` by `parts` pieces, far to near, so that color can follow height
    /// within it. The bilinear patch through four corners stays the same surface however it is
    /// split; a triangle is a patch of which two corners are one.
    pub(crate) fn pieces(&self, parts: u32) -> impl Iterator<Item = [Vec3; 4]> {
        let corner = |index: usize| self.corners[index.min(self.corners.len() - 1)];
        let at = move |column: u32, row: u32| {
            let [across, along] = [column, row].map(|index| f64::from(index) / f64::from(parts));
            mix(mix(corner(0), corner(1), across), mix(corner(3), corner(2), across), along)
        };
        let places = (0..parts).flat_map(move |column| (0..parts).map(move |row| (column, row)));
        places.map(move |(column, row)| {
            [at(column, row), at(column + 1, row), at(column + 1, row + 1), at(column, row + 1)]
        })
    }
}

fn mix(a: Vec3, b: Vec3, t: f64) -> Vec3 {
    Vec3::new(a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t, a.z + (b.z - a.z) * t)
}

#[cfg(test)]
mod tests {
    use super::super::view::View;
    use super::*;

    fn area(outline: &[Vec3]) -> f64 {
        let next = outline.iter().cycle().skip(1);
        (outline.iter().zip(next).map(|(a, b)| a.x * b.y - b.x * a.y).sum::<f64>() / 2.0).abs()
    }

    fn grid(side: usize, height: impl Fn(f64, f64) -> Option<f64>) -> Grid {
        let steps: Vec<f64> = (0..side).map(|i| i as f64 / (side - 1) as f64).collect();
        let heights = steps.iter().flat_map(|y| steps.iter().map(|x| height(*x, *y))).collect();
        Grid { xs: steps.clone(), ys: steps, heights }
    }

    #[test]
    fn gaps_cut_cells_to_triangles_or_leave_them_out() {
        let sides = |grid: Grid| {
            let mut sides: Vec<usize> = grid.cells().iter().map(|cell| cell.corners.len()).collect();
            sides.sort_unstable();
            sides
        };
        assert_eq!(sides(grid(3, |_, _| Some(0.5))), [4, 4, 4, 4]);
        assert_eq!(sides(grid(3, |x, y| ((x, y) != (0.0, 0.0)).then_some(0.5))), [3, 4, 4, 4]);
        assert!(sides(grid(3, |x, y| ((x - y).abs() < 1e-9).then_some(0.5))).is_empty());
    }

    #[test]
    fn pieces_cover_their_cell() {
        let triangle = |x, y| (x + y < 1.5).then_some(0.0);
        for grid in [grid(2, |x, y| Some(x * y)), grid(2, triangle)] {
            for cell in grid.cells() {
                let pieces: Vec<_> = cell.pieces(4).collect();
                assert_eq!(pieces.len(), 16);
                let covered = pieces.iter().map(|piece| area(piece)).sum::<f64>();
                assert!((covered - area(&cell.corners)).abs() < 1e-12, "{cell:?}");
            }
        }
    }

    #[test]
    fn painting_order_is_back_to_front() {
        let view = View::fitted((0.0, 0.0), (700.0, 500.0));
        let far = |corners: &[Vec3]| corners.iter().map(|p| view.project(*p).1).sum::<f64>();
        let cells = grid(5, |_, _| Some(0.0)).cells();
        let order: Vec<f64> = cells.iter().map(|cell| far(&cell.corners)).collect();
        // Within one column of cells each is nearer (lower on the page) than the one before it.
        for column in order.chunks_exact(4) {
            assert!(column.is_sorted(), "{column:?}");
        }
        assert!(order[0] < order[15]);
        let pieces: Vec<f64> = cells[0].pieces(3).map(|piece| far(&piece)).collect();
        assert!(pieces.chunks_exact(3).all(<[f64]>::is_sorted), "{pieces:?}");
    }
}
