//! What every backend does.

use crate::MlpError;
use crate::square::Shape;

/// Something that computes the square network, forward and backward, in 32-bit floats.
///
/// The phases are the seed's: setup ([`upload`](Backend::upload) or [`initialise`](Backend::initialise)), [`forward`](Backend::forward),
/// [`backward`](Backend::backward). Calls may return before the work is done; those that hand out numbers wait for it.
pub trait Backend {
    /// The sizes.
    fn shape(&self) -> Shape;

    /// Setup: takes weights and input, in the layout that the crate documents.
    ///
    /// # Errors
    /// [`MlpError::Length`].
    fn upload(&mut self, weights: &[f32], input: &[f32]) -> Result<(), MlpError>;

    /// Setup: makes the weights and the input of a seed, [`init::weights`](crate::square::init::weights) and
    /// [`init::input`](crate::square::init::input), where they are needed.
    ///
    /// # Errors
    /// When the device fails.
    fn initialise(&mut self, seed: u64) -> Result<(), MlpError>;

    /// The output of every layer.
    ///
    /// # Errors
    /// [`MlpError::Order`] before setup.
    fn forward(&mut self) -> Result<(), MlpError>;

    /// The loss, which is the sum of the output, and its gradient by every weight.
    ///
    /// # Errors
    /// [`MlpError::Order`] before forward.
    fn backward(&mut self) -> Result<(), MlpError>;

    /// The weights, N D^2 numbers.
    ///
    /// # Errors
    /// [`MlpError::Order`] before setup.
    fn weights(&self) -> Result<Vec<f32>, MlpError>;

    /// The input, D M numbers.
    ///
    /// # Errors
    /// [`MlpError::Order`] before setup.
    fn input(&self) -> Result<Vec<f32>, MlpError>;

    /// The output of the last layer, D M numbers.
    ///
    /// # Errors
    /// [`MlpError::Order`] before forward.
    fn output(&self) -> Result<Vec<f32>, MlpError>;

    /// The sum of the output.
    ///
    /// # Errors
    /// [`MlpError::Order`] before backward.
    fn loss(&self) -> Result<f32, MlpError>;

    /// The gradient of the loss by every weight, N D^2 numbers.
    ///
    /// # Errors
    /// [`MlpError::Order`] before backward.
    fn gradients(&self) -> Result<Vec<f32>, MlpError>;
}

/// How far a network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    Empty,
    Loaded,
    Forward,
    Backward,
}

impl Progress {
    /// Refuses what needs more than has been done.
    pub(crate) fn require(self, least: Progress, asked: &'static str) -> Result<(), MlpError> {
        if self >= least {
            return Ok(());
        }
        let missing = match least {
            Progress::Empty | Progress::Loaded => "weights and input",
            Progress::Forward => "a forward pass",
            Progress::Backward => "a backward pass",
        };
        Err(MlpError::Order { asked, missing })
    }
}
