//! The interface of every backend.

use crate::square::Shape;
use crate::square::SquareError;

/// Something that computes the square network, forward and backward, in 32-bit floats.
///
/// The phases are setup ([`upload`](Backend::upload) or [`initialize`](Backend::initialize)),
/// [`forward`](Backend::forward), [`backward`](Backend::backward). Calls may return before the work
/// is done; those that hand out numbers wait for it.
pub trait Backend {
    /// The sizes.
    fn shape(&self) -> Shape;

    /// Setup: takes weights and input, in the layout that the crate documents.
    ///
    /// # Errors
    /// [`SquareError::Length`].
    fn upload(&mut self, weights: &[f32], input: &[f32]) -> Result<(), SquareError>;

    /// Setup: makes the weights and the input of a seed,
    /// [`init::weights`](crate::square::init::weights) and
    /// [`init::input`](crate::square::init::input), where they are needed.
    ///
    /// # Errors
    /// When the device fails.
    fn initialize(&mut self, seed: u64) -> Result<(), SquareError>;

    /// The output of every layer.
    ///
    /// # Errors
    /// [`SquareError::Order`] before setup.
    fn forward(&mut self) -> Result<(), SquareError>;

    /// The loss, which is the sum of the output, and its gradient by every weight.
    ///
    /// # Errors
    /// [`SquareError::Order`] before forward.
    fn backward(&mut self) -> Result<(), SquareError>;

    /// The weights, N D^2 numbers.
    ///
    /// # Errors
    /// [`SquareError::Order`] before setup.
    fn weights(&self) -> Result<Vec<f32>, SquareError>;

    /// The input, D M numbers.
    ///
    /// # Errors
    /// [`SquareError::Order`] before setup.
    fn input(&self) -> Result<Vec<f32>, SquareError>;

    /// The output of the last layer, D M numbers.
    ///
    /// # Errors
    /// [`SquareError::Order`] before forward.
    fn output(&self) -> Result<Vec<f32>, SquareError>;

    /// The sum of the output.
    ///
    /// # Errors
    /// [`SquareError::Order`] before backward.
    fn loss(&self) -> Result<f32, SquareError>;

    /// The gradient of the loss by every weight, N D^2 numbers.
    ///
    /// # Errors
    /// [`SquareError::Order`] before backward.
    fn gradients(&self) -> Result<Vec<f32>, SquareError>;
}

/// The progress of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    Empty,
    Loaded,
    Forward,
    Backward,
}

impl Progress {
    /// Rejects calls that come before their prerequisites.
    pub(crate) fn require(self, least: Progress, asked: &'static str) -> Result<(), SquareError> {
        if self >= least {
            return Ok(());
        }
        let missing = match least {
            Progress::Empty | Progress::Loaded => "weights and input",
            Progress::Forward => "a forward pass",
            Progress::Backward => "a backward pass",
        };
        Err(SquareError::Order { asked, missing })
    }
}
