//! What a GPU runs for a language model, by its sizes: the work that tables of kernels measure.

use serde::{Deserialize, Serialize};

/// How the factors of a product are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// bfloat16 or IEEE binary16, which run at the same rate.
    Bf16,
    /// 8-bit floats with a scale for each tensor, row or column.
    Fp8,
    /// 8-bit floats with a scale for each block of 128 by 128 weights.
    Fp8Block,
    /// 4-bit floats with an 8-bit scale for each 16.
    Nvfp4,
    /// 4-bit integers as weights, 16-bit activations.
    Int4,
    /// 4-bit floats with an 8-bit exponent for each 32 as weights, 16-bit activations.
    Mxfp4,
    /// The same weights with 8-bit activations.
    Mxfp4Fp8,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 7] =
        [Self::Bf16, Self::Fp8, Self::Fp8Block, Self::Nvfp4, Self::Int4, Self::Mxfp4, Self::Mxfp4Fp8];

    /// Its name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Fp8Block => "fp8-block",
            Self::Nvfp4 => "nvfp4",
            Self::Int4 => "int4",
            Self::Mxfp4 => "mxfp4",
            Self::Mxfp4Fp8 => "mxfp4-fp8",
        }
    }

    /// The format of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Bits of a weight with its share of the scales. Groups of 4-bit integers have a 16-bit scale
    /// for each 32.
    pub const fn quarter_bits(self) -> u64 {
        match self {
            Self::Bf16 => 64,
            Self::Fp8 | Self::Fp8Block => 32,
            Self::Nvfp4 | Self::Int4 => 18,
            Self::Mxfp4 | Self::Mxfp4Fp8 => 17,
        }
    }

    /// Bytes of so many weights.
    pub const fn bytes(self, weights: u64) -> u64 {
        weights.saturating_mul(self.quarter_bits()).div_ceil(32)
    }
}

/// How tokens are distributed over the experts of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// Each expert gets the same number.
    Balanced,
    /// The loads follow a power law with exponent 1.01.
    Skewed,
    /// The loads follow a power law with exponent 1.2.
    VerySkewed,
}

/// Causal attention of whole sequences, or of a token to a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attend {
    /// Sequences.
    pub batch: u64,
    /// Prefill: new tokens of each sequence, with none before. Decode: positions that the one new
    /// token sees, itself among them.
    pub tokens: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a query or key.
    pub head_width: u64,
    /// Width of a value: that of a key, except in latent attention.
    pub value_width: u64,
    /// How many positions a token sees at most; `None` for all.
    pub window: Option<u64>,
    /// Whether values are a part of the keys, as in latent attention with absorbed projections:
    /// they are stored and read once.
    pub values_in_keys: bool,
    /// How keys and values are stored.
    pub cache: Format,
}

/// The experts of a layer: three products each, of the tokens that are routed to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Experts {
    /// Tokens of the whole layer.
    pub tokens: u64,
    /// Width of the model.
    pub hidden: u64,
    /// Inner width of an expert.
    pub inner: u64,
    /// Experts that a token is routed to.
    pub chosen: u64,
    /// Experts of the layer.
    pub experts: u64,
    /// GPUs that share each expert.
    pub tensor_parallel: u64,
    /// GPUs that share the experts.
    pub expert_parallel: u64,
    /// How tokens are distributed.
    pub routing: Routing,
    /// How weights are stored.
    pub format: Format,
}

/// What GPUs do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Each gets the sum.
    AllReduce,
    /// Each gets all parts.
    AllGather,
    /// Each gets a part of the sum.
    ReduceScatter,
    /// Each gets a part from each.
    AllToAll,
}

/// Work of one launch on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// `m` rows by a weight of `k` by `n`.
    Product {
        /// Rows: tokens.
        m: u64,
        /// Outputs.
        n: u64,
        /// Inputs.
        k: u64,
        /// How the factors are stored.
        format: Format,
    },
    /// Causal attention of whole sequences.
    Prefill(Attend),
    /// Attention of one new token of each sequence.
    Decode(Attend),
    /// The experts of a layer.
    Experts(Experts),
    /// A collective of the GPUs of a node.
    Collective {
        /// What they do.
        operation: Operation,
        /// How many.
        gpus: u64,
        /// Elements of the whole message.
        elements: u64,
        /// Bytes of an element.
        width: u64,
    },
    /// Element-wise functions, norms, rows of a table: what is read and written.
    Memory {
        /// Bytes.
        bytes: u64,
    },
}

impl Attend {
    /// Positions that one token sees.
    fn seen(&self) -> u64 {
        self.window.map_or(self.tokens, |window| window.min(self.tokens))
    }

    /// Pairs of query and key in a causal sequence: `t (t + 1) / 2`, and with a window `w` of fewer
    /// positions `w (w + 1) / 2 + (t - w) w`.
    fn pairs(&self) -> u64 {
        let (tokens, seen) = (self.tokens, self.seen());
        seen.saturating_mul(seen + 1) / 2 + (tokens - seen).saturating_mul(seen)
    }

    /// Two for each multiply-add of scores and values.
    fn flops(&self, pairs: u64) -> u64 {
        [self.batch, self.heads, pairs, self.head_width + self.value_width, 2]
            .into_iter()
            .fold(1, u64::saturating_mul)
    }

    /// Queries in, values out, and the keys and values of each head.
    fn bytes(&self, queries: u64, keys: u64) -> u64 {
        let widths = self.head_width + self.value_width;
        let activations = 2 * self.batch * self.heads * queries * widths;
        let kept = if self.values_in_keys { self.head_width } else { widths };
        activations.saturating_add(self.cache.bytes(self.batch * self.kv_heads * keys * kept))
    }
}

impl Kernel {
    /// Floating-point operations, two for a multiply-add. Of experts, those of balanced routing.
    ///
    /// ```
    /// use flopgap_graph::language::{Format, Kernel};
    ///
    /// let product = Kernel::Product { m: 2, n: 3, k: 5, format: Format::Bf16 };
    /// assert_eq!(product.flops(), 60);
    /// ```
    pub fn flops(&self) -> u64 {
        match self {
            Self::Product { m, n, k, .. } => [*m, *n, *k, 2].into_iter().fold(1, u64::saturating_mul),
            Self::Prefill(attend) => attend.flops(attend.pairs()),
            Self::Decode(attend) => attend.flops(attend.seen()),
            Self::Experts(experts) => {
                let all = [experts.tokens, experts.chosen, experts.hidden, experts.inner, 6]
                    .into_iter()
                    .fold(1, u64::saturating_mul);
                all / (experts.expert_parallel * experts.tensor_parallel).max(1)
            }
            Self::Collective { .. } | Self::Memory { .. } => 0,
        }
    }

    /// Bytes that have to move: between the memory and the units of a GPU, or of a collective
    /// between GPUs.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Product { m, n, k, format } => {
                let factors = format.bytes(m.saturating_mul(*k).saturating_add(n.saturating_mul(*k)));
                factors.saturating_add(2 * m.saturating_mul(*n))
            }
            Self::Prefill(attend) => attend.bytes(attend.tokens, attend.tokens),
            Self::Decode(attend) => attend.bytes(1, attend.seen()),
            Self::Experts(experts) => {
                let pairs = (experts.tokens * experts.chosen / experts.expert_parallel.max(1)).max(1);
                let here = (experts.experts / experts.expert_parallel.max(1)).max(1).min(pairs);
                let inner = experts.inner / experts.tensor_parallel.max(1);
                let weights = [3, here, experts.hidden, inner].into_iter().fold(1, u64::saturating_mul);
                experts.format.bytes(weights).saturating_add(4 * experts.tokens * experts.hidden)
            }
            Self::Collective { elements, width, .. } => elements.saturating_mul(*width),
            Self::Memory { bytes } => *bytes,
        }
    }
}
