//! Values over two quantities, with what is missing.

use std::collections::{BTreeMap, BTreeSet};

use crate::ReportError;
use crate::surface::axis::exact;

/// Grid points beyond which a grid is refused: no reader sees more, and the picture would be huge.
const MOST_POINTS: usize = 250_000;

/// What is known of a place of the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Place {
    /// It was not requested: the grid has the place because its row and its column have others.
    Unasked,
    /// It was planned and not measured.
    Missing,
    /// What was measured.
    Value(f64),
}

impl Place {
    pub(crate) fn value(self) -> Option<f64> {
        match self {
            Place::Value(value) => Some(value),
            Place::Unasked | Place::Missing => None,
        }
    }
}

/// A grid: the values of both axes in increasing order, and what is known of each place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) xs: Vec<f64>,
    pub(crate) ys: Vec<f64>,
    /// For each y and, within it, each x.
    pub(crate) places: Vec<Place>,
}

impl Field {
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> {
        self.places.iter().filter_map(|place| place.value())
    }

    pub(crate) fn missing(&self) -> usize {
        self.places.iter().filter(|place| **place == Place::Missing).count()
    }

    /// How many places were requested.
    pub(crate) fn asked(&self) -> usize {
        self.places.iter().filter(|place| **place != Place::Unasked).count()
    }
}

/// Points that were checked: where they are, and their values.
pub(crate) struct Points(BTreeMap<(Ordered, Ordered), Option<f64>>);

impl Points {
    /// Takes points in any order; `title` and the names of the axes are for messages.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] for a coordinate or value that is not finite and for two points
    /// at one place.
    pub(crate) fn check(
        title: &str,
        (x, y): (&str, &str),
        points: impl IntoIterator<Item = (f64, f64, Option<f64>)>,
    ) -> Result<Self, ReportError> {
        let invalid = |reason: String| ReportError::InvalidPlot { title: title.to_owned(), reason };
        let mut checked = BTreeMap::new();
        for (px, py, value) in points {
            let place = || format!("{x} = {}, {y} = {}", exact(px), exact(py));
            if !px.is_finite() || !py.is_finite() {
                return Err(invalid(format!("the place {} is not finite", place())));
            }
            if let Some(value) = value.filter(|value| !value.is_finite()) {
                return Err(invalid(format!(
                    "the value at {} is {value}; leave out what was not measured",
                    place()
                )));
            }
            if checked.insert((Ordered::new(px), Ordered::new(py)), value).is_some() {
                return Err(invalid(format!("there are two points at {}", place())));
            }
        }
        Ok(Self(checked))
    }

    /// One grid for each of several sets of points, all with the axes that they have together.
    ///
    /// # Errors
    /// [`ReportError::InvalidPlot`] for more than 250,000 places in a grid,
    /// [`ReportError::NothingToDraw`] when no point has a value.
    pub(crate) fn fields(title: &str, all: &[Points]) -> Result<Vec<Field>, ReportError> {
        let axis = |of: fn(&(Ordered, Ordered)) -> Ordered| -> Vec<Ordered> {
            let distinct: BTreeSet<Ordered> = all.iter().flat_map(|points| points.0.keys().map(of)).collect();
            distinct.into_iter().collect()
        };
        let (xs, ys) = (axis(|place| place.0), axis(|place| place.1));
        if xs.len().saturating_mul(ys.len()) > MOST_POINTS {
            let reason = format!("a grid of {} by {} values is too large to be read", xs.len(), ys.len());
            return Err(ReportError::InvalidPlot { title: title.to_owned(), reason });
        }
        if all.iter().all(|points| points.0.values().all(Option::is_none)) {
            let reason = "no value was measured".to_owned();
            return Err(ReportError::NothingToDraw { title: title.to_owned(), reason });
        }
        let numbers = |axis: &[Ordered]| axis.iter().map(|value| value.0).collect();
        let field = |points: &Points| Field {
            places: ys
                .iter()
                .flat_map(|y| xs.iter().map(move |x| (*x, *y)))
                .map(|place| match points.0.get(&place) {
                    None => Place::Unasked,
                    Some(None) => Place::Missing,
                    Some(Some(value)) => Place::Value(*value),
                })
                .collect(),
            xs: numbers(&xs),
            ys: numbers(&ys),
        };
        Ok(all.iter().map(field).collect())
    }
}

/// A finite `f64` as a key. Both zeros are one key.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ordered(f64);

impl Ordered {
    fn new(value: f64) -> Self {
        Self(if value == 0.0 { 0.0 } else { value })
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
