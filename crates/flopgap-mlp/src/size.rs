//! The four networks of the benchmark.

use std::fmt;
use std::str::FromStr;

use flopgap_flops::Activation;

use crate::{MlpError, Network};

/// The networks of the neural MLP benchmark: one hidden layer, `LeakyRelu` after both layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Size {
    /// 64 -> 64 -> 16, 5,200 parameters.
    Small,
    /// 128 -> 128 -> 32, 20,640 parameters.
    Medium,
    /// 256 -> 256 -> 64, 82,240 parameters.
    Large,
    /// 512 -> 512 -> 128, 328,320 parameters.
    XLarge,
}

impl Size {
    /// All of them, from the smallest.
    pub const ALL: [Self; 4] = [Size::Small, Size::Medium, Size::Large, Size::XLarge];

    /// `small`, `medium`, `large` or `xlarge`.
    pub const fn name(self) -> &'static str {
        match self {
            Size::Small => "small",
            Size::Medium => "medium",
            Size::Large => "large",
            Size::XLarge => "xlarge",
        }
    }

    /// Inputs, hidden layer, outputs.
    pub const fn widths(self) -> [usize; 3] {
        match self {
            Size::Small => [64, 64, 16],
            Size::Medium => [128, 128, 32],
            Size::Large => [256, 256, 64],
            Size::XLarge => [512, 512, 128],
        }
    }

    /// The network, `LeakyRelu` after both layers.
    ///
    /// # Panics
    /// Never: the widths are good.
    pub fn network(self) -> Network {
        Network::new(&self.widths())
            .expect("three multiples of 8")
            .with_output_activation(Activation::LeakyRelu)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Size {
    type Err = MlpError;

    fn from_str(text: &str) -> Result<Self, MlpError> {
        Self::ALL.into_iter().find(|size| size.name() == text).ok_or_else(|| MlpError::Name {
            what: "size",
            found: text.to_owned(),
            known: "small, medium, large, xlarge",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_published_parameters() {
        assert_eq!(Size::ALL.map(|size| size.network().parameters()), [5_200, 20_640, 82_240, 328_320]);
        assert_eq!("xlarge".parse::<Size>().unwrap(), Size::XLarge);
        assert!("huge".parse::<Size>().unwrap_err().to_string().contains("small, medium, large, xlarge"));
    }
}
