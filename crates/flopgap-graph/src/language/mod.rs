//! Language models from the configurations of Hugging Face: weights, cache, and the kernels of a
//! pass, with exact FLOPs.

mod config;
mod error;
mod kernel;
mod launches;
mod model;

pub use config::is_language_model;
pub use error::LanguageError;
pub use kernel::{Attend, Experts, Format, Kernel, Operation, Routing};
pub use launches::{Launch, Part};
pub use model::{Attention, Division, Feed, LanguageModel, Latent, Layer, Pass, Phase, Routed};
