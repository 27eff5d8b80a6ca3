//! Separate trees for convolutions, whose times have little in common with those of other steps.

use serde::{Deserialize, Serialize};

use super::FitError;
use super::point::Point;
use super::shape::Family;
use super::trees::Trees;

/// Fewest rows that get trees of their own.
const LEAST: usize = 40;

/// Trees of two kinds of steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Separate {
    /// Absent where there are too few convolutions.
    convolutions: Option<Trees>,
    /// Absent where there is nothing but convolutions.
    others: Option<Trees>,
}

/// Whether a step gets the trees of convolutions.
pub(super) fn is_convolution(point: &Point<'_>) -> bool {
    point.shape.family == Family::Conv
}

impl Separate {
    /// Grows trees over rows of equally many features, and whether each is a convolution.
    pub(super) fn grow(
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
    pub(super) fn predict(&self, rows: Vec<(Vec<f64>, bool)>) -> Result<Vec<f64>, FitError> {
        let mut said = vec![0.0; rows.len()];
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
                    said[place] = value;
                }
            }
        }
        Ok(said)
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
        let said = trees.predict(inputs).unwrap();
        assert!(said.iter().zip(&targets).all(|(said, target)| (said - target).abs() < 1e-9), "{said:?}");
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
        let said = trees.predict(vec![(vec![1.0], false)]).unwrap();
        assert!((said[0] - 5.0).abs() < 1e-9);
    }
}
