//! A language model by its sizes: weights, and the bytes of its cache.

use super::kernel::{Format, Routing};

/// A transformer that predicts tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageModel {
    /// What messages call it.
    pub name: String,
    /// Its `model_type`.
    pub kind: String,
    /// What its activations are computed in, as the configuration says: `bfloat16`.
    pub dtype: String,
    /// Whether the configuration has other parts, such as a model of images, that are not counted.
    pub text_alone: bool,
    /// Width of the model.
    pub hidden: u64,
    /// Tokens of its vocabulary.
    pub vocabulary: u64,
    /// Whether the first and the last matrix are one.
    pub tied: bool,
    /// Norms of a layer.
    pub norms: u64,
    /// Kinds of layers, each with how many there are.
    pub layers: Vec<Layer>,
    /// How weights of linear layers are stored, except of the router, the first and the last
    /// matrix.
    pub linear: Format,
    /// How weights of experts are stored.
    pub experts: Format,
}

/// Layers that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// Its attention.
    pub attention: Attention,
    /// What follows.
    pub feed: Feed,
    /// How many there are.
    pub count: u64,
}

/// Attention of a layer.
#[expect(clippy::struct_excessive_bools, reason = "architectures combine them freely")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_width: u64,
    /// Whether queries, keys and values have biases.
    pub qkv_bias: bool,
    /// Whether the output has one.
    pub output_bias: bool,
    /// Whether queries and keys are normalized by head.
    pub head_norms: bool,
    /// Whether each head has a learned sink.
    pub sinks: bool,
    /// How many tokens a token sees; `None` for all before it.
    pub window: Option<u64>,
    /// Latent attention instead of heads of keys and values.
    pub latent: Option<Latent>,
}

/// Latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads are made from one
/// vector of a token, which is what the cache keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latent {
    /// Width of the vector that queries are made from; `None` where they are made directly.
    pub query_rank: Option<u64>,
    /// Width of the vector that keys and values are made from.
    pub rank: u64,
    /// Width of the part of a key without rotation.
    pub plain: u64,
    /// Width of the rotated part, which all heads share.
    pub rotary: u64,
    /// Width of a value.
    pub value: u64,
}

/// What follows attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// A gated layer.
    Dense {
        /// Its inner width.
        inner: u64,
        /// Whether it has biases.
        bias: bool,
    },
    /// Experts.
    Routed(Routed),
}

/// Gated layers; each token uses a few of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routed {
    /// How many there are.
    pub experts: u64,
    /// How many a token uses.
    pub chosen: u64,
    /// Their inner width.
    pub inner: u64,
    /// Inner width of what every token uses; 0 without.
    pub shared: u64,
    /// Whether that part has a gate.
    pub shared_gate: bool,
    /// Whether the router has biases.
    pub router_bias: bool,
    /// Whether experts have.
    pub bias: bool,
}

/// How a model is divided over the GPUs of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Division {
    /// GPUs that share each layer.
    pub tensor: u64,
    /// Of these, how many groups each have experts of their own: 1 if all GPUs share each expert,
    /// `tensor` if each has whole experts.
    pub experts: u64,
}

impl Default for Division {
    /// One GPU.
    fn default() -> Self {
        Self { tensor: 1, experts: 1 }
    }
}

/// How it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// What runs.
    pub phase: Phase,
    /// Sequences.
    pub batch: u64,
    /// Prefill: tokens of each sequence. Decode: tokens of each, with the new one.
    pub tokens: u64,
    /// How keys and values are stored.
    pub cache: Format,
    /// How tokens are distributed over experts.
    pub routing: Routing,
}

impl Pass {
    /// Prompts of so many tokens each, with 16-bit keys and values and loads of experts by a power
    /// law.
    pub const fn prefill(batch: u64, tokens: u64) -> Self {
        Self { phase: Phase::Prefill, batch, tokens, cache: Format::Bf16, routing: Routing::Skewed }
    }

    /// One new token of sequences of so many tokens each, alike.
    pub const fn decode(batch: u64, tokens: u64) -> Self {
        Self { phase: Phase::Decode, ..Self::prefill(batch, tokens) }
    }
}

/// Which of the two ways a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// All tokens of a prompt at once.
    Prefill,
    /// One new token of each sequence.
    Decode,
}

/// Weights that are stored and divided alike.
struct Weights {
    numbers: u64,
    format: Format,
    divided: bool,
}

impl LanguageModel {
    /// Numbers that were learned.
    pub fn parameters(&self) -> u64 {
        self.weights().iter().map(|weights| weights.numbers).sum()
    }

    /// Numbers that one token uses: all but the experts that it is not routed to. The first matrix
    /// counts, of which a token reads a row.
    pub fn active_parameters(&self) -> u64 {
        let idle: u64 = self
            .layers
            .iter()
            .map(|layer| match layer.feed {
                Feed::Dense { .. } => 0,
                Feed::Routed(routed) => {
                    layer.count * (routed.experts - routed.chosen) * routed.expert(self.hidden)
                }
            })
            .sum();
        self.parameters() - idle
    }

    /// Bytes of weights on each GPU.
    pub fn weight_bytes(&self, division: Division) -> u64 {
        let bytes = self.weights().into_iter().map(|weights| {
            let parts = if weights.divided { division.tensor.max(1) } else { 1 };
            weights.format.bytes(weights.numbers.div_ceil(parts))
        });
        bytes.sum()
    }

    /// Bytes that the keys and values of a sequence take on each GPU: layers with a window keep
    /// only that, and a latent vector is on each GPU.
    pub fn cache_bytes(&self, tokens: u64, format: Format, division: Division) -> u64 {
        let of = |layer: &Layer| {
            let attention = &layer.attention;
            let kept = attention.window.map_or(tokens, |window| window.min(tokens));
            let width = match attention.latent {
                Some(latent) => latent.rank + latent.rotary,
                None => 2 * attention.kv_heads.div_ceil(division.tensor.max(1)) * attention.head_width,
            };
            layer.count * format.bytes(kept * width)
        };
        self.layers.iter().map(of).sum()
    }

    fn weights(&self) -> Vec<Weights> {
        let hidden = self.hidden;
        let whole = |numbers: u64| Weights { numbers, format: Format::Bf16, divided: false };
        let linear = |numbers: u64| Weights { numbers, format: self.linear, divided: true };
        let matrices = if self.tied { 1 } else { 2 };
        let mut all = vec![
            Weights { numbers: matrices * self.vocabulary * hidden, format: Format::Bf16, divided: true },
            whole(hidden),
        ];
        for layer in &self.layers {
            let mut of_layer = vec![whole(self.norms * hidden)];
            layer.attention.weights(hidden, &mut |numbers, is_matrix, divided| {
                let format = if is_matrix { self.linear } else { Format::Bf16 };
                of_layer.push(Weights { numbers, format, divided });
            });
            match layer.feed {
                Feed::Dense { inner, bias } => {
                    of_layer.push(linear(3 * hidden * inner));
                    of_layer.push(whole(if bias { 2 * inner + hidden } else { 0 }));
                }
                Feed::Routed(routed) => {
                    let biases = if routed.router_bias { routed.experts } else { 0 };
                    of_layer.push(whole(routed.experts * hidden + biases));
                    of_layer.push(whole(if routed.shared_gate { hidden } else { 0 }));
                    of_layer.push(linear(3 * hidden * routed.shared));
                    let matrices = routed.experts * 3 * hidden * routed.inner;
                    of_layer.push(Weights { numbers: matrices, format: self.experts, divided: true });
                    let biases = routed.experts * routed.expert(hidden) - matrices;
                    of_layer.push(Weights { numbers: biases, format: Format::Bf16, divided: true });
                }
            }
            all.extend(
                of_layer
                    .into_iter()
                    .map(|weights| Weights { numbers: layer.count * weights.numbers, ..weights }),
            );
        }
        all
    }
}

impl Routed {
    /// Numbers of one expert.
    fn expert(&self, hidden: u64) -> u64 {
        3 * hidden * self.inner + if self.bias { 2 * self.inner + hidden } else { 0 }
    }
}

impl Attention {
    /// Calls with how many numbers there are, whether they are a matrix, and whether GPUs divide
    /// them.
    fn weights(&self, hidden: u64, add: &mut impl FnMut(u64, bool, bool)) {
        let Self { heads, kv_heads, head_width, .. } = *self;
        if let Some(latent) = self.latent {
            let queries = heads * (latent.plain + latent.rotary);
            match latent.query_rank {
                Some(rank) => {
                    add(hidden * rank, true, false);
                    add(rank, false, false);
                    add(rank * queries, true, true);
                }
                None => add(hidden * queries, true, true),
            }
            add(hidden * (latent.rank + latent.rotary), true, false);
            add(latent.rank, false, false);
            add(latent.rank * heads * (latent.plain + latent.value), true, true);
            add(heads * latent.value * hidden, true, true);
            return;
        }
        let qkv = (heads + 2 * kv_heads) * head_width;
        add(hidden * qkv, true, true);
        add(if self.qkv_bias { qkv } else { 0 }, false, true);
        add(heads * head_width * hidden, true, true);
        add(if self.output_bias { hidden } else { 0 }, false, false);
        add(if self.head_norms { 2 * head_width } else { 0 }, false, false);
        add(if self.sinks { heads } else { 0 }, false, true);
    }
}
