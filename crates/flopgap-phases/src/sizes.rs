//! Checks the stated width and columns against what the kernels of a step did.
//!
//! Every layer has one activation over width times columns elements, so what its kernel executed
//! is a whole number of FLOPs for each, and the blocks of its grid are those that these elements
//! need. The gradient of a sigmoid, `g y (1 - y)`, is 3 FLOPs wherever it is computed, which gives
//! the elements back. Products execute whole tiles, and no more than whole tiles.

use flopgap_flops::{Exactness, FlopError, Pass, Plausibility, SquareMlp};
use flopgap_kernels::Tile;

use crate::pass::PassAnalysis;
use crate::structure::{Structure, is_compiled, is_named_activation, products_needed};
use crate::{Contradiction, CountedLaunch, Kernel, LaunchKind, NumberedLaunch, SizeEvidence};

/// FLOPs an element that are tried where the arithmetic of a kernel is not known.
const MOST_PER_ELEMENT: u64 = 32;

/// Elements of a layer beyond which no sizes are searched: 64 TiB of numbers.
const MOST_ELEMENTS: u64 = 1 << 44;

/// Sizes that are named as those that fit; more would be no answer.
const MOST_NAMED: usize = 3;

/// Sizes that need this many times the padding of others are not named next to them.
const MOST_PADDING: f64 = 16.0;

/// What a kernel executes beyond its whole tiles, relative to them, is below this: epilogues, and
/// slices that are padded one by one. The largest of 1,287 recorded networks is 0.58.
const BEYOND_TILES: f64 = 0.75;

/// An activation of a layer: its place in the pass, its launch and its kernel.
type Layer<'a> = (usize, &'a CountedLaunch, &'a Kernel);

/// The launches of a step from which sizes follow.
pub(crate) struct Sizes<'a> {
    network: SquareMlp,
    passes: [(&'a PassAnalysis, &'a Structure<'a>); 2],
}

impl<'a> Sizes<'a> {
    pub(crate) fn new(
        network: SquareMlp,
        forward: (&'a PassAnalysis, &'a Structure<'a>),
        backward: (&'a PassAnalysis, &'a Structure<'a>),
    ) -> Self {
        Sizes { network, passes: [forward, backward] }
    }

    /// Why the stated width and columns cannot be those that ran, with those that can.
    /// `impossible`: whether the sums say already that the network is another one.
    pub(crate) fn contradiction(&self, impossible: bool) -> Result<Option<Contradiction>, FlopError> {
        let stated = elements(self.network);
        let known = self.elements_by_gradient();
        let mut evidence = self.evidence(stated)?;
        let candidates = match known {
            Some((elements, _)) => vec![elements],
            None => self.possible_elements(),
        };
        let disagree = known.filter(|(elements, _)| *elements != stated);
        let below = self.below_tiles();
        if evidence.is_empty() && disagree.is_none() && below.is_none() && !impossible {
            return Ok(None);
        }
        let fits = self.fits(&candidates);
        // Whole multiples of a gradient, and tiles that are not executed in full, are evidence
        // only where other sizes explain them.
        if evidence.is_empty() && fits.is_empty() {
            return Ok(None);
        }
        evidence.extend(below);
        let fraction = evidence.iter().any(|one| matches!(one, SizeEvidence::Fraction { .. }));
        if let Some((_, gradient)) = disagree.filter(|_| !fraction && !fits.is_empty()) {
            evidence.insert(0, gradient);
        }
        let run = self.passes[1].1.run().to_owned();
        let (width, columns) = (self.network.width(), self.network.columns());
        Ok(Some(Contradiction::OtherSizes { run, width, columns, evidence, fits }))
    }

    /// The activations of a pass, if each layer has exactly one.
    fn layers(&self, structure: &'a Structure<'a>) -> Vec<Layer<'a>> {
        let layers: Vec<Layer<'a>> = structure.launches(LaunchKind::Activation).collect();
        if layers.len() as u64 == self.network.layers() { layers } else { Vec::new() }
    }

    /// The elements of a layer by its gradient, and the launch that says so.
    fn elements_by_gradient(&self) -> Option<(u64, SizeEvidence)> {
        let (_, structure) = self.passes[1];
        if structure.is_rounded() {
            return None;
        }
        self.layers(structure).into_iter().find_map(|(index, launch, kernel)| {
            let expected = gradient_flops(kernel)?;
            let whole = launch.flops > 0 && launch.flops.is_multiple_of(expected);
            let elements = elements(self.network);
            let launch_name = structure.numbered(index, launch);
            let flops = launch.flops;
            let evidence = SizeEvidence::Gradient { launch: launch_name, flops, elements, expected };
            whole.then_some((launch.flops / expected, evidence))
        })
    }

    /// Whether the launches have different grids. One grid for all is a report that was written
    /// without them.
    fn grids_differ(&self) -> bool {
        let kinds = [LaunchKind::Product, LaunchKind::Activation];
        let launches = |(_, structure): (_, &'a Structure<'a>)| {
            kinds.into_iter().flat_map(move |kind| structure.launches(kind))
        };
        let mut grids = self.passes.into_iter().flat_map(launches).map(|(_, launch, _)| launch.grid);
        let first = grids.next();
        grids.any(|grid| Some(grid) != first)
    }

    /// What contradicts this number of elements, at most one launch of each kind.
    fn evidence(&self, stated: u64) -> Result<Vec<SizeEvidence>, FlopError> {
        let mut found = Vec::new();
        let grids_differ = self.grids_differ();
        for (part, structure) in self.passes {
            let pass = part.decomposition.pass;
            let layers = self.layers(structure);
            let fraction = layers.iter().find(|layer| {
                !structure.is_rounded() && is_steady(&layers, layer) && !layer.1.flops.is_multiple_of(stated)
            });
            let has = |known: &[SizeEvidence], grid| {
                known.iter().any(|one| matches!(one, SizeEvidence::Grid { .. }) == grid)
            };
            if let Some(&(index, launch, _)) = fraction.filter(|_| !has(&found, false)) {
                let flops = launch.flops;
                let launch = structure.numbered(index, launch);
                found.push(SizeEvidence::Fraction { pass, launch, flops, elements: stated });
            }
            let grid = layers.iter().filter(|_| grids_differ).find_map(|layer| {
                let spans = covered(layer.1, layer.2)?;
                (!spans.iter().any(|span| span.contains(&stated))).then_some((layer, spans))
            });
            if let Some((&(index, launch, _), spans)) = grid.filter(|_| !has(&found, true)) {
                let launch: NumberedLaunch = structure.numbered(index, launch);
                let (least, most) = (*spans[0].start(), *spans[spans.len() - 1].end());
                found.push(SizeEvidence::Grid { pass, launch, least, most, elements: stated });
            }
        }
        for (part, structure) in self.passes {
            found.extend(products_beyond(self.network, part, structure)?);
        }
        Ok(found)
    }

    /// Forward products that execute less than the whole tiles of the stated sizes.
    fn below_tiles(&self) -> Option<SizeEvidence> {
        let (part, structure) = self.passes[0];
        let counted = part.decomposition.measured.gemm;
        let least = least_of_tiles(self.network, structure);
        (least > u128::from(counted)).then_some(SizeEvidence::Tiles { counted, least })
    }

    /// The numbers of elements that all activations could have.
    fn possible_elements(&self) -> Vec<u64> {
        let layers = self.passes.map(|(_, structure)| self.layers(structure));
        let grids_differ = self.grids_differ();
        let Some((_, last, _)) = layers[1].first().filter(|(_, launch, _)| launch.flops > 0) else {
            return Vec::new();
        };
        let possible = |elements: &u64| {
            layers.iter().all(|layers| {
                layers.iter().all(|layer| {
                    let whole = !is_steady(layers, layer) || layer.1.flops.is_multiple_of(*elements);
                    whole
                        && covered(layer.1, layer.2)
                            .filter(|_| grids_differ)
                            .is_none_or(|spans| spans.iter().any(|span| span.contains(elements)))
                })
            })
        };
        (1..=MOST_PER_ELEMENT)
            .filter(|per_element| last.flops.is_multiple_of(*per_element))
            .map(|per_element| last.flops / per_element)
            .filter(possible)
            .collect()
    }

    /// Widths and columns with one of these numbers of elements, with which the products agree.
    fn fits(&self, candidates: &[u64]) -> Vec<(u64, u64)> {
        let mut fits: Vec<(f64, u64, u64)> = Vec::new();
        for &elements in candidates {
            for width in divisors(elements) {
                let columns = elements / width;
                if (width, columns) == (self.network.width(), self.network.columns()) {
                    continue;
                }
                // Sizes whose work no integer holds are not those that were counted.
                let Ok(network) = SquareMlp::new(self.network.layers(), width, columns) else { continue };
                if let Ok(Some(padding)) = self.padding_of(network) {
                    fits.push((padding, width, columns));
                }
            }
        }
        let shares =
            |width: u64, columns: u64| width == self.network.width() || columns == self.network.columns();
        if fits.iter().any(|&(_, width, columns)| shares(width, columns)) {
            fits.retain(|&(_, width, columns)| shares(width, columns));
        }
        fits.sort_by(|a, b| a.0.total_cmp(&b.0));
        let least = fits.first().map_or(0.0, |fit| fit.0);
        fits.retain(|fit| fit.0 <= MOST_PADDING * least);
        fits.truncate(MOST_NAMED);
        fits.into_iter().map(|(_, width, columns)| (width, columns)).collect()
    }

    /// Counted FLOPs of the products relative to theory, if the products may be this network's.
    fn padding_of(&self, network: SquareMlp) -> Result<Option<f64>, FlopError> {
        for (part, structure) in self.passes {
            let counted = &part.decomposition.measured;
            let pass = part.decomposition.pass;
            let verdict = Plausibility::of_gemm(network, pass, counted, Exactness::Exact)?;
            if verdict.is_impossible() || products_beyond_tiles(network, structure, &verdict, counted.gemm) {
                return Ok(None);
            }
            if pass == Pass::Forward && least_of_tiles(network, structure) > u128::from(counted.gemm) {
                return Ok(None);
            }
        }
        let (forward, _) = self.passes[0];
        let theory = network.theory(Pass::Forward)?.gemm;
        Ok(Some(forward.decomposition.measured.gemm as f64 / theory as f64))
    }
}

/// The extents that a product's tile may have along the columns, which its grid shows; two where
/// the grid fits the tile either way.
pub(crate) fn column_tiles(network: SquareMlp, structure: &Structure<'_>) -> Vec<Vec<u64>> {
    let (width, columns) = (network.width(), network.columns());
    let mut known: Vec<Vec<u64>> = Vec::new();
    for (_, launch, kernel) in structure.launches(LaunchKind::Product) {
        let (Some(tile), Some([x, y, _])) = (kernel.tile, launch.grid) else { continue };
        let tiles = |size: u64, extent: u64| size.div_ceil(extent.max(1));
        let [m, n] = [tile.m, tile.n].map(u64::from);
        // The product of gradients of weights has no columns.
        if structure.pass() == Pass::Backward && x * y == tiles(width, m) * tiles(width, n) {
            continue;
        }
        let ways = [(tiles(width, m), tiles(columns, n), n), (tiles(columns, m), tiles(width, n), m)];
        let exact = ways.iter().filter(|(across, down, _)| (*across, *down) == (x, y));
        let mut extents: Vec<u64> = exact.map(|way| way.2).collect();
        if extents.is_empty() {
            let turned = ways.iter().filter(|(across, down, _)| across * down == x * y);
            extents = turned.map(|way| way.2).collect();
        }
        extents.dedup();
        if !extents.is_empty() && !known.contains(&extents) {
            known.push(extents);
        }
    }
    known
}

/// Whether the tiles of its kernels explain what the products of a pass executed.
pub(crate) fn tiles_explain(network: SquareMlp, structure: &Structure<'_>, counted: u64) -> bool {
    most_of_tiles(network, structure).is_some_and(|most| counted as f64 <= most * (1.0 + BEYOND_TILES))
}

/// Products that execute more than whole tiles of the stated sizes, though they are as many as the
/// network has.
fn products_beyond(
    network: SquareMlp,
    part: &PassAnalysis,
    structure: &Structure<'_>,
) -> Result<Option<SizeEvidence>, FlopError> {
    let pass = part.decomposition.pass;
    let counted = part.decomposition.measured.gemm;
    let beyond = products_beyond_tiles(network, structure, &part.plausibility, counted);
    let theory = network.theory(pass)?.gemm;
    Ok(beyond.then_some(SizeEvidence::Products { pass, counted, theory }))
}

fn products_beyond_tiles(
    network: SquareMlp,
    structure: &Structure<'_>,
    verdict: &Plausibility,
    counted: u64,
) -> bool {
    if structure.count(LaunchKind::Product) != products_needed(network, structure.pass()) {
        return false;
    }
    match most_of_tiles(network, structure) {
        Some(_) => !tiles_explain(network, structure, counted),
        None => verdict.is_beyond_padding(),
    }
}

/// The most that the products of a pass execute in whole tiles, if each kernel's tile is known.
fn most_of_tiles(network: SquareMlp, structure: &Structure<'_>) -> Option<f64> {
    let (width, columns) = (network.width(), network.columns());
    let onward = [width, columns, width];
    let shapes = [onward, [width, width, columns]];
    let shapes = if structure.pass() == Pass::Forward { &shapes[..1] } else { &shapes[..] };
    structure
        .launches(LaunchKind::Product)
        .map(|(_, _, kernel)| {
            let of = |shape: &[u64; 3]| in_tiles(*shape, kernel.tile?).max();
            shapes.iter().map(of).try_fold(0, |most, one| Some(most.max(one?)))
        })
        .try_fold(0.0, |sum: f64, one| Some(sum + one? as f64))
}

/// The least that the products of a forward pass execute in whole tiles, as far as they are known.
fn least_of_tiles(network: SquareMlp, structure: &Structure<'_>) -> u128 {
    let shape = [network.width(), network.columns(), network.width()];
    let least = |kernel: &Kernel| in_tiles(shape, Tile { k: None, ..kernel.tile? }).min();
    if structure.count(LaunchKind::Product) != network.layers() {
        return 0;
    }
    structure.launches(LaunchKind::Product).map(|(_, _, kernel)| least(kernel).unwrap_or(0)).sum()
}

/// The FLOPs of a product in whole tiles, which may lie either way.
fn in_tiles([rows, columns, inner]: [u64; 3], tile: Tile) -> impl Iterator<Item = u128> {
    let up = |size: u64, to: u32| u128::from(size).next_multiple_of(u128::from(to.max(1)));
    let inner = up(inner, tile.k.unwrap_or(1));
    [(tile.m, tile.n), (tile.n, tile.m)]
        .into_iter()
        .map(move |(m, n)| 2 * up(rows, m) * up(columns, n) * inner)
}

/// The elements of a layer.
fn elements(network: SquareMlp) -> u64 {
    // Its theory fits 64 bits, so this does.
    network.width() * network.columns()
}

/// The FLOPs of a gradient of a sigmoid an element: `g y (1 - y)`, of which the gradient of a sum
/// lacks the first factor.
fn gradient_flops(kernel: &Kernel) -> Option<u64> {
    let name = kernel.name.to_ascii_lowercase();
    if is_compiled(kernel) || !name.contains("sigmoid_backward") {
        return None;
    }
    Some(if name.contains("sigmoid_backward_of_sum") { 2 } else { 3 })
}

/// Whether the kernel executes the same for every element, whatever its value. A sigmoid's
/// division does not: it takes another path for large values.
fn is_steady(layers: &[Layer<'_>], &(_, launch, kernel): &Layer<'_>) -> bool {
    let same = |other: &&Layer<'_>| {
        (other.1.kernel, other.1.grid, other.1.block) == (launch.kernel, launch.grid, launch.block)
    };
    let mut alike = layers.iter().filter(same);
    let repeats = layers.iter().filter(same).count() > 1;
    let equal = alike.all(|other| other.1.flops == launch.flops);
    // A compiler's kernel also computes on what lies behind the end of its block.
    is_named_activation(kernel)
        && !is_compiled(kernel)
        && launch.flops > 0
        && (gradient_flops(kernel).is_some() || repeats && equal)
}

/// The numbers of elements that the grid of one of PyTorch's element-wise kernels may cover, in
/// increasing order.
fn covered(launch: &CountedLaunch, kernel: &Kernel) -> Option<Vec<std::ops::RangeInclusive<u64>>> {
    let per_thread: Vec<u64> = match kernel.base.as_str() {
        // By version and type.
        "vectorized_elementwise_kernel" | "unrolled_elementwise_kernel" => vec![4, 8],
        // elementwise_kernel<threads, elements of a thread, ...>
        "elementwise_kernel" => vec![second_argument(&kernel.name)?],
        _ => return None,
    };
    let blocks: u64 = launch.grid?.iter().product();
    let threads: u64 = launch.block?.iter().product();
    let span = |per_thread: u64| {
        let block = threads * per_thread;
        (blocks.saturating_sub(1) * block + 1)..=(blocks * block)
    };
    Some(per_thread.into_iter().map(span).collect())
}

/// The second template argument of a name, a number: `2` of
/// `elementwise_kernel<(int)128, (int)2, …`.
fn second_argument(name: &str) -> Option<u64> {
    let arguments = name.split_once("elementwise_kernel<")?.1;
    let second = arguments.split(',').nth(1)?.trim();
    second.trim_start_matches("(int)").parse().ok()
}

/// The divisors of a number, in increasing order; none of a number that no GPU holds.
fn divisors(number: u64) -> Vec<u64> {
    if number > MOST_ELEMENTS {
        return Vec::new();
    }
    let mut small: Vec<u64> =
        (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor)).collect();
    let large: Vec<u64> = small.iter().rev().map(|divisor| number / divisor).collect();
    small.extend(large);
    small.dedup();
    small
}
