//! The model of steps: a structure of times, trees alongside it and trees on top of it, blended by
//! their errors on rows that they did not see.

use flopgap_graph::Mode;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::predict::FitError;
use crate::predict::formula::product::Product;
use crate::predict::formula::products::Products;
use crate::predict::formula::structure::{Structure, Terms};
use crate::predict::inputs::features::{Kernels, sizes, tiles};
use crate::predict::inputs::ln;
use crate::predict::inputs::machine::Machine;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::shape::Family;
use crate::predict::trees::blend::{Weights, blend, weigh};
use crate::predict::trees::forest::Growth;
use crate::predict::trees::separate::{Separate, is_convolution};
use crate::predict::trees::split::splits;

/// Weights before any is known: of trees alongside the structure, trees on top of it, the structure
/// alone.
const START: Weights = [0.5, 0.5, 0.0];
/// Fewest rows of a kind of step that it gets weights of its own from.
const LEAST: usize = 40;

/// The fitted model.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Experts {
    parts: Vec<Part>,
    kernels: Option<Kernels>,
    by_family: FxHashMap<Family, Weights>,
    weights: Weights,
    /// For each row that was fitted, ln of what the parts say that did not see it.
    pub(crate) unseen: Vec<f64>,
}

/// The fit to the rows of one split.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Part {
    structure: Structure,
    products: Option<Products>,
    /// Trees on the reference, with the structure among the features.
    alongside: Separate,
    /// Trees on the residuals of the structure.
    on_top: Separate,
}

/// The data of a row that the parts of a fit share.
struct Prepared {
    terms: Terms,
    /// The work of its kernels, if it is a product.
    product: Option<Product>,
    sizes: Vec<f64>,
    more: Vec<f64>,
}

impl Experts {
    /// Fits to measured steps; with `kernels`, to what the library reports about its kernels, too.
    pub(crate) fn fit(
        machine: &Machine,
        points: &[Point<'_>],
        times: &[f64],
        groups: &[u64],
        growth: Growth,
        with_kernels: bool,
    ) -> Result<Self, FitError> {
        let kernels = with_kernels.then(|| Kernels::new(points));
        let prepared: Vec<Prepared> =
            points.iter().map(|point| prepare(machine, kernels.as_ref(), point)).collect();
        let terms: Vec<Terms> = prepared.iter().map(|row| row.terms.clone()).collect();
        let products: Vec<Option<Product>> = prepared.iter().map(|row| row.product).collect();
        let launched = points.iter().find(|point| point.mode != Mode::Graph);
        let launch = machine.launch(launched.map_or(Mode::Graph, |point| point.mode));
        let every: Vec<usize> = (0..points.len()).collect();
        // Parts begin where all rows lead: their own differ little, and each step costs.
        let products_of_all = Products::fit(&products, times, &every, launch, None);
        let fitted: Vec<(Part, Vec<(usize, Weights)>)> =
            splits(groups, growth.folds, growth.rounds, growth.seed)
                .into_par_iter()
                .map(|split| {
                    let structure = Structure::fit(&terms, times, &split.kept);
                    let start = products_of_all.as_ref();
                    let products =
                        start.and_then(|all| Products::fit(&products, times, &split.kept, launch, Some(all)));
                    let formula_of = |row: usize| formula(&structure, products.as_ref(), &prepared[row]);
                    let works = |row: usize| structure.work(&terms[row]);
                    let alongside: Vec<(Vec<f64>, bool)> = split
                        .kept
                        .iter()
                        .map(|&row| alongside(&prepared[row], &points[row], formula_of(row), works(row)))
                        .collect();
                    let on_top: Vec<(Vec<f64>, bool)> = split
                        .kept
                        .iter()
                        .map(|&row| on_top(&prepared[row], &points[row], works(row)))
                        .collect();
                    let of_base: Vec<f64> =
                        split.kept.iter().map(|&row| (times[row] / points[row].reference()).ln()).collect();
                    let of_structure: Vec<f64> =
                        split.kept.iter().map(|&row| (times[row] / formula_of(row)).ln()).collect();
                    let grow = (growth.trees, growth.leaf);
                    let part = Part {
                        alongside: Separate::grow(&alongside, &of_base, grow, split.seed)?,
                        on_top: Separate::grow(&on_top, &of_structure, grow, split.seed ^ 1)?,
                        structure,
                        products,
                    };
                    let left: Vec<(&Prepared, &Point<'_>)> =
                        split.left.iter().map(|&row| (&prepared[row], &points[row])).collect();
                    let predicted = part.predict(&left)?;
                    Ok((part, split.left.into_iter().zip(predicted).collect()))
                })
                .collect::<Result<_, FitError>>()?;
        let mut unseen = vec![[0.0; 3]; points.len()];
        let mut parts = Vec::with_capacity(fitted.len());
        for (part, predicted) in fitted {
            for (row, values) in predicted {
                for (sum, value) in unseen[row].iter_mut().zip(values) {
                    *sum += value / growth.rounds as f64;
                }
            }
            parts.push(part);
        }
        let all: Vec<usize> = (0..points.len()).collect();
        let weights = blend(&unseen, times, &all, START);
        let mut rows_by_family: FxHashMap<Family, Vec<usize>> = FxHashMap::default();
        for row in all {
            rows_by_family.entry(points[row].shape.family).or_default().push(row);
        }
        let by_family: FxHashMap<Family, Weights> = rows_by_family
            .into_iter()
            .filter(|(_, rows)| rows.len() >= LEAST)
            .map(|(family, rows)| (family, blend(&unseen, times, &rows, START)))
            .collect();
        let mut experts = Self { parts, kernels, by_family, weights, unseen: Vec::new() };
        experts.unseen =
            unseen.iter().zip(points).map(|(values, point)| experts.weigh(point, values)).collect();
        Ok(experts)
    }

    /// ln of the nanoseconds of each point.
    pub(crate) fn predict(&self, machine: &Machine, points: &[Point<'_>]) -> Result<Vec<f64>, FitError> {
        let prepared: Vec<Prepared> =
            points.iter().map(|point| prepare(machine, self.kernels.as_ref(), point)).collect();
        let rows: Vec<(&Prepared, &Point<'_>)> = prepared.iter().zip(points).collect();
        let mut sums = vec![[0.0; 3]; points.len()];
        for part in &self.parts {
            for (sum, values) in sums.iter_mut().zip(part.predict(&rows)?) {
                for (sum, value) in sum.iter_mut().zip(values) {
                    *sum += value / self.parts.len() as f64;
                }
            }
        }
        Ok(sums.iter().zip(points).map(|(values, point)| self.weigh(point, values)).collect())
    }

    fn weigh(&self, point: &Point<'_>, values: &Weights) -> f64 {
        let weights = self.by_family.get(&point.shape.family).unwrap_or(&self.weights);
        weigh(weights, values)
    }
}

impl Part {
    /// ln of the nanoseconds that each expert predicts.
    fn predict(&self, rows: &[(&Prepared, &Point<'_>)]) -> Result<Vec<Weights>, FitError> {
        let structure: Vec<f64> =
            rows.iter().map(|(row, _)| formula(&self.structure, self.products.as_ref(), row)).collect();
        let works: Vec<f64> = rows.iter().map(|(row, _)| self.structure.work(&row.terms)).collect();
        let inputs: Vec<(Vec<f64>, bool)> = rows
            .iter()
            .zip(structure.iter().zip(&works))
            .map(|((row, point), (says, work))| alongside(row, point, *says, *work))
            .collect();
        let of_base = self.alongside.predict(inputs)?;
        let inputs: Vec<(Vec<f64>, bool)> =
            rows.iter().zip(&works).map(|((row, point), work)| on_top(row, point, *work)).collect();
        let of_structure = self.on_top.predict(inputs)?;
        Ok((0..rows.len())
            .map(|row| {
                let says = structure[row].ln();
                [rows[row].1.reference().ln() + of_base[row], says + of_structure[row], says]
            })
            .collect())
    }
}

/// Nanoseconds by the kernels of a product where they are known, else by the structure of all
/// steps.
fn formula(structure: &Structure, products: Option<&Products>, row: &Prepared) -> f64 {
    match (products, &row.product) {
        (Some(products), Some(product)) => products.predict(product),
        _ => structure.predict(&row.terms),
    }
}

fn prepare(machine: &Machine, kernels: Option<&Kernels>, point: &Point<'_>) -> Prepared {
    let mut sizes = sizes(point);
    let more = match kernels {
        // The kernel's own tiles say more than tiles that it might have had.
        Some(kernels) => {
            sizes.extend(kernels.features(machine, point));
            Vec::new()
        }
        None => tiles(machine, point),
    };
    Prepared { terms: Terms::new(machine, point), product: Product::of(machine, point), sizes, more }
}

/// The features of the trees alongside the structure.
fn alongside(row: &Prepared, point: &Point<'_>, structure: f64, work: f64) -> (Vec<f64>, bool) {
    let more = [ln(structure / point.reference()), ln(structure), ln(work), ln(work / point.launch.max(1.0))];
    (row.sizes.iter().copied().chain(more).collect(), is_convolution(point))
}

/// The features of the trees on top of the structure.
fn on_top(row: &Prepared, point: &Point<'_>, work: f64) -> (Vec<f64>, bool) {
    let more = [ln(work), ln(work / point.launch.max(1.0))];
    (row.sizes.iter().chain(&row.more).copied().chain(more).collect(), is_convolution(point))
}
