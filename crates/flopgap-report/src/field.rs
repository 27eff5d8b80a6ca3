//! Things over two quantities, with what is missing.

use crate::ReportError;
use crate::axis::AxisLabel;
use crate::numbers::exact;

/// Grid points beyond which a grid is refused: no reader sees more, and the picture would be huge.
const MOST_POINTS: usize = 250_000;

/// A grid: the values of both axes in increasing order, and what is at each place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field<T> {
    pub(crate) xs: Vec<f64>,
    pub(crate) ys: Vec<f64>,
    /// For each y and, within it, each x; `None` where nothing was requested: the grid has the
    /// place because its row and its column have others.
    pub(crate) places: Vec<Option<T>>,
}

/// Things with their places, and a name for messages.
pub(crate) type Set<T> = (String, Vec<(f64, f64, T)>);

impl<T: Copy> Field<T> {
    /// One grid for each of several sets of points, in any order, all with the axes that they have
    /// together. `value` is what must be finite.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] for a coordinate or value that is not finite, for two points at
    /// one place, and for more than 250,000 places in a grid.
    pub(crate) fn of(
        (x, y): (&AxisLabel, &AxisLabel),
        sets: &[Set<T>],
        value: impl Fn(T) -> Option<f64>,
    ) -> Result<Vec<Self>, ReportError> {
        let invalid =
            |title: &str, reason: String| ReportError::InvalidPlot { title: title.to_owned(), reason };
        let place = |px, py| format!("{} = {}, {} = {}", x.label, exact(px), y.label, exact(py));
        for (title, points) in sets {
            for &(px, py, thing) in points {
                if !px.is_finite() || !py.is_finite() {
                    return Err(invalid(title, format!("the place {} is not finite", place(px, py))));
                }
                if let Some(value) = value(thing).filter(|value| !value.is_finite()) {
                    let place = place(px, py);
                    return Err(invalid(
                        title,
                        format!("the value at {place} is {value}; leave out what was not measured"),
                    ));
                }
            }
        }
        let points = || sets.iter().flat_map(|(_, points)| points);
        let (xs, ys) = (distinct(points().map(|point| point.0)), distinct(points().map(|point| point.1)));
        if xs.len().saturating_mul(ys.len()) > MOST_POINTS {
            let reason = format!("a grid of {} by {} values is too large to be read", xs.len(), ys.len());
            return Err(invalid(&sets[0].0, reason));
        }
        let at = |axis: &[f64], value: f64| axis.partition_point(|other| *other < value);
        let field = |(title, points): &Set<T>| {
            let mut places = vec![None; xs.len() * ys.len()];
            for &(px, py, thing) in points {
                if places[at(&ys, py) * xs.len() + at(&xs, px)].replace(thing).is_some() {
                    return Err(invalid(title, format!("there are two points at {}", place(px, py))));
                }
            }
            Ok(Self { xs: xs.clone(), ys: ys.clone(), places })
        };
        sets.iter().map(field).collect()
    }

    /// What is in a row and column.
    pub(crate) fn at(&self, row: usize, column: usize) -> Option<T> {
        self.places[row * self.xs.len() + column]
    }

    /// What was requested.
    pub(crate) fn asked(&self) -> impl Iterator<Item = T> {
        self.places.iter().copied().flatten()
    }
}

/// Distinct numbers in increasing order; both zeros are one.
pub(crate) fn distinct(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.map(|number| number + 0.0).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    numbers
}

/// What a plot without any value is refused with.
pub(crate) fn nothing(title: &str) -> ReportError {
    ReportError::NothingToDraw { title: title.to_owned(), reason: "no value was measured".to_owned() }
}
