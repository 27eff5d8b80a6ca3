//! Sizes that are expressions of symbols, as `SymPy` prints them (`2*s77`, `((s77 - 1)//2) + 1`)
//! and as its `srepr` does, which is what `torch.export.save` writes: `Mul(Integer(2),
//! Symbol('s77', positive=True, integer=True))`.

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
const DEEPEST: usize = 256;

/// The value of an expression as `SymPy` writes it.
pub(super) fn evaluate(text: &str, symbols: &Symbols) -> Result<u64, Open> {
    let mut parser = Parser { rest: text, symbols, depth: 0 };
    let value = parser.sum()?;
    if parser.next_char().is_some() {
        return Err(Open::Expression);
    }
    u64::try_from(value).map_err(|_| Open::Expression)
}

/// The symbols of an expression.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut symbols = Symbols::new();
    while let Err(Open::Symbol(name)) = evaluate(text, &symbols) {
        symbols.insert(name, 1);
    }
    symbols.into_keys().collect()
}

/// The symbol that makes an expression this large, with its size; `None` where more than one is
/// unknown, or where the size does not grow by the same with each.
pub(super) fn solve(text: &str, symbols: &Symbols, size: u64) -> Option<(String, u64)> {
    let Err(Open::Symbol(name)) = evaluate(text, symbols) else { return None };
    let at = |value: u64| {
        let mut symbols = symbols.clone();
        symbols.insert(name.clone(), value);
        evaluate(text, &symbols).ok()
    };
    let (first, second) = (at(1)?, at(2)?);
    let each = second.checked_sub(first).filter(|each| *each > 0)?;
    let value = size.checked_sub(first)? / each + 1;
    (at(value) == Some(size)).then_some((name, value))
}

/// The symbol, where an expression is one alone.
pub(super) fn alone(text: &str) -> Option<&str> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("Symbol(") {
        let (name, rest) = quoted(rest)?;
        // What is said about it ends with the expression.
        return rest.find(')').is_some_and(|at| at + 1 == rest.len()).then_some(name);
    }
    let name = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (name && text.starts_with(|c: char| !c.is_ascii_digit())).then_some(text)
}

/// A name in quotes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('\'')?.split_once('\'')
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
            return self.symbol(word);
        }
        if word == "Symbol" {
            let (name, rest) = quoted(self.rest).ok_or(Open::Expression)?;
            // Assumptions about it, such as `positive=True`.
            let (_, rest) = rest.split_once(')').ok_or(Open::Expression)?;
            self.rest = rest;
            return self.symbol(name);
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

    fn symbol(&self, name: &str) -> Result<i128, Open> {
        match self.symbols.get(name) {
            Some(&size) => Ok(size.into()),
            None => Err(Open::Symbol(name.to_owned())),
        }
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
        ("Add", all) => all.iter().try_fold(0_i128, |sum, value| sum.checked_add(*value)),
        ("Mul", all) => all.iter().try_fold(1_i128, |product, value| product.checked_mul(*value)),
        ("Max", all) => all.iter().copied().max(),
        ("Min", all) => all.iter().copied().min(),
        ("FloorDiv" | "CleanDiv", [a, b]) => floor(*a, *b),
        ("CeilDiv", [a, b]) => floor(a.checked_neg()?, *b)?.checked_neg(),
        ("Mod" | "PythonMod", [a, b]) => floor_remainder(*a, *b),
        ("IntTrueDiv", [a, b]) => exact(*a, *b),
        ("Pow" | "PowByNatural", [a, b]) => a.checked_pow(u32::try_from(*b).ok()?),
        ("Abs", [a]) => a.checked_abs(),
        // Of whole numbers.
        (
            "Integer" | "Identity" | "TruncToInt" | "FloorToInt" | "CeilToInt" | "floor" | "ceiling"
            | "ToFloat",
            [a],
        ) => Some(*a),
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

    /// As PyTorch 2.9 wrote them, for a convolution, a concatenation and a padding.
    #[test]
    fn expressions_are_those_of_srepr() {
        const S: &str = "Symbol('s0', positive=True, integer=True)";
        let symbols = Symbols::from([("s0".to_owned(), 23), ("s1".to_owned(), 8)]);
        // The symbols hold these letters themselves.
        let named = |letter: char| match letter {
            'S' => S.to_owned(),
            'T' => S.replace("s0", "s1"),
            other => other.to_string(),
        };
        let value = |text: &str| evaluate(&text.chars().map(named).collect::<String>(), &symbols);
        let padded = "Add(S, PythonMod(Mul(Integer(-1), S), Integer(4)))";
        for (text, expected) in [
            ("S", 23),
            ("Mul(Integer(6), S, T)", 6 * 23 * 8),
            ("Add(FloorDiv(Add(S, Integer(-1)), Integer(2)), Integer(1))", 12),
            ("Max(Integer(1), Add(FloorDiv(S, Integer(2)), Integer(1)))", 12),
            ("Pow(Add(S, T), Integer(2))", 31 * 31),
            ("Add(FloorDiv(Add(S, T), Integer(2)), Min(Integer(7), Add(S, T)))", 22),
            (padded, 24),
            (&format!("FloorDiv({padded}, FloorDiv({padded}, Integer(4)))"), 4),
            ("Mod(S, T)", 7),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        assert_eq!(evaluate("Symbol('s9', integer=True)", &symbols), Err(Open::Symbol("s9".to_owned())));
        for wrong in [
            "Symbol(s0)",
            "Symbol('s0'",
            "Symbol('s0",
            "Symbol()",
            "Integer()",
            "Add(S,)",
            "Float('2.0', 53)",
        ] {
            assert_eq!(value(wrong), Err(Open::Expression), "{wrong}");
        }
        let both = format!("Add({S}, Mul(Symbol('s1'), Symbol('u2'), {S}))");
        assert_eq!(names(&both), ["s0", "s1", "u2"]);
        assert_eq!(alone(S), Some("s0"));
        assert_eq!(alone("Symbol('s7')"), Some("s7"));
        for other in ["Symbol('s7'", "Symbol(s7)", &format!("Add({S}, {S})"), &format!("{S} + {S}")] {
            assert_eq!(alone(other), None, "{other}");
        }
    }

    #[test]
    fn a_symbol_follows_from_a_size() {
        let symbols = Symbols::from([("s1".to_owned(), 8)]);
        let solved = |text, size| solve(text, &symbols, size);
        assert_eq!(solved("2*s0", 34), Some(("s0".to_owned(), 17)));
        assert_eq!(solved("s1*s0 - 3", 77), Some(("s0".to_owned(), 10)));
        assert_eq!(solved("Mul(Integer(2), Symbol('s94', positive=True))", 44), Some(("s94".to_owned(), 22)));
        for (text, size) in [("2*s0", 33), ("s0*s2", 4), ("s1", 8), ("s0//2", 4), ("7 - s0", 3), ("2*s0", 0)]
        {
            assert_eq!(solved(text, size), None, "{text} = {size}");
        }
    }

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
