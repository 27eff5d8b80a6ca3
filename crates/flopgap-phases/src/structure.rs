//! Checks that a pass has the launches that its network requires.
//!
//! A layer's product needs the activation before it, so a forward pass of N layers is at least N
//! products and N activations; its backward pass is `2N - 1` products, because nothing needs the
//! gradient of the first layer's input, and N activation gradients. A product may take more
//! launches than one, so more than these are no contradiction, and fewer are. A product in slices
//! (split-K) needs the launch that adds them up: a kernel that is followed by one once is always
//! followed by one, in the same grid.

use std::path::Path;

use flopgap_flops::{Pass, SquareMlp};
use flopgap_kernels::KernelClass;
use rustc_hash::FxHashMap;

use crate::{Clue, Contradiction, CountedLaunch, Kernel, LaunchKind, NumberedLaunch, PhaseLaunches, Share};

/// Words in the name of a kernel that computes an activation or its gradient.
const ACTIVATIONS: [&str; 12] = [
    "sigmoid",
    "logistic",
    "tanh",
    "relu",
    "gelu",
    "silu",
    "swish",
    "softplus",
    "elu",
    "clamp",
    "threshold",
    "activation",
];

/// The launches of a pass, of which each is known to be a product, an activation or neither.
pub(crate) struct Structure<'a> {
    pass: Pass,
    phase: &'a PhaseLaunches<'a>,
    /// What each launch of the phase is; `None` for helpers.
    kinds: Vec<Option<LaunchKind>>,
}

impl<'a> Structure<'a> {
    pub(crate) fn new(pass: Pass, phase: &'a PhaseLaunches<'a>) -> Self {
        let kernel = |launch: &CountedLaunch| phase.recording.kernel(launch.kernel);
        // A compiler names a kernel after some of what it fused, so there every kernel that works
        // on elements may hold an activation.
        let compiled = phase.launches.iter().any(|launch| is_compiled(kernel(launch)));
        let named = phase.launches.iter().any(|launch| is_named_activation(kernel(launch)));
        let kind = |launch: &CountedLaunch| {
            let kernel = kernel(launch);
            let activation = match kernel.class {
                _ if Share::of(kernel.class, pass) == Share::Gemm => return Some(LaunchKind::Product),
                KernelClass::SplitKReduce | KernelClass::Copy | KernelClass::Layout | KernelClass::Random => {
                    false
                }
                KernelClass::Elementwise => compiled || !named || is_named_activation(kernel),
                _ => compiled || is_named_activation(kernel),
            };
            activation.then_some(LaunchKind::Activation)
        };
        let kinds = phase.launches.iter().map(kind).collect();
        Structure { pass, phase, kinds }
    }

    pub(crate) fn pass(&self) -> Pass {
        self.pass
    }

    /// The recording's file.
    pub(crate) fn run(&self) -> &Path {
        self.phase.recording.path()
    }

    pub(crate) fn is_rounded(&self) -> bool {
        self.phase.recording.is_rounded()
    }

    /// The launches of a kind, each with its place in the pass and its kernel.
    pub(crate) fn launches(
        &self,
        kind: LaunchKind,
    ) -> impl Iterator<Item = (usize, &'a CountedLaunch, &'a Kernel)> {
        let phase = self.phase;
        let of_kind = move |&(index, _): &(usize, &CountedLaunch)| self.kinds[index] == Some(kind);
        let kernel = |launch: &CountedLaunch| phase.recording.kernel(launch.kernel);
        phase
            .launches
            .iter()
            .enumerate()
            .filter(of_kind)
            .map(move |(index, launch)| (index, launch, kernel(launch)))
    }

    pub(crate) fn count(&self, kind: LaunchKind) -> u64 {
        self.kinds.iter().filter(|&&one| one == Some(kind)).count() as u64
    }

    /// The kinds of launches of which the network needs more than there are.
    pub(crate) fn missing(&self, network: SquareMlp) -> impl Iterator<Item = Contradiction> {
        let layers = network.layers();
        let needed = [LaunchKind::Product, LaunchKind::Activation].into_iter().filter_map(move |kind| {
            let expected = match kind {
                LaunchKind::Product => products_needed(network, self.pass),
                _ => layers,
            };
            let found = self.count(kind);
            (found < expected).then(|| self.fewer(kind, expected, found, self.clues(kind, layers)))
        });
        needed.chain(self.missing_reductions())
    }

    fn fewer(&self, kind: LaunchKind, expected: u64, found: u64, clues: Vec<Clue>) -> Contradiction {
        let run = self.phase.recording.path().to_owned();
        Contradiction::MissingLaunches { run, pass: self.pass, kind, expected, found, clues }
    }

    /// The reductions that products lack while the same kernel in the same grid has one elsewhere
    /// in the pass.
    fn missing_reductions(&self) -> Option<Contradiction> {
        let launches = &self.phase.launches;
        let reduces = |launch: &CountedLaunch| {
            self.phase.recording.kernel(launch.kernel).class == KernelClass::SplitKReduce
        };
        let mut sliced: FxHashMap<_, (bool, Vec<usize>)> = FxHashMap::default();
        for (index, launch) in launches.iter().enumerate() {
            if self.kinds[index] == Some(LaunchKind::Product) {
                let (in_slices, alone) =
                    sliced.entry((launch.kernel, launch.grid, launch.block)).or_default();
                if launches.get(index + 1).is_some_and(reduces) {
                    *in_slices = true;
                } else {
                    alone.push(index);
                }
            }
        }
        let alone = sliced.into_values().filter(|(in_slices, _)| *in_slices).flat_map(|(_, alone)| alone);
        let alone: Vec<usize> = alone.collect();
        let first = *alone.iter().min()?;
        // On several streams, a reduction need not be the next launch: then there are enough of
        // them.
        let found = launches.iter().filter(|launch| reduces(launch)).count();
        let followed = (1..launches.len())
            .filter(|&next| self.kinds[next - 1] == Some(LaunchKind::Product) && reduces(&launches[next]))
            .count();
        let expected = followed + alone.len();
        let clues = || vec![Clue::After(self.numbered(first, &launches[first]))];
        (found < expected)
            .then(|| self.fewer(LaunchKind::SplitKReduction, expected as u64, found as u64, clues()))
    }

    /// Where launches are missing, as far as the order shows, and where the phase ends.
    fn clues(&self, kind: LaunchKind, layers: u64) -> Vec<Clue> {
        let mut clues = Vec::new();
        clues.extend(match kind {
            LaunchKind::Product => self.gap_of_products(layers),
            LaunchKind::Activation => self.missing_activation(),
            LaunchKind::SplitKReduction => None,
        });
        if let Some((last, others)) = self.phase.launches.split_last() {
            clues.push(Clue::End(self.numbered(others.len(), last)));
        }
        let unclassified =
            self.phase.launches.iter().map(|launch| self.phase.recording.kernel(launch.kernel));
        let first =
            unclassified.into_iter().find(|kernel| Share::of(kernel.class, self.pass) == Share::Other);
        clues.extend(first.map(|kernel| Clue::Unclassified { kernel: kernel.short.clone() }));
        clues
    }

    /// The layers whose products are missing, where each layer can be recognized by its activation.
    fn gap_of_products(&self, layers: u64) -> Option<Clue> {
        if self.count(LaunchKind::Activation) != layers {
            return None;
        }
        // Forward, products come before their layer's activation; backward, after its gradient,
        // from the last layer on.
        let mut groups = vec![0_u64];
        for kind in self.kinds.iter().flatten() {
            match kind {
                LaunchKind::Product => *groups.last_mut().expect("there is a first group") += 1,
                LaunchKind::Activation => groups.push(0),
                LaunchKind::SplitKReduction => {}
            }
        }
        let (groups, needed): (&[u64], Box<dyn Fn(usize) -> u64>) = match self.pass {
            Pass::Forward => (&groups[..groups.len() - 1], Box::new(|_| 1)),
            Pass::Backward => {
                let last = groups.len() - 2;
                (&groups[1..], Box::new(move |at| if at == last { 1 } else { 2 }))
            }
        };
        let short: Vec<u64> = (0..groups.len())
            .filter(|&at| groups[at] < needed(at))
            .map(|at| match self.pass {
                Pass::Forward => at as u64 + 1,
                Pass::Backward => layers - at as u64,
            })
            .collect();
        let (&first, &last) = (short.first()?, short.last()?);
        Some(Clue::Products { layers: short.len(), first, last })
    }

    /// The first launch with which a layer begins although the layer before it had no activation.
    fn missing_activation(&self) -> Option<Clue> {
        if self.pass == Pass::Backward || self.count(LaunchKind::Activation) == 0 {
            return None;
        }
        let mut products = 0;
        for (index, kind) in self.kinds.iter().enumerate() {
            match kind {
                Some(LaunchKind::Product) if products == 1 => {
                    return Some(Clue::Before(self.numbered(index, &self.phase.launches[index])));
                }
                Some(LaunchKind::Product) => products += 1,
                Some(LaunchKind::Activation) => products = 0,
                Some(LaunchKind::SplitKReduction) | None => {}
            }
        }
        None
    }

    pub(crate) fn numbered(&self, index: usize, launch: &CountedLaunch) -> NumberedLaunch {
        let kernel = self.phase.recording.kernel(launch.kernel).short.clone();
        NumberedLaunch { number: index + 1, of: self.phase.launches.len(), kernel }
    }
}

/// The products of a pass at least.
pub(crate) fn products_needed(network: SquareMlp, pass: Pass) -> u64 {
    match pass {
        Pass::Forward => network.layers(),
        Pass::Backward => network.layers() + (network.layers() - 1),
    }
}

/// The layers of which both passes have exactly the products, if they are not those that were
/// required.
pub(crate) fn other_layers(
    network: SquareMlp,
    forward: &Structure<'_>,
    backward: &Structure<'_>,
) -> Option<Contradiction> {
    let [products, gradients] = [forward, backward].map(|pass| pass.count(LaunchKind::Product));
    // Two launches for each product would be 2N forward and 4N - 2 backward, which no other N has.
    let consistent = products > 0 && gradients == products + (products - 1);
    (consistent && products != network.layers()).then(|| Contradiction::OtherLayers {
        run: backward.phase.recording.path().to_owned(),
        stated: network.layers(),
        recorded: products,
    })
}

pub(crate) fn is_named_activation(kernel: &Kernel) -> bool {
    let name = kernel.short.to_ascii_lowercase();
    ACTIVATIONS.iter().any(|activation| name.contains(activation))
}

/// Whether a compiler (Inductor, XLA) wrote the kernel and chose what it fuses.
pub(crate) fn is_compiled(kernel: &Kernel) -> bool {
    kernel.base.starts_with("triton_") || kernel.base.contains("fusion")
}
