//! Times of products by the kernels that a library computes them with: what bounds a kernel, with
//! factors for each kind of kernel.
//!
//! A kernel starts, computes its tiles wave after wave, adds up parts of split sums, and is
//! launched. What goes on at the same time is added as the cube root of cubes, which is nearly the
//! larger one; what goes on one after the other is added. Factors are fitted for each kind of
//! kernel, then for the kind in one precision, which begins at those of the kind, then for each
//! kernel, which stays near those; so a kernel that was never measured has the factors of its kind.

use std::ops::{Range, RangeFrom};

use flopgap_flops::Precision;
use flopgap_graph::Mode;
use rustc_hash::FxHashMap;

use crate::predict::formula::groups::by;
use crate::predict::formula::levenberg_marquardt::{Descent, least_errors};
use crate::predict::formula::product::{COUNT, Class, Product, Term};

/// Fewest rows of a kind of kernel.
const LEAST: usize = 8;
/// Fewest rows of a kind in one precision.
const LEAST_OF_PRECISION: usize = 30;
/// Fewest rows of a kernel.
const LEAST_OF_KERNEL: usize = 6;
/// Rounds from factors of 1, and from factors that a fit to nearly the same rows found.
const ROUNDS: usize = 40;
const ROUNDS_AGAIN: usize = 4;
/// How much a factor of e from where a fit begins weighs, in ln of one row.
const PULL: f64 = 0.1;
/// The same for a kernel, which has few rows and differs little from its kind.
const PULL_OF_KERNEL: f64 = 0.4;

/// Logarithms of the factors of a kind of kernel, by [`Term`].
type Factors = [f64; COUNT];
/// Logarithms of nanoseconds: what a launch on a stream adds to a kernel, what it takes at least,
/// and each further kernel of a step.
type Launches = [f64; 3];

/// Loads of an inner step, its waiting, what comes with tiles, bytes that must be moved, and what
/// comes after the tiles.
const LOADS: Range<usize> = Term::Loads as usize..Term::Waiting as usize;
const WAITING: Range<usize> = Term::Waiting as usize..Term::Waves as usize;
const TILES: Range<usize> = Term::Waves as usize..Term::Read as usize;
const BYTES: Range<usize> = Term::Read as usize..Term::TileLoads as usize;
const AFTER: RangeFrom<usize> = Term::ReductionStart as usize..;

/// Factors of each kind of kernel, and of launches.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Products {
    kinds: FxHashMap<(Class, bool), Factors>,
    precisions: FxHashMap<(Class, Precision), Factors>,
    kernels: FxHashMap<u64, Factors>,
    launches: Launches,
}

/// Precisions that the same kernels compute in are one, and whether that is on tensor cores.
fn keys(product: &Product) -> ((Class, bool), (Class, Precision)) {
    let tensor = product.precision != Precision::Fp32;
    ((product.class, tensor), (product.class, product.precision))
}

impl Products {
    /// Fits to those of the rows that are products of known kernels; `None` where there are too
    /// few. Where factors are known that nearly the same rows led to, a fit begins there.
    pub(crate) fn fit(
        products: &[Option<Product>],
        times: &[f64],
        rows: &[usize],
        launch: f64,
        start: Option<&Self>,
    ) -> Option<Self> {
        let known: Vec<(&Product, f64)> =
            rows.iter().filter_map(|&row| Some((products[row].as_ref()?, times[row].ln()))).collect();
        if known.len() < LEAST {
            return None;
        }
        let begin = Self {
            kinds: FxHashMap::default(),
            precisions: FxHashMap::default(),
            kernels: FxHashMap::default(),
            launches: [0.3 * launch, 1.5 * launch, 0.6 * launch].map(|time| time.max(1.0).ln()),
        };
        let mut found = start.unwrap_or(&begin).clone();
        let rounds = if start.is_some() { ROUNDS_AGAIN } else { ROUNDS };
        // Factors without launches, then launches, then factors again: each needs the other, and
        // few rows are launched.
        for round in 0..if start.is_some() { 1 } else { 2 } {
            found.fit_factors(&known, rounds);
            found.fit_launches(&known, rounds);
            if round == 0 && start.is_none() {
                found.precisions.clear();
                found.kernels.clear();
            }
        }
        Some(found)
    }

    fn fit_factors(&mut self, known: &[(&Product, f64)], rounds: usize) {
        let launches = self.launches;
        let fit = |start: Factors, rows: &[(&Product, f64)], pull: f64| {
            let slope = |row: usize, factors: &Factors, slopes: &mut Factors| {
                let (product, time) = rows[row];
                ln_time(product, factors, &launches, Some(slopes)) - time
            };
            least_errors(start, rows.len(), slope, Descent { pull, rounds })
        };
        let every: Vec<usize> = (0..known.len()).collect();
        let pick = |rows: Vec<usize>| rows.into_iter().map(|row| known[row]).collect::<Vec<_>>();
        for (kind, rows) in by(&every, |row| Some(keys(known[row].0).0)) {
            let rows = pick(rows);
            if rows.len() >= LEAST {
                let start = self.kinds.get(&kind).copied().unwrap_or_default();
                self.kinds.insert(kind, fit(start, &rows, PULL));
            }
        }
        for (precision, rows) in by(&every, |row| Some(keys(known[row].0).1)) {
            let rows = pick(rows);
            if rows.len() >= LEAST_OF_PRECISION {
                let of_kind = || self.kinds.get(&keys(rows[0].0).0).copied();
                let start = self.precisions.get(&precision).copied().or_else(of_kind).unwrap_or_default();
                self.precisions.insert(precision, fit(start, &rows, PULL));
            }
        }
        for (kernel, rows) in by(&every, |row| Some(known[row].0.kernel)) {
            let rows = pick(rows);
            if rows.len() >= LEAST_OF_KERNEL {
                let start = *self.of_class(rows[0].0);
                self.kernels.insert(kernel, fit(start, &rows, PULL_OF_KERNEL));
            }
        }
    }

    fn fit_launches(&mut self, known: &[(&Product, f64)], rounds: usize) {
        let launched: Vec<(&Product, f64, f64)> = known
            .iter()
            .filter(|(product, _)| product.mode != Mode::Graph)
            .map(|(product, time)| (*product, self.on_device(product, None), *time))
            .collect();
        if launched.len() < LEAST {
            return;
        }
        let slope = |row: usize, launches: &Launches, slopes: &mut Launches| {
            let (product, alone, time) = launched[row];
            let (ln, _) = with_launch(product, alone, launches, Some(slopes));
            ln - time
        };
        self.launches = least_errors(self.launches, launched.len(), slope, Descent { pull: PULL, rounds });
    }

    /// Nanoseconds.
    pub(crate) fn predict(&self, product: &Product) -> f64 {
        ln_time(product, self.factors(product), &self.launches, None).exp()
    }

    fn factors(&self, product: &Product) -> &Factors {
        self.kernels.get(&product.kernel).unwrap_or_else(|| self.of_class(product))
    }

    fn of_class(&self, product: &Product) -> &Factors {
        const ONES: &Factors = &[0.0; COUNT];
        let (kind, precision) = keys(product);
        self.precisions.get(&precision).or_else(|| self.kinds.get(&kind)).unwrap_or(ONES)
    }

    fn on_device(&self, product: &Product, slopes: Option<&mut Factors>) -> f64 {
        nanoseconds(product, self.factors(product), slopes)
    }
}

fn ln_time(product: &Product, factors: &Factors, launches: &Launches, slopes: Option<&mut Factors>) -> f64 {
    let Some(slopes) = slopes else {
        return with_launch(product, nanoseconds(product, factors, None), launches, None).0;
    };
    let alone = nanoseconds(product, factors, Some(slopes));
    let (ln, share) = with_launch(product, alone, launches, None);
    for slope in slopes {
        *slope *= share;
    }
    ln
}

/// ln of the time with its launch, and the share of the kernel's slope in it: launches hide what is
/// shorter.
fn with_launch(
    product: &Product,
    alone: f64,
    launches: &Launches,
    slopes: Option<&mut Launches>,
) -> (f64, f64) {
    if product.mode == Mode::Graph {
        if let Some(slopes) = slopes {
            slopes.fill(0.0);
        }
        return (alone.ln(), 1.0);
    }
    let [added, least, further] = launches.map(f64::exp);
    let (busy, further) = (alone + added, further * (product.kernels - 1.0).max(0.0));
    let waiting = least + further;
    let sum = busy.powi(6) + waiting.powi(6);
    let total = sum.powf(1.0 / 6.0);
    let (of_busy, of_waiting) = (busy.powi(6) / sum, waiting.powi(6) / sum);
    if let Some(slopes) = slopes {
        *slopes = [of_busy * added / busy, of_waiting * least / waiting, of_waiting * further / waiting];
    }
    (total.ln(), of_busy * alone / busy)
}

/// Nanoseconds on the device, with slopes of their logarithm over the logarithms of the factors.
fn nanoseconds(product: &Product, factors: &Factors, slopes: Option<&mut Factors>) -> f64 {
    let mut parts = [0.0; COUNT];
    for ((part, factor), term) in parts.iter_mut().zip(factors).zip(&product.terms.0) {
        if *term > 0.0 {
            *part = factor.exp() * term;
        }
    }
    let together = |of: &[f64]| of.iter().map(|part| part.powi(3)).sum::<f64>().cbrt();
    let part = |term: Term| parts[term as usize];
    let [loads, waiting] = [LOADS, WAITING].map(|pair| parts[pair.start] + parts[pair.start + 1]);
    let steps = [part(Term::Arithmetic), part(Term::SharedLoads), loads, waiting];
    let inner = together(&steps);
    let tiles = inner + parts[TILES].iter().sum::<f64>();
    let bytes = part(Term::Read) + part(Term::Written);
    let body = together(&[tiles, bytes, part(Term::TileLoads)]);
    let total = (part(Term::Start) + body + parts[AFTER].iter().sum::<f64>()).max(1e-3);
    if let Some(slopes) = slopes {
        let square = |part: f64, whole: f64| if whole > 0.0 { (part / whole).powi(2) } else { 0.0 };
        let of_tiles = square(tiles, body);
        let [arithmetic, shared, loads, waiting] = steps.map(|step| of_tiles * square(step, inner));
        let mut weights = [1.0; COUNT];
        weights[Term::Arithmetic as usize] = arithmetic;
        weights[Term::SharedLoads as usize] = shared;
        weights[LOADS].fill(loads);
        weights[WAITING].fill(waiting);
        weights[TILES].fill(of_tiles);
        weights[BYTES].fill(square(bytes, body));
        weights[Term::TileLoads as usize] = square(part(Term::TileLoads), body);
        for ((slope, weight), part) in slopes.iter_mut().zip(weights).zip(parts) {
            *slope = weight * part / total;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::formula::product::Terms;

    fn product(tiles: f64, steps: f64, mode: Mode) -> Product {
        let mut terms = Terms([0.0; COUNT]);
        terms[Term::Start] = 2000.0;
        terms[Term::Arithmetic] = tiles * steps * 30.0;
        terms[Term::Waiting] = tiles * steps * 20.0;
        terms[Term::Waves] = tiles * 300.0;
        terms[Term::Read] = 10.0 * steps;
        Product { class: Class::Jet, kernel: 0, precision: Precision::Fp16, mode, kernels: 1.0, terms }
    }

    #[test]
    fn a_kernel_that_differs_from_its_kind_has_factors_of_its_own() {
        let rows = |kernel: u64| {
            let sizes = (1..8).flat_map(|tiles| [1.0, 4.0, 16.0, 64.0].map(|steps| (tiles, steps)));
            sizes.map(move |(tiles, steps)| {
                Some(Product { kernel, ..product(f64::from(tiles), steps, Mode::Graph) })
            })
        };
        let products: Vec<Option<Product>> = rows(1).chain(rows(2)).chain(rows(3)).collect();
        let alike = [0.0; COUNT];
        let slower = |product: &Product| if product.kernel == 3 { 1.3 } else { 1.0 };
        let times: Vec<f64> =
            products.iter().flatten().map(|row| slower(row) * nanoseconds(row, &alike, None)).collect();
        let every: Vec<usize> = (0..products.len()).collect();
        let found = Products::fit(&products, &times, &every, 0.0, None).unwrap();
        for (product, time) in products.iter().flatten().zip(&times) {
            assert!((found.predict(product) / time - 1.0).abs() < 0.1, "{product:?}: {time}");
        }
        let unknown = Product { kernel: 4, ..product(3.0, 16.0, Mode::Graph) };
        let of_kind = found.predict(&unknown) / nanoseconds(&unknown, &alike, None);
        assert!((0.95..1.25).contains(&of_kind), "{of_kind}");
    }

    #[test]
    fn factors_are_found_again_and_slopes_are_those_of_differences() {
        let mut truth = [0.0; COUNT];
        for (term, factor) in [(Term::Start, 0.1), (Term::Arithmetic, 0.5), (Term::Waves, -0.7)] {
            truth[term as usize] = factor;
        }
        let mut products = Vec::new();
        for tiles in 1..8 {
            for steps in [1.0, 4.0, 16.0, 64.0, 256.0] {
                for mode in [Mode::Graph, Mode::Stream] {
                    products.push(Some(product(f64::from(tiles), steps, mode)));
                }
            }
        }
        let launches = [1300.0, 6300.0, 2600.0].map(f64::ln);
        let times: Vec<f64> =
            products.iter().flatten().map(|row| ln_time(row, &truth, &launches, None).exp()).collect();
        let rows: Vec<usize> = (0..products.len()).collect();
        let found = Products::fit(&products, &times, &rows, 4200.0, None).unwrap();
        for (product, time) in products.iter().flatten().zip(&times) {
            assert!((found.predict(product) / time - 1.0).abs() < 0.02, "{product:?}: {time}");
        }
        let few: Vec<usize> = (0..5).collect();
        assert!(Products::fit(&products, &times, &few, 4200.0, None).is_none());

        let row = product(3.0, 16.0, Mode::Stream);
        let mut slopes = [0.0; COUNT];
        let here = ln_time(&row, &truth, &launches, Some(&mut slopes));
        for term in [Term::Start, Term::Arithmetic, Term::Waiting, Term::Waves, Term::Read] {
            let place = term as usize;
            let mut moved = truth;
            moved[place] += 1e-5;
            let slope = (ln_time(&row, &moved, &launches, None) - here) / 1e-5;
            assert!((slope - slopes[place]).abs() < 1e-4, "{place}: {slope} {}", slopes[place]);
        }
    }
}
