//! Scaled dot-product attention.

use std::hash::{Hash, Hasher};

use crate::{ElementType, FlopError, Work, checked};

/// Which query/key pairs are computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionMask {
    /// All pairs. Also what a causal mask costs where masked scores are computed and thrown away,
    /// as plain matrix products do.
    #[default]
    Full,
    /// Only pairs whose key is not after the query, the queries being the last positions of the
    /// keys. The least that causal attention needs; kernels that skip masked tiles come near it.
    Causal,
}

/// Attention between `queries` and `keys` positions, without the projections around it.
///
/// Every product is `2 batch heads pairs head_width` FLOPs, where `pairs` is `queries * keys` under
/// a full mask.
///
/// For batch 4, 12 heads, sequence 512 and head width 64, `Q K^T` is `2 * 4 * 12 * 512^2 * 64` =
/// 1,610,612,736 FLOPs and the softmax, at 5 per score, 62,914,560: 25.6 times less. (A figure of
/// 804,257,792 that circulates for this product is a slip of the pen: the formula printed next to
/// it gives twice as much, and even half of the product would be 805,306,368.)
///
/// ```
/// use flopgap_flops::{Attention, ElementType};
///
/// let attention = Attention::self_attention(4, 12, 512, 64);
/// let scores = attention.scores(ElementType::Fp32)?.flops;
/// let softmax = attention.softmax(ElementType::Fp32)?.flops;
/// assert_eq!((scores, softmax), (1_610_612_736, 62_914_560));
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Attention {
    /// Sequences.
    pub batch: u64,
    /// Query heads.
    pub heads: u64,
    /// Key/value heads; fewer than `heads` in grouped-query attention, 1 in multi-query attention.
    pub kv_heads: u64,
    /// Query positions; 1 when decoding a token.
    pub queries: u64,
    /// Key and value positions.
    pub keys: u64,
    /// Width of a head of queries and keys.
    pub head_width: u64,
    /// Width of a head of values, where it is another (as of latent attention).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_width: Option<u64>,
    /// Which pairs are computed.
    pub mask: AttentionMask,
}

/// Values as wide as keys add nothing: fits divide measured attention by its hash.
impl Hash for Attention {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { batch, heads, kv_heads, queries, keys, head_width, value_width, mask } = self;
        (batch, heads, kv_heads, queries, keys, head_width, mask).hash(state);
        if let Some(width) = value_width {
            width.hash(state);
        }
    }
}

/// Softmax per score: maximum, subtraction, exponential, sum, division.
const SOFTMAX: u64 = 5;

impl Attention {
    /// Multi-head self-attention over whole sequences, all pairs.
    pub const fn self_attention(batch: u64, heads: u64, length: u64, head_width: u64) -> Self {
        Self {
            batch,
            heads,
            kv_heads: heads,
            queries: length,
            keys: length,
            head_width,
            value_width: None,
            mask: AttentionMask::Full,
        }
    }

    /// Scores of all heads and sequences: `batch * heads * pairs`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`]; [`FlopError::CausalNeedsKeys`] for a causal mask with fewer keys
    /// than queries.
    pub fn score_elements(&self) -> Result<u64, FlopError> {
        let pairs = match self.mask {
            AttentionMask::Full => checked::product("attention pairs", &[self.queries, self.keys])?,
            AttentionMask::Causal => self.causal_pairs()?,
        };
        checked::product("attention scores", &[self.batch, self.heads, pairs])
    }

    /// `S = Q K^T`: `2 batch heads pairs head_width`. Reads `Q` and `K`, writes `S`.
    ///
    /// # Errors
    /// As [`score_elements`](Self::score_elements).
    pub fn scores(&self, element: ElementType) -> Result<Work, FlopError> {
        self.check_heads()?;
        let product = self.product("attention score FLOPs", self.head_width)?;
        Work::of_elements(
            product,
            &[self.query_elements()?, self.key_elements()?],
            &[self.score_elements()?],
            element,
        )
    }

    /// `S / sqrt(head_width)`: 1 per score. Often folded into another kernel, and then free of
    /// bytes.
    ///
    /// # Errors
    /// As [`score_elements`](Self::score_elements).
    pub fn scale(&self, element: ElementType) -> Result<Work, FlopError> {
        let scores = self.score_elements()?;
        Work::of_elements(scores, &[scores], &[scores], element)
    }

    /// `P = softmax(S)`: 5 per score. Reads `S`, writes `P`.
    ///
    /// # Errors
    /// As [`score_elements`](Self::score_elements).
    pub fn softmax(&self, element: ElementType) -> Result<Work, FlopError> {
        let scores = self.score_elements()?;
        let flops = checked::product("softmax FLOPs", &[SOFTMAX, scores])?;
        Work::of_elements(flops, &[scores], &[scores], element)
    }

    /// `O = P V`: `2 batch heads pairs value_width`. Reads `P` and `V`, writes `O`.
    ///
    /// # Errors
    /// As [`score_elements`](Self::score_elements).
    pub fn weighted_sum(&self, element: ElementType) -> Result<Work, FlopError> {
        self.check_heads()?;
        let product = self.product("attention output FLOPs", self.width_of_values())?;
        Work::of_elements(
            product,
            &[self.score_elements()?, self.value_elements()?],
            &[self.output_elements()?],
            element,
        )
    }

    /// The whole forward pass as one kernel that never writes the scores, as `FlashAttention` does:
    /// the FLOPs of scores, scale, softmax and weighted sum; reads `Q`, `K`, `V`, writes `O`.
    ///
    /// The rescaling of an online softmax and the saved row statistics are not counted.
    ///
    /// # Errors
    /// As [`score_elements`](Self::score_elements).
    pub fn fused_forward(&self, element: ElementType) -> Result<Work, FlopError> {
        let flops = checked::sum(
            "fused attention FLOPs",
            &[
                self.scores(element)?.flops,
                self.scale(element)?.flops,
                self.softmax(element)?.flops,
                self.weighted_sum(element)?.flops,
            ],
        )?;
        let read = [self.query_elements()?, self.key_elements()?, self.value_elements()?];
        Work::of_elements(flops, &read, &[self.output_elements()?], element)
    }

    /// Multiply-adds of both products.
    ///
    /// # Errors
    /// As [`score_elements`](Self::score_elements).
    pub fn multiply_adds(&self) -> Result<u64, FlopError> {
        let widths = checked::sum("attention multiply-adds", &[self.head_width, self.width_of_values()])?;
        checked::product("attention multiply-adds", &[self.score_elements()?, widths])
    }

    /// Elements of `Q`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn query_elements(&self) -> Result<u64, FlopError> {
        checked::product("query elements", &[self.batch, self.heads, self.queries, self.head_width])
    }

    /// Elements of `K`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn key_elements(&self) -> Result<u64, FlopError> {
        checked::product("key elements", &[self.batch, self.kv_heads, self.keys, self.head_width])
    }

    /// Elements of `V`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn value_elements(&self) -> Result<u64, FlopError> {
        checked::product("value elements", &[self.batch, self.kv_heads, self.keys, self.width_of_values()])
    }

    /// Elements of `O`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn output_elements(&self) -> Result<u64, FlopError> {
        checked::product("output elements", &[self.batch, self.heads, self.queries, self.width_of_values()])
    }

    /// Width of a head of values, whether it is that of keys or another.
    pub fn width_of_values(&self) -> u64 {
        self.value_width.unwrap_or(self.head_width)
    }

    fn product(&self, quantity: &'static str, width: u64) -> Result<u64, FlopError> {
        checked::product(quantity, &[2, self.score_elements()?, width])
    }

    /// Query `i` of `q` (from 0) sees the first `k - q + 1 + i` keys: `q (k - q) + q (q + 1) / 2`
    /// pairs.
    fn causal_pairs(&self) -> Result<u64, FlopError> {
        let (queries, keys) = (self.queries, self.keys);
        let Some(before) = keys.checked_sub(queries) else {
            return Err(FlopError::CausalNeedsKeys { queries, keys });
        };
        let quantity = "attention pairs";
        let next = checked::sum(quantity, &[queries, 1])?;
        // Halve the even one of the two neighbors, so that the product is the result and not its
        // double.
        let triangle = if queries % 2 == 0 { [queries / 2, next] } else { [queries, next / 2] };
        checked::sum(
            quantity,
            &[checked::product(quantity, &[queries, before])?, checked::product(quantity, &triangle)?],
        )
    }

    fn check_heads(&self) -> Result<(), FlopError> {
        let Self { heads, kv_heads, .. } = *self;
        checked::positive(&[("heads", heads), ("kv_heads", kv_heads)])?;
        if heads.is_multiple_of(kv_heads) { Ok(()) } else { Err(FlopError::UnevenHeads { heads, kv_heads }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Attention = Attention {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        queries: 3,
        keys: 5,
        head_width: 8,
        value_width: None,
        mask: AttentionMask::Full,
    };

    /// Values of 3 beside keys of 8, by hand.
    #[test]
    fn values_may_have_a_width_of_their_own() {
        let attention = Attention { value_width: Some(3), ..SMALL };
        let (scores, sum) = (attention.scores(ElementType::Fp16), attention.weighted_sum(ElementType::Fp16));
        assert_eq!(scores, SMALL.scores(ElementType::Fp16));
        let pairs = 2 * 4 * 3 * 5;
        let read = 2 * (pairs + 2 * 2 * 5 * 3);
        let expected = Work { flops: 2 * pairs * 3, bytes_read: read, bytes_written: 2 * (2 * 4 * 3 * 3) };
        assert_eq!(sum, Ok(expected));
        assert_eq!(attention.multiply_adds(), Ok(pairs * (8 + 3)));
        assert_eq!(SMALL.multiply_adds(), Ok(pairs * 16));
    }

    #[test]
    fn causal_pairs_are_counted_one_by_one() {
        for queries in 0..9 {
            for keys in queries..12 {
                let causal = Attention {
                    batch: 1,
                    heads: 1,
                    kv_heads: 1,
                    queries,
                    keys,
                    mask: AttentionMask::Causal,
                    ..SMALL
                };
                let counted = (0..queries)
                    .flat_map(|query| (0..keys).map(move |key| (query, key)))
                    .filter(|(query, key)| *key <= query + (keys - queries))
                    .count();
                assert_eq!(causal.score_elements(), Ok(counted as u64), "{queries} {keys}");
            }
        }
        let short = Attention { keys: 2, mask: AttentionMask::Causal, ..SMALL };
        assert_eq!(short.scores(ElementType::Fp32), Err(FlopError::CausalNeedsKeys { queries: 3, keys: 2 }));
    }

    #[test]
    fn grouped_heads_share_keys_but_not_flops() {
        let multi = Attention { kv_heads: 4, ..SMALL };
        let (grouped, multi) =
            (SMALL.scores(ElementType::Fp16).unwrap(), multi.scores(ElementType::Fp16).unwrap());
        assert_eq!(grouped.flops, multi.flops);
        assert_eq!(multi.bytes_read - grouped.bytes_read, 2 * 2 * 2 * 5 * 8);
        let uneven = Attention { kv_heads: 3, ..SMALL };
        assert_eq!(uneven.scores(ElementType::Fp32), Err(FlopError::UnevenHeads { heads: 4, kv_heads: 3 }));
        let none = Attention { kv_heads: 0, ..SMALL };
        assert_eq!(
            none.weighted_sum(ElementType::Fp32),
            Err(FlopError::ZeroSize { name: "kv_heads".into() })
        );
    }

    #[test]
    fn fusing_changes_bytes_and_not_flops() {
        let e = ElementType::Bf16;
        let pieces = [SMALL.scores(e), SMALL.scale(e), SMALL.softmax(e), SMALL.weighted_sum(e)];
        let sum =
            pieces.into_iter().try_fold(Work::default(), |sum, piece| sum.checked_add(&piece?)).unwrap();
        let fused = SMALL.fused_forward(e).unwrap();
        assert_eq!(fused.flops, sum.flops);
        assert_eq!(fused.bytes(), Ok(2 * (2 * (2 * 4 * 3 * 8) + 2 * (2 * 2 * 5 * 8))));
        assert!(fused.bytes().unwrap() < sum.bytes().unwrap());
    }
}
