//! Times of products by the kernels that a library computes them with: what bounds a kernel, with
//! factors for each kind of kernel.
//!
//! A kernel starts, computes its tiles wave after wave, adds up parts of split sums, and is
//! launched. What goes on at the same time is added as the cube root of cubes, which is nearly the
//! larger one; what goes on one after the other is added. Factors are fitted for each kind of
//! kernel, then for the kind in one precision, which begins at those of the kind, then for each
//! kernel, which stays near those; so a kernel that was never measured has the factors of its kind.

use flopgap_flops::Precision;
use flopgap_graph::Mode;
use rustc_hash::FxHashMap;

use super::marquardt::{Descent, least_errors};
use super::product::{COUNT, Class, Product};

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

/// Logarithms of the factors of a kind of kernel.
type Factors = [f64; COUNT];
/// Logarithms of nanoseconds: what a launch on a stream adds to a kernel, what it takes at least,
/// and each further kernel of a step.
type Launches = [f64; 3];

/// Factors of each kind of kernel, and of launches.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Products {
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
    pub(super) fn fit(
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
        for (kind, rows) in by(known, |product| keys(product).0) {
            if rows.len() >= LEAST {
                let start = self.kinds.get(&kind).copied().unwrap_or_default();
                self.kinds.insert(kind, fit(start, &rows, PULL));
            }
        }
        for (precision, rows) in by(known, |product| keys(product).1) {
            if rows.len() >= LEAST_OF_PRECISION {
                let of_kind = || self.kinds.get(&keys(rows[0].0).0).copied();
                let start = self.precisions.get(&precision).copied().or_else(of_kind).unwrap_or_default();
                self.precisions.insert(precision, fit(start, &rows, PULL));
            }
        }
        for (kernel, rows) in by(known, |product| product.kernel) {
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
    pub(super) fn predict(&self, product: &Product) -> f64 {
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
    for ((part, factor), term) in parts.iter_mut().zip(factors).zip(&product.terms) {
        if *term > 0.0 {
            *part = factor.exp() * term;
        }
    }
    let beside = |of: &[f64]| of.iter().map(|part| part.powi(3)).sum::<f64>().cbrt();
    let pairs = [parts[1], parts[2], parts[3] + parts[4], parts[5] + parts[6]];
    let inner = beside(&pairs);
    let tiles = inner + parts[7..14].iter().sum::<f64>();
    let bytes = parts[14] + parts[15];
    let body = beside(&[tiles, bytes, parts[16]]);
    let total = (parts[0] + body + parts[17..].iter().sum::<f64>()).max(1e-3);
    if let Some(slopes) = slopes {
        let square = |part: f64, whole: f64| if whole > 0.0 { (part / whole).powi(2) } else { 0.0 };
        let of_tiles = square(tiles, body);
        for (place, slope) in slopes.iter_mut().enumerate() {
            let share = match place {
                1..=6 => {
                    of_tiles * square(pairs[if place < 3 { place - 1 } else { place.div_ceil(2) }], inner)
                }
                7..=13 => of_tiles,
                14 | 15 => square(bytes, body),
                16 => square(parts[16], body),
                _ => 1.0,
            };
            *slope = share * parts[place] / total;
        }
    }
    total
}

/// Rows by a key, in the order in which the keys first appear.
fn by<'a, K: Copy + Eq + std::hash::Hash>(
    known: &[(&'a Product, f64)],
    key: impl Fn(&Product) -> K,
) -> Vec<(K, Vec<(&'a Product, f64)>)> {
    let mut places: FxHashMap<K, usize> = FxHashMap::default();
    let mut groups: Vec<(K, Vec<(&Product, f64)>)> = Vec::new();
    for row in known {
        let key = key(row.0);
        let place = *places.entry(key).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(*row);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(tiles: f64, steps: f64, mode: Mode) -> Product {
        let mut terms = [0.0; COUNT];
        terms[0] = 2000.0;
        terms[1] = tiles * steps * 30.0;
        terms[5] = tiles * steps * 20.0;
        terms[7] = tiles * 300.0;
        terms[14] = 10.0 * steps;
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
        (truth[0], truth[1], truth[7]) = (0.1, 0.5, -0.7);
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
        for place in [0, 1, 5, 7, 14] {
            let mut moved = truth;
            moved[place] += 1e-5;
            let slope = (ln_time(&row, &moved, &launches, None) - here) / 1e-5;
            assert!((slope - slopes[place]).abs() < 1e-4, "{place}: {slope} {}", slopes[place]);
        }
    }
}
