//! Extremely randomized trees (Geurts, Ernst, Wehenkel, 2006), as `smartcore` grows them.
//!
//! Once grown, their nodes are kept in three arrays: a walk down a tree reads little memory, and
//! trees can be stored.

use serde::{Deserialize, Serialize};
use smartcore::ensemble::extra_trees_regressor::{ExtraTreesRegressor, ExtraTreesRegressorParameters};
use smartcore::linalg::basic::matrix::DenseMatrix;

use crate::predict::FitError;

/// The feature of a node that has none: a leaf.
const LEAF: u16 = u16::MAX;

/// Trees over rows of equally many features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Nodes", into = "Nodes")]
pub(crate) struct Trees {
    nodes: Nodes,
}

/// Nodes of all trees, tree by tree, each before those under it. Where the feature of a node is at
/// most its value, the walk goes on with the next node, else with the other one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Nodes {
    columns: u16,
    roots: Vec<u32>,
    features: Vec<u16>,
    /// The prediction, in a leaf.
    values: Vec<f64>,
    others: Vec<u32>,
}

impl From<Trees> for Nodes {
    fn from(trees: Trees) -> Self {
        trees.nodes
    }
}

impl TryFrom<Nodes> for Trees {
    type Error = &'static str;

    /// Every walk must end, whatever bytes the nodes came from.
    fn try_from(nodes: Nodes) -> Result<Self, Self::Error> {
        let count = nodes.features.len();
        let within = |place: u32| usize::try_from(place).is_ok_and(|place| place < count);
        let sound = nodes.values.len() == count
            && nodes.others.len() == count
            && !nodes.roots.is_empty()
            && nodes.roots.iter().all(|&root| within(root))
            && nodes.features.last() == Some(&LEAF)
            && nodes.features.iter().zip(&nodes.others).enumerate().all(|(place, (&feature, &other))| {
                let forward = usize::try_from(other).is_ok_and(|other| other > place);
                feature == LEAF || (feature < nodes.columns && forward && within(other))
            });
        if sound { Ok(Self { nodes }) } else { Err("these are no trees") }
    }
}

impl Trees {
    /// Grows so many trees, each leaf of at least `leaf` rows.
    pub(crate) fn grow(
        rows: &[Vec<f64>],
        targets: &[f64],
        (trees, leaf): (usize, usize),
        seed: u64,
    ) -> Result<Self, FitError> {
        let columns = rows.first().map_or(0, Vec::len);
        let grown = grown(rows, columns, targets, (trees, leaf), seed)?;
        let refused = |error: postcard::Error| FitError::Forest(error.to_string());
        let bytes = postcard::to_allocvec(&grown).map_err(refused)?;
        drop(grown);
        let (forest,): (Option<library::Forest>,) = postcard::from_bytes(&bytes).map_err(refused)?;
        let columns = u16::try_from(columns).ok().filter(|&columns| columns < LEAF);
        let flat = forest.zip(columns).and_then(|(forest, columns)| flat(&forest, columns));
        let Some(nodes) = flat else {
            return Err(FitError::Forest("smartcore grew no trees that are known here".to_owned()));
        };
        Self::try_from(nodes).map_err(|error| FitError::Forest(error.to_owned()))
    }

    /// The mean of the trees for each row.
    pub(crate) fn predict(&self, rows: &[Vec<f64>]) -> Result<Vec<f64>, FitError> {
        let columns = usize::from(self.nodes.columns);
        if let Some(row) = rows.iter().find(|row| row.len() != columns) {
            return Err(FitError::Forest(format!("a row of {} features, not {columns}", row.len())));
        }
        Ok(rows.iter().map(|row| self.mean(row)).collect())
    }

    fn mean(&self, row: &[f64]) -> f64 {
        let Nodes { roots, features, values, others, .. } = &self.nodes;
        let leaf = |root: &u32| {
            let mut place = *root as usize;
            while features[place] != LEAF {
                let goes_on = row[usize::from(features[place])] <= values[place];
                place = if goes_on { place + 1 } else { others[place] as usize };
            }
            values[place]
        };
        roots.iter().map(leaf).sum::<f64>() / roots.len() as f64
    }
}

type Library = ExtraTreesRegressor<f64, f64, DenseMatrix<f64>, Vec<f64>>;

fn grown(
    rows: &[Vec<f64>],
    columns: usize,
    targets: &[f64],
    (trees, leaf): (usize, usize),
    seed: u64,
) -> Result<Library, FitError> {
    let refused = |failed: smartcore::error::Failed| FitError::Forest(failed.to_string());
    let parameters = ExtraTreesRegressorParameters::default()
        .with_n_trees(trees)
        .with_m(columns)
        .with_min_samples_leaf(leaf)
        // Trees of one forest are seeded by consecutive numbers.
        .with_seed(seed << 16);
    let values: Vec<f64> = rows.iter().flatten().copied().collect();
    let matrix = DenseMatrix::new(rows.len(), columns, values, false).map_err(refused)?;
    ExtraTreesRegressor::fit(&matrix, &targets.to_vec(), parameters).map_err(refused)
}

/// Nodes in the order of walks. `None` where they are not as expected.
fn flat(forest: &library::Forest, columns: u16) -> Option<Nodes> {
    let library::Forest(trees, _, _) = forest;
    let mut nodes =
        Nodes { columns, roots: Vec::new(), features: Vec::new(), values: Vec::new(), others: Vec::new() };
    for library::Tree(tree, _, _, _) in trees.as_ref()? {
        nodes.roots.push(u32::try_from(nodes.features.len()).ok()?);
        // Nodes to come, with the one whose other child they are.
        let mut left: Vec<(usize, Option<usize>)> = vec![(0, None)];
        while let Some((node, parent)) = left.pop() {
            let place = nodes.features.len();
            if let Some(parent) = parent {
                nodes.others[parent] = u32::try_from(place).ok()?;
            }
            let library::Node(output, feature, value, _, on, other) = tree.get(node)?;
            if let (Some(on), Some(other)) = (on, other) {
                nodes.features.push(u16::try_from(*feature).ok()?);
                nodes.values.push((*value)?);
                left.push((*other, Some(place)));
                left.push((*on, None));
            } else {
                nodes.features.push(LEAF);
                nodes.values.push(*output);
            }
            nodes.others.push(0);
        }
    }
    Some(nodes)
}

/// Trees as `smartcore` stores them, field by field; it gives no other access to them.
#[expect(dead_code, reason = "fields are read past, to get to those behind them")]
mod library {
    use serde::Deserialize;

    /// Trees, the number of features, and the rows of each tree.
    #[derive(Deserialize)]
    pub(crate) struct Forest(
        pub(crate) Option<Vec<Tree>>,
        pub(crate) Option<usize>,
        pub(crate) Option<Vec<Vec<bool>>>,
    );

    /// Nodes, parameters, depth, and the weight of all rows.
    #[derive(Deserialize)]
    pub(crate) struct Tree(
        pub(crate) Vec<Node>,
        pub(crate) Option<Parameters>,
        pub(crate) u16,
        pub(crate) f64,
    );

    /// Prediction, feature, value, score, and children.
    #[derive(Deserialize)]
    pub(crate) struct Node(
        pub(crate) f64,
        pub(crate) usize,
        pub(crate) Option<f64>,
        pub(crate) Option<f64>,
        pub(crate) Option<usize>,
        pub(crate) Option<usize>,
    );

    /// Depth, rows of a leaf and of a node that is split, seed, and the way to split.
    #[derive(Deserialize)]
    pub(crate) struct Parameters(Option<u16>, usize, usize, Option<u64>, Splitter);

    #[derive(Deserialize)]
    pub(crate) enum Splitter {
        Random,
        Best,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of three features, and a target that depends on all of them.
    fn sample() -> (Vec<Vec<f64>>, Vec<f64>) {
        let rows: Vec<Vec<f64>> =
            (0..200_u32).map(|row| [row % 7, row % 11, row / 5].map(f64::from).to_vec()).collect();
        let targets = rows.iter().map(|row| row[0] * 3.0 - row[1] + (row[2] / 9.0).sin()).collect();
        (rows, targets)
    }

    #[test]
    fn they_say_what_the_library_says() {
        let (rows, targets) = sample();
        let trees = Trees::grow(&rows, &targets, (8, 2), 5).unwrap();
        assert_eq!(trees.nodes.roots.len(), 8);
        let library = grown(&rows, 3, &targets, (8, 2), 5).unwrap();
        let values: Vec<f64> = rows.iter().flatten().map(|value| value + 0.3).collect();
        let others: Vec<Vec<f64>> = values.chunks(3).map(<[f64]>::to_vec).collect();
        let expected = library.predict(&DenseMatrix::new(200, 3, values, false).unwrap()).unwrap();
        // To the bit.
        assert_eq!(trees.predict(&others).unwrap(), expected);
        assert!(trees.predict(&[vec![1.0]]).is_err(), "features are missing");
        assert!(trees.predict(&[]).unwrap().is_empty());
    }

    #[test]
    fn stored_trees_come_back_and_others_are_refused() {
        let (rows, targets) = sample();
        let trees = Trees::grow(&rows, &targets, (2, 1), 5).unwrap();
        let bytes = postcard::to_allocvec(&trees).unwrap();
        assert_eq!(postcard::from_bytes::<Trees>(&bytes).unwrap(), trees);
        let sound = |change: fn(&mut Nodes)| {
            let mut nodes = trees.nodes.clone();
            change(&mut nodes);
            Trees::try_from(nodes).is_ok()
        };
        assert!(sound(|_| ()));
        assert!(!sound(|nodes| nodes.others[0] = 0), "a walk that never ends");
        assert!(!sound(|nodes| nodes.others[0] = u32::MAX));
        assert!(!sound(|nodes| nodes.features[0] = 3), "a feature that there is not");
        assert!(!sound(|nodes| nodes.roots.push(u32::MAX)));
        assert!(!sound(|nodes| nodes.values.truncate(1)));
    }
}
