//! The kernels of a pass through a language model on one of its GPUs.
//!
//! Products are those that serving engines run: queries, keys and values in one, gate and up in
//! one. Norms take the sum of residuals along, and gated activations their product.

use super::error::LanguageError;
use super::kernel::{Attend, Experts, Format, Kernel, Operation};
use super::model::{Attention, Division, Feed, LanguageModel, Latent, Layer, Pass, Phase, Routed};

/// What a kernel belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Queries, keys and values.
    Qkv,
    /// Attention itself.
    Attention,
    /// Its output.
    Output,
    /// Gated layers that every token uses.
    Mlp,
    /// Router and experts.
    Experts,
    /// The last matrix.
    Head,
    /// Sums and parts between GPUs.
    Collectives,
    /// Norms, rotations, activations, the first matrix, writes to the cache.
    Elementwise,
}

impl Part {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qkv => "qkv",
            Self::Attention => "attention",
            Self::Output => "attention output",
            Self::Mlp => "mlp",
            Self::Experts => "experts",
            Self::Head => "lm head",
            Self::Collectives => "collectives",
            Self::Elementwise => "norms and element-wise",
        }
    }
}

/// Equal kernels of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// What they belong to.
    pub part: Part,
    /// What runs.
    pub kernel: Kernel,
    /// How often.
    pub count: u64,
}

/// Bytes of an activation.
const ACTIVATION: u64 = 2;

struct Launches<'a> {
    model: &'a LanguageModel,
    pass: Pass,
    division: Division,
    /// Tokens that go through the layers.
    tokens: u64,
    found: Vec<Launch>,
}

impl LanguageModel {
    /// The kernels of a pass on one GPU.
    ///
    /// # Errors
    /// When heads or widths cannot be divided over the GPUs.
    pub fn launches(&self, pass: Pass, division: Division) -> Result<Vec<Launch>, LanguageError> {
        self.check(division)?;
        let tokens = match pass.phase {
            Phase::Prefill => pass.batch.saturating_mul(pass.tokens),
            Phase::Decode => pass.batch,
        };
        let mut launches = Launches { model: self, pass, division, tokens, found: Vec::new() };
        launches.moves(1, 2 * tokens * self.hidden);
        for layer in &self.layers {
            launches.layer(layer);
        }
        launches.head();
        Ok(launches.found)
    }

    fn check(&self, division: Division) -> Result<(), LanguageError> {
        let Division { tensor, experts } = division;
        let fail = |what: String| Err(LanguageError::Division { what });
        if tensor == 0 || experts == 0 || tensor % experts != 0 {
            return fail(format!("experts are divided over {experts} of {tensor} GPUs; expected a divisor"));
        }
        for layer in &self.layers {
            let heads = layer.attention.heads;
            if heads % tensor != 0 {
                return fail(format!("{heads} heads of attention cannot be divided over {tensor} GPUs"));
            }
            let kv = layer.attention.kv_heads;
            if layer.attention.latent.is_none() && kv % tensor != 0 && tensor % kv != 0 {
                return fail(format!("{kv} heads of keys cannot be divided over {tensor} GPUs"));
            }
            if let Feed::Routed(routed) = layer.feed
                && routed.experts % experts != 0
            {
                return fail(format!("{} experts cannot be divided over {experts} GPUs", routed.experts));
            }
        }
        Ok(())
    }
}

impl Launches<'_> {
    fn add(&mut self, part: Part, count: u64, kernel: Kernel) {
        if count > 0 {
            self.found.push(Launch { part, kernel, count });
        }
    }

    fn product(&mut self, part: Part, count: u64, [n, k]: [u64; 2]) {
        let format = self.model.linear;
        self.add(part, count, Kernel::Product { m: self.tokens, n, k, format });
    }

    /// An element-wise kernel that moves so many activations.
    fn moves(&mut self, count: u64, activations: u64) {
        self.add(Part::Elementwise, count, Kernel::Memory { bytes: ACTIVATION * activations });
    }

    /// The sum of what each GPU has of a layer.
    fn sum(&mut self, count: u64) {
        let gpus = self.division.tensor;
        if gpus > 1 {
            let elements = self.tokens * self.model.hidden;
            let operation = Operation::AllReduce;
            self.add(
                Part::Collectives,
                count,
                Kernel::Collective { operation, gpus, elements, width: ACTIVATION },
            );
        }
    }

    fn layer(&mut self, layer: &Layer) {
        let (hidden, count) = (self.model.hidden, layer.count);
        // Activations and residuals in and out; of the norms after a layer only activations.
        self.moves(2 * count, 4 * self.tokens * hidden);
        self.moves((self.model.norms - 2) * count, 2 * self.tokens * hidden);
        match layer.attention.latent {
            Some(latent) => self.latent(count, layer.attention, latent),
            None => self.grouped(count, layer.attention),
        }
        self.sum(count);
        match layer.feed {
            Feed::Dense { inner, .. } => self.dense(count, inner),
            Feed::Routed(routed) => self.routed(count, routed),
        }
        self.sum(count);
    }

    fn attend(&mut self, count: u64, attend: Attend) {
        let kernel = match self.pass.phase {
            Phase::Prefill => Kernel::Prefill(attend),
            Phase::Decode => Kernel::Decode(attend),
        };
        self.add(Part::Attention, count, kernel);
    }

    fn grouped(&mut self, count: u64, attention: Attention) {
        let (hidden, gpus) = (self.model.hidden, self.division.tensor);
        let heads = attention.heads / gpus;
        // Fewer heads of keys than GPUs are repeated.
        let kv_heads = (attention.kv_heads / gpus).max(1);
        let width = attention.head_width;
        self.product(Part::Qkv, count, [(heads + 2 * kv_heads) * width, hidden]);
        let turned = 2 * self.tokens * (heads + kv_heads) * width;
        self.moves(if attention.head_norms { count } else { 0 }, turned);
        self.moves(count, turned);
        self.moves(count, 4 * self.tokens * kv_heads * width);
        let Pass { batch, tokens, cache, .. } = self.pass;
        let window = attention.window;
        self.attend(
            count,
            Attend {
                batch,
                tokens,
                heads,
                kv_heads,
                head_width: width,
                value_width: width,
                window,
                values_in_keys: false,
                cache,
            },
        );
        self.product(Part::Output, count, [hidden, heads * width]);
    }

    /// Prefill makes keys and values of all heads; decode multiplies queries and outputs by the
    /// matrices that would have made them, so that all heads see the one vector of a token.
    fn latent(&mut self, count: u64, attention: Attention, latent: Latent) {
        let hidden = self.model.hidden;
        let heads = attention.heads / self.division.tensor;
        let (query, kept) = (latent.plain + latent.rotary, latent.rank + latent.rotary);
        if let Some(rank) = latent.query_rank {
            self.product(Part::Qkv, count, [rank + kept, hidden]);
            self.moves(count, 2 * self.tokens * (rank + latent.rank));
            self.product(Part::Qkv, count, [heads * query, rank]);
        } else {
            self.product(Part::Qkv, count, [heads * query, hidden]);
            self.product(Part::Qkv, count, [kept, hidden]);
            self.moves(count, 2 * self.tokens * latent.rank);
        }
        self.moves(count, 2 * self.tokens * (heads + 1) * latent.rotary);
        self.moves(count, 2 * self.tokens * kept);
        let Pass { phase, batch, tokens, cache, .. } = self.pass;
        let (kv_heads, head_width, value_width) = match phase {
            Phase::Prefill => {
                self.product(Part::Qkv, count, [heads * (latent.plain + latent.value), latent.rank]);
                (heads, query, latent.value)
            }
            Phase::Decode => {
                self.product(Part::Qkv, count, [heads * latent.rank, latent.plain]);
                (1, kept, latent.rank)
            }
        };
        let values_in_keys = phase == Phase::Decode;
        // Keys and values of a prompt are used as they are computed.
        let cache = if values_in_keys { cache } else { Format::Bf16 };
        let window = None;
        self.attend(
            count,
            Attend { batch, tokens, heads, kv_heads, head_width, value_width, window, values_in_keys, cache },
        );
        if values_in_keys {
            self.product(Part::Qkv, count, [heads * latent.value, latent.rank]);
        }
        self.product(Part::Output, count, [hidden, heads * latent.value]);
    }

    fn dense(&mut self, count: u64, inner: u64) {
        let (hidden, inner) = (self.model.hidden, inner.div_ceil(self.division.tensor));
        self.product(Part::Mlp, count, [2 * inner, hidden]);
        self.moves(count, 3 * self.tokens * inner);
        self.product(Part::Mlp, count, [hidden, inner]);
    }

    fn routed(&mut self, count: u64, routed: Routed) {
        let hidden = self.model.hidden;
        let choice = Kernel::Product { m: self.tokens, n: routed.experts, k: hidden, format: Format::Bf16 };
        self.add(Part::Experts, count, choice);
        let Division { tensor, experts } = self.division;
        let kernel = Kernel::Experts(Experts {
            tokens: self.tokens,
            hidden,
            inner: routed.inner,
            chosen: routed.chosen,
            experts: routed.experts,
            tensor_parallel: tensor / experts,
            expert_parallel: experts,
            routing: self.pass.routing,
            format: self.model.experts,
        });
        self.add(Part::Experts, count, kernel);
        if routed.shared > 0 {
            self.dense(count, routed.shared);
            self.moves(count, 3 * self.tokens * hidden);
        }
    }

    /// The last norm and the last matrix, of the last token of each sequence.
    fn head(&mut self) {
        let (hidden, gpus) = (self.model.hidden, self.division.tensor);
        self.moves(1, 4 * self.tokens * hidden);
        let (m, vocabulary) = (self.pass.batch, self.model.vocabulary);
        let kernel = Kernel::Product { m, n: vocabulary.div_ceil(gpus), k: hidden, format: Format::Bf16 };
        self.add(Part::Head, 1, kernel);
        if gpus > 1 {
            let (operation, elements) = (Operation::AllGather, m * vocabulary);
            self.add(
                Part::Collectives,
                1,
                Kernel::Collective { operation, gpus, elements, width: ACTIVATION },
            );
        }
    }
}
