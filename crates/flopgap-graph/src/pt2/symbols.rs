//! Sizes that are expressions of symbols: `s77`, `2*s77`, `((s77 - 1)//2) + 1`.

use std::collections::BTreeMap;

/// The sizes of symbols.
pub(super) type Symbols = BTreeMap<String, u64>;

/// Why an expression has no value.
#[derive(Debug, PartialEq)]
pub(super) enum Open {
    /// This symbol has no size.
    Symbol(String),
    /// It is not understood, or its value is no size.
    Expression,
}

/// Parentheses within each other; more is no size of a network.
const DEEPEST: usize = 64;

/// The value of an expression as `SymPy` writes it.
pub(super) fn evaluate(text: &str, symbols: &Symbols) -> Result<u64, Open> {
    let mut parser = Parser { rest: text, symbols, depth: 0 };
    let value = parser.sum()?;
    if parser.next_char().is_some() {
        return Err(Open::Expression);
    }
    u64::try_from(value).map_err(|_| Open::Expression)
}

/// The symbol, where an expression is one alone.
pub(super) fn alone(text: &str) -> Option<&str> {
    let text = text.trim();
    let name = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (name && text.starts_with(|c: char| !c.is_ascii_digit())).then_some(text)
}

struct Parser<'a> {
    rest: &'a str,
    symbols: &'a Symbols,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn next_char(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        self.next_char();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Result<i128, Open> {
        let mut value = self.product()?;
        loop {
            let next = if self.take("+") {
                value.checked_add(self.product()?)
            } else if self.take("-") {
                value.checked_sub(self.product()?)
            } else {
                return Ok(value);
            };
            value = next.ok_or(Open::Expression)?;
        }
    }

    fn product(&mut self) -> Result<i128, Open> {
        let mut value = self.power()?;
        loop {
            self.next_char();
            let next = if self.take("//") {
                floor(value, self.power()?)
            } else if self.take("/") {
                exact(value, self.power()?)
            } else if self.take("%") {
                floor_remainder(value, self.power()?)
            } else if !self.rest.starts_with("**") && self.take("*") {
                value.checked_mul(self.power()?)
            } else {
                return Ok(value);
            };
            value = next.ok_or(Open::Expression)?;
        }
    }

    fn power(&mut self) -> Result<i128, Open> {
        let base = self.atom()?;
        if !self.take("**") {
            return Ok(base);
        }
        let exponent = u32::try_from(self.atom()?).map_err(|_| Open::Expression)?;
        base.checked_pow(exponent).ok_or(Open::Expression)
    }

    fn atom(&mut self) -> Result<i128, Open> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Open::Expression);
        }
        let value = self.inner();
        self.depth -= 1;
        value
    }

    fn inner(&mut self) -> Result<i128, Open> {
        if self.take("-") {
            return self.atom()?.checked_neg().ok_or(Open::Expression);
        }
        if self.take("(") {
            let value = self.sum()?;
            return if self.take(")") { Ok(value) } else { Err(Open::Expression) };
        }
        let word = self.word();
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().map_err(|_| Open::Expression);
        }
        if word.is_empty() {
            return Err(Open::Expression);
        }
        if !self.take("(") {
            return match self.symbols.get(word) {
                Some(&size) => Ok(size.into()),
                None => Err(Open::Symbol(word.to_owned())),
            };
        }
        let mut arguments = vec![self.sum()?];
        while self.take(",") {
            arguments.push(self.sum()?);
        }
        if !self.take(")") {
            return Err(Open::Expression);
        }
        call(word, &arguments).ok_or(Open::Expression)
    }

    /// A number or a name.
    fn word(&mut self) -> &'a str {
        self.next_char();
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }
}

fn call(name: &str, arguments: &[i128]) -> Option<i128> {
    match (name.rsplit('.').next().unwrap_or(name), arguments) {
        ("Max", all) => all.iter().copied().max(),
        ("Min", all) => all.iter().copied().min(),
        ("FloorDiv" | "CleanDiv" | "PythonMod_div", [a, b]) => floor(*a, *b),
        ("CeilDiv", [a, b]) => floor(a.checked_neg()?, *b)?.checked_neg(),
        ("Mod" | "PythonMod", [a, b]) => floor_remainder(*a, *b),
        ("IntTrueDiv", [a, b]) => exact(*a, *b),
        ("PowByNatural", [a, b]) => a.checked_pow(u32::try_from(*b).ok()?),
        ("Abs", [a]) => a.checked_abs(),
        // Of whole numbers.
        ("Identity" | "TruncToInt" | "FloorToInt" | "CeilToInt" | "floor" | "ceiling" | "ToFloat", [a]) => {
            Some(*a)
        }
        _ => None,
    }
}

/// A quotient rounded down, as in Python.
fn floor(a: i128, b: i128) -> Option<i128> {
    let quotient = a.checked_div(b)?;
    let below = a.checked_rem(b)? != 0 && (a < 0) != (b < 0);
    quotient.checked_sub(i128::from(below))
}

fn floor_remainder(a: i128, b: i128) -> Option<i128> {
    a.checked_sub(floor(a, b)?.checked_mul(b)?)
}

/// A quotient without a remainder.
fn exact(a: i128, b: i128) -> Option<i128> {
    (a.checked_rem(b)? == 0).then(|| a / b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_those_of_python() {
        let symbols = Symbols::from([("s0".to_owned(), 7), ("s1".to_owned(), 3)]);
        let value = |text| evaluate(text, &symbols);
        for (text, expected) in [
            ("s0", 7),
            ("2*s0 + 1", 15),
            ("((s0 - 1)//2) + 1", 4),
            ("(-1 + s0)//4 + 2**s1", 9),
            ("FloorDiv(s0, s1)", 2),
            ("torch.sym_max.Max(s0, s1)", 7),
            ("CeilDiv(s0, 2)", 4),
            ("Mod(s0, 4) % 2", 1),
            ("12/s1", 4),
            ("-(-s0//2)", 4),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        assert_eq!(value("s0 + u2"), Err(Open::Symbol("u2".to_owned())));
        for wrong in [
            "",
            "s0 +",
            "(s0",
            "s0)",
            "s0/2",
            "s0//0",
            "1 - s0",
            "9**99",
            "Unknown(s0)",
            "s0 s1",
            "0x1",
            "1.5",
        ] {
            assert_eq!(value(wrong), Err(Open::Expression), "{wrong}");
        }
        assert_eq!(evaluate(&"(".repeat(100_000), &symbols), Err(Open::Expression));
        assert_eq!(evaluate(&"-".repeat(100_000), &symbols), Err(Open::Expression));
        assert_eq!((alone(" s7 "), alone("s7 + 1"), alone("7")), (Some("s7"), None, None));
    }
}
