//! `--fail-if`: the changes that stop a CI job.

use std::fmt;
use std::str::FromStr;

use crate::quantity::{Amount, Quantity};

/// `time>5%`, `flops>0`, `occupancy<-2%`: a change of the total from A to B that is not allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Condition {
    pub(crate) quantity: Quantity,
    rises: bool,
    limit: f64,
    relative: bool,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let names = || Quantity::ALL.map(Quantity::in_conditions).join(", ");
        let Some(at) = text.find(['<', '>']) else {
            return Err(format!("no `>` or `<`: write `time>5%`; quantities are {}", names()));
        };
        let (name, limit) = (text[..at].trim(), text[at + 1..].trim());
        let quantity = Quantity::ALL.into_iter().find(|quantity| quantity.in_conditions() == name);
        let quantity = quantity.ok_or_else(|| format!("no quantity `{name}`; there are {}", names()))?;
        let number = limit.strip_suffix('%').unwrap_or(limit).trim();
        let value: f64 = number.parse().map_err(|_| format!("`{limit}` is not a number"))?;
        if !value.is_finite() {
            return Err(format!("`{limit}` is not a finite number"));
        }
        let rises = text[at..].starts_with('>');
        Ok(Condition { quantity, rises, limit: value, relative: limit.ends_with('%') })
    }
}

impl Condition {
    /// Whether the change from `a` to `b` is one that fails. Shares change in percentage points
    /// unless the limit is in percent.
    pub(crate) fn holds(self, a: Amount, b: Amount) -> bool {
        let difference = b.as_f64() - a.as_f64();
        let change = match (self.relative, a.as_f64()) {
            (false, _) if matches!(self.quantity, Quantity::Roofline | Quantity::Occupancy) => {
                difference * 100.0
            }
            (false, _) => difference,
            (true, before) if before > 0.0 => difference / before * 100.0,
            (true, _) if difference > 0.0 => f64::INFINITY,
            (true, _) => 0.0,
        };
        if self.rises { change > self.limit } else { change < self.limit }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.quantity.in_conditions();
        let (sign, percent) = (if self.rises { '>' } else { '<' }, if self.relative { "%" } else { "" });
        write!(f, "{name}{sign}{}{percent}", self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_written_alike() {
        for text in ["time>5%", "flops>0", "occupancy<-2.5%", "l2-bytes>1000"] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
        assert_eq!(" time > 5 % ".parse::<Condition>().unwrap().to_string(), "time>5%");
        for wrong in ["time", "speed>1", "time>x", "time>inf", ">5", ""] {
            assert!(wrong.parse::<Condition>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_are_changes_in_percent_or_in_the_quantitys_unit() {
        let holds = |text: &str, a, b| text.parse::<Condition>().unwrap().holds(a, b);
        let count = |a, b| (Amount::Count(a), Amount::Count(b));
        for (text, (a, b), expected) in [
            ("time>5%", count(1000, 1050), false),
            ("time>5%", count(1000, 1051), true),
            ("time<-5%", count(1000, 940), true),
            ("time>50", count(1000, 1050), false),
            ("flops>0", count(1000, 1001), true),
            ("flops>0%", count(0, 1), true),
            ("flops>0%", count(0, 0), false),
            ("occupancy<-2", (Amount::Real(0.50), Amount::Real(0.47)), true),
            ("occupancy<-2%", (Amount::Real(0.50), Amount::Real(0.495)), false),
        ] {
            assert_eq!(holds(text, a, b), expected, "{text} {a:?} {b:?}");
        }
    }
}
