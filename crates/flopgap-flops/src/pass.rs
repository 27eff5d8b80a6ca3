//! Forward and backward.

use std::fmt;
use std::str::FromStr;

use crate::{FlopError, checked};

/// One pass over a network. In text and JSON: `forward`, `backward`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Pass {
    /// Inputs to outputs.
    Forward,
    /// Output gradients to weight gradients (and input gradients, where they are needed). The
    /// forward pass that precedes it is not part of it.
    Backward,
}

impl Pass {
    /// Both passes, in the order in which they run.
    pub const ALL: [Self; 2] = [Self::Forward, Self::Backward];

    /// The name used in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Pass {
    type Err = FlopError;

    fn from_str(text: &str) -> Result<Self, FlopError> {
        checked::by_name("pass", text, &Self::ALL, Self::name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_agree() {
        for pass in Pass::ALL {
            assert_eq!(pass.to_string().parse(), Ok(pass));
            assert_eq!(serde_json::to_string(&pass).unwrap(), format!("\"{pass}\""));
        }
        assert_eq!(format!("{:>9}|", Pass::Forward), "  forward|");
        let error = "backwards".parse::<Pass>().unwrap_err();
        assert_eq!(error.to_string(), "unknown pass `backwards`; expected one of: forward, backward");
    }
}
