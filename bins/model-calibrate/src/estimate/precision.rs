//! The precision that is asked for: that of products, or how a language model stores its weights.

use std::str::FromStr;

use flopgap_cli::{Exit, Failure};
use flopgap_flops::Precision;
use flopgap_graph::language::Format;

/// A precision of products, or a format of weights; some are both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrecisionArg {
    Precision(Precision),
    Format(Format),
}

impl FromStr for PrecisionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.parse::<Precision>(), Format::of_name(text)) {
            (Ok(precision), _) => Ok(Self::Precision(precision)),
            (_, Some(format)) => Ok(Self::Format(format)),
            (Err(error), None) => Err(error.to_string()),
        }
    }
}

impl PrecisionArg {
    /// As the precision of products.
    pub(super) fn precision(self) -> Result<Precision, Failure> {
        match self {
            Self::Precision(precision) => Ok(precision),
            Self::Format(format) => Err(Failure::new(format!("{} is for language models", format.name()))
                .exit(Exit::Usage)
                .hint("`--precision` of other models: fp32, tf32, fp16, bf16 or int8")),
        }
    }

    /// As the format of weights; both formats of 16 bits are one.
    pub(super) fn format(self) -> Result<Format, Failure> {
        match self {
            Self::Format(format) => Ok(format),
            Self::Precision(Precision::Fp16 | Precision::Bf16) => Ok(Format::Bf16),
            Self::Precision(other) => {
                let names: Vec<&str> = Format::ALL.into_iter().map(Format::name).collect();
                Err(Failure::new(format!("language models are not estimated in {other}"))
                    .exit(Exit::Absent)
                    .hint(format!("`--precision` of language models: {}", names.join(", "))))
            }
        }
    }
}
