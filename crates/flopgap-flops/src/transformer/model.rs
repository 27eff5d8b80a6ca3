//! A decoder-only language model.

use super::{Block, Linear, Operation, WorkList};
use crate::{Convention, ElementType, FlopError, Pass, Work, checked};

/// Token embedding, equal blocks, a final norm and a projection to the vocabulary.
///
/// ```
/// use flopgap_flops::{Convention, ElementType, Pass};
/// use flopgap_flops::transformer::{Block, Transformer};
///
/// let gpt2 = Transformer {
///     layers: 12,
///     block: Block::gpt2(768, 12),
///     vocabulary: 50_257,
///     learned_positions: Some(1024),
///     tied_head: true,
/// };
/// assert_eq!(gpt2.parameters()?, 124_439_808);
/// let forward = gpt2.count(Pass::Forward, 4, 512, &Convention::ARITHMETIC, ElementType::Fp32)?;
/// assert_eq!(forward.total()?.flops, 547_013_787_648);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Transformer {
    /// Number of blocks.
    pub layers: u64,
    /// The block, the same in every layer.
    pub block: Block,
    /// Rows of the embedding and outputs of the head.
    pub vocabulary: u64,
    /// Rows of the table of learned positions, if there is one.
    pub learned_positions: Option<u64>,
    /// Whether the head uses the embedding matrix: no parameters of its own, the same work.
    pub tied_head: bool,
}

impl Transformer {
    /// All parameters; a tied head is counted once.
    ///
    /// # Errors
    /// [`FlopError::Overflow`], [`FlopError::ZeroSize`] or [`FlopError::UnevenHeads`].
    pub fn parameters(&self) -> Result<u64, FlopError> {
        let quantity = "model parameters";
        let width = self.block.width;
        let embedding = checked::product(quantity, &[self.vocabulary, width])?;
        checked::sum(
            quantity,
            &[
                embedding,
                checked::product(quantity, &[self.learned_positions.unwrap_or(0), width])?,
                checked::product(quantity, &[self.layers, self.block.parameters()?])?,
                self.block.norm.parameters(width)?,
                if self.tied_head { 0 } else { embedding },
            ],
        )
    }

    /// FLOPs and compulsory bytes of one pass over `batch` sequences of `length` tokens, every
    /// operation summed over the blocks. The loss itself is not included.
    ///
    /// An embedding forward copies rows (no FLOPs; token ids are not counted). Backward it adds
    /// `tokens * width` values into a dense gradient of the whole table, which is written once.
    ///
    /// # Errors
    /// [`FlopError::Overflow`], [`FlopError::ZeroSize`], [`FlopError::UnevenHeads`], and
    /// [`FlopError::SequenceTooLong`] when `length` exceeds the learned positions.
    pub fn count(
        &self,
        pass: Pass,
        batch: u64,
        length: u64,
        convention: &Convention,
        element: ElementType,
    ) -> Result<WorkList, FlopError> {
        checked::positive(&[("layers", self.layers), ("vocabulary", self.vocabulary)])?;
        let width = self.block.width;
        let block = self.block.count(pass, batch, length, convention, element)?;
        let tokens = checked::product("tokens", &[batch, length])?;
        let stream = checked::product("residual elements", &[tokens, width])?;

        let mut list = WorkList::default();
        list.push(Operation::Embedding, self.embedding(pass, stream, element)?);
        if let Some(max) = self.learned_positions {
            if length > max {
                return Err(FlopError::SequenceTooLong { length, max });
            }
            list.push(Operation::PositionEmbedding, self.positions(pass, stream, length, max, element)?);
        }
        list.extend(block.checked_repeat(self.layers)?);
        let head = Linear { tokens, inputs: width, outputs: self.vocabulary, bias: false };
        let norm = self.block.norm;
        let (norm, head) = match pass {
            Pass::Forward => (norm.forward(tokens, width, element)?, head.forward(element)?),
            Pass::Backward => (norm.backward(tokens, width, element)?, head.backward(element, true)?),
        };
        list.push(Operation::FinalNorm, norm);
        list.push(Operation::LmHead, head);
        Ok(list)
    }

    fn embedding(&self, pass: Pass, stream: u64, element: ElementType) -> Result<Work, FlopError> {
        match pass {
            Pass::Forward => Work::of_elements(0, &[stream], &[stream], element),
            Pass::Backward => {
                let table = checked::product("embedding gradient", &[self.vocabulary, self.block.width])?;
                Work::of_elements(stream, &[stream], &[table], element)
            }
        }
    }

    /// Forward: the rows of the first `length` positions added to every sequence. Backward: the sum
    /// over the batch, into a dense gradient.
    fn positions(
        &self,
        pass: Pass,
        stream: u64,
        length: u64,
        max: u64,
        element: ElementType,
    ) -> Result<Work, FlopError> {
        let rows = |rows| checked::product("position embedding elements", &[rows, self.block.width]);
        match pass {
            Pass::Forward => Work::of_elements(stream, &[stream, rows(length)?], &[stream], element),
            Pass::Backward => Work::of_elements(stream, &[stream], &[rows(max)?], element),
        }
    }
}
