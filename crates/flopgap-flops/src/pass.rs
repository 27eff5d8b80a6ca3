//! Forward and backward.

use std::str::FromStr;

use strum::{EnumCount as _, VariantArray as _};

use crate::{FlopError, checked};

/// One pass over a network. In text and JSON: `forward`, `backward`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::IntoStaticStr, strum::EnumCount, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Pass {
    /// Inputs to outputs.
    Forward,
    /// Output gradients to weight gradients (and input gradients, where they are needed). The
    /// forward pass that precedes it is not part of it.
    Backward,
}

impl Pass {
    /// Both passes, in the order in which they run.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().expect("all variants");

    /// The name used in text and JSON.
    pub fn name(self) -> &'static str {
        self.into()
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
