//! Separate trees for convolutions, whose times have little in common with those of other steps.

use serde::{Deserialize, Serialize};

use crate::predict::FitError;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::shape::Family;
use crate::predict::trees::extra_trees::Trees;

/// Fewest rows that get trees of their own.
const LEAST: usize = 40;

/// Trees of two kinds of steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Separate {
    /// Absent where there are too few convolutions.
    convolutions: Option<Trees>,
    /// Absent where there is nothing but convolutions.
    others: Option<Trees>,
}

/// Whether a step gets the trees of convolutions.
pub(crate) fn is_convolution(point: &Point<'_>) -> bool {
    point.shape.family == Family::Conv
}

impl Separate {
    /// Grows trees over rows of equally many features, and whether each is a convolution.
    pub(crate) fn grow(
        rows: &[(Vec<f64>, bool)],
        targets: &[f64],
        grow: (usize, usize),
        seed: u64,
    ) -> Result<Self, FitError> {
        let count = rows.iter().filter(|(_, convolution)| *convolution).count();
        let apart = count >= LEAST;
        let of = |wanted: fn(bool, bool) -> bool| -> Result<Option<Trees>, FitError> {
            let members =
                rows.iter().zip(targets).filter(|((_, convolution), _)| wanted(*convolution, apart));
            let (inputs, targets): (Vec<Vec<f64>>, Vec<f64>) =
                members.map(|((row, _), target)| (row.clone(), *target)).unzip();
            (!inputs.is_empty()).then(|| Trees::grow(&inputs, &targets, grow, seed)).transpose()
        };
        let convolutions = of(|convolution, apart| convolution && apart)?;
        let others = of(|convolution, apart| !(convolution && apart))?;
        Ok(Self { convolutions, others })
    }

    /// The mean of the trees for each row.
    pub(crate) fn predict(&self, rows: Vec<(Vec<f64>, bool)>) -> Result<Vec<f64>, FitError> {
        let mut predicted = vec![0.0; rows.len()];
        let mut inputs: [(Vec<usize>, Vec<Vec<f64>>); 2] = Default::default();
        for (place, (row, convolution)) in rows.into_iter().enumerate() {
            let own = if convolution { self.convolutions.is_some() } else { self.others.is_none() };
            let (places, list) = &mut inputs[usize::from(own)];
            places.push(place);
            list.push(row);
        }
        for (trees, (places, list)) in [&self.others, &self.convolutions].into_iter().zip(inputs) {
            if let Some(trees) = trees {
                for (place, value) in places.into_iter().zip(trees.predict(&list)?) {
                    predicted[place] = value;
                }
            }
        }
        Ok(predicted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(convolutions: usize, others: usize) -> (Vec<(Vec<f64>, bool)>, Vec<f64>) {
        let row = |place: usize, convolution: bool| (vec![(place % 7) as f64], convolution);
        let rows: Vec<(Vec<f64>, bool)> = (0..convolutions)
            .map(|place| row(place, true))
            .chain((0..others).map(|place| row(place, false)))
            .collect();
        let targets = rows.iter().map(|(_, convolution)| if *convolution { 5.0 } else { 1.0 }).collect();
        (rows, targets)
    }

    #[test]
    fn convolutions_are_predicted_by_trees_of_their_own() {
        let (inputs, targets) = rows(60, 60);
        let trees = Separate::grow(&inputs, &targets, (4, 1), 1).unwrap();
        let predicted = trees.predict(inputs).unwrap();
        assert!(
            predicted.iter().zip(&targets).all(|(predicted, target)| (predicted - target).abs() < 1e-9),
            "{predicted:?}"
        );
    }

    #[test]
    fn few_convolutions_share_the_trees_of_others() {
        let (inputs, targets) = rows(3, 60);
        let trees = Separate::grow(&inputs, &targets, (4, 1), 1).unwrap();
        assert!(trees.convolutions.is_none());
        assert!(trees.predict(inputs).unwrap()[0] < 5.0, "the same features, and other times");
    }

    #[test]
    fn where_there_are_only_convolutions_they_speak_for_all() {
        let (inputs, targets) = rows(60, 0);
        let trees = Separate::grow(&inputs, &targets, (4, 1), 1).unwrap();
        assert!(trees.others.is_none());
        let predicted = trees.predict(vec![(vec![1.0], false)]).unwrap();
        assert!((predicted[0] - 5.0).abs() < 1e-9);
    }
}
