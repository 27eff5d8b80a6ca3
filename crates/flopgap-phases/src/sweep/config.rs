//! One configuration of a sweep, and the name under which its files are kept.

use std::fmt;

use flopgap_flops::{FlopError, SquareMlp};
use serde::{Deserialize, Serialize};

/// A square network of a sweep: `n` layers of `d`×`d` weights applied to `m` columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Config {
    /// Layers.
    pub n: u64,
    /// Width: inputs and outputs of each layer.
    pub d: u64,
    /// Columns of the input (tokens, samples).
    pub m: u64,
}

impl Config {
    /// The network that the closed forms are evaluated on.
    ///
    /// # Errors
    /// When a size is 0.
    pub fn network(self) -> Result<SquareMlp, FlopError> {
        SquareMlp::new(self.n, self.d, self.m)
    }

    /// Reads a name such as `n2_d256_m16`, the inverse of `Display`.
    ///
    /// ```
    /// use flopgap_phases::sweep::Config;
    /// assert_eq!(Config::from_name("n2_d256_m16"), Some(Config { n: 2, d: 256, m: 16 }));
    /// assert_eq!(Config::from_name("n2_d256"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Config> {
        let mut parts = name.split('_');
        let mut part = |prefix| number(parts.next()?.strip_prefix(prefix)?);
        let config = Config { n: part('n')?, d: part('d')?, m: part('m')? };
        parts.next().is_none().then_some(config)
    }
}

/// A plain decimal number, without the `+` and the leading zeros that `parse` would let pass: names
/// must be unique.
fn number(text: &str) -> Option<u64> {
    let value: u64 = text.parse().ok()?;
    (value.to_string() == text).then_some(value)
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("n{}_d{}_m{}", self.n, self.d, self.m))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_are_not_of_the_form_are_refused() {
        for name in
            ["", "n2_d256_m", "n02_d256_m16", "n+2_d256_m16", "n2_d256_m16_x", "d256_n2_m16", "n-2_d1_m1"]
        {
            assert_eq!(Config::from_name(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn names_round_trip(n: u64, d: u64, m: u64) {
            let config = Config { n, d, m };
            prop_assert_eq!(Config::from_name(&config.to_string()), Some(config));
        }
    }
}
