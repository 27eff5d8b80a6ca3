//! Expressions: the values among a template's arguments, and what `decltype` and conditions hold.

use super::operators::{Use, operator};
use super::parse::Parser;
use super::tree::Piece::{self, Node as Part, Text};
use super::tree::{Id, Node, Value};

impl Parser<'_> {
    /// An expression.
    pub(super) fn expression(&mut self) -> Option<Id> {
        self.deeper(Self::any_expression)
    }

    fn any_expression(&mut self) -> Option<Id> {
        match self.cursor.peek()? {
            b'L' => return self.literal(),
            b'T' => return self.template_parameter(),
            b'0'..=b'9' => return self.unresolved(),
            _ => {}
        }
        let code = self.cursor.pair()?;
        if matches!(&code, b"on" | b"dn") {
            return self.unresolved();
        }
        self.cursor.next();
        self.cursor.next();
        self.keyword(code).or_else(|| self.operation(code))
    }

    /// The expressions with a form of their own; `None`, with nothing consumed, where it is none of
    /// them.
    fn keyword(&mut self, code: [u8; 2]) -> Option<Id> {
        match &code {
            b"fp" => self.function_argument(0),
            b"fL" if self.cursor.is_digit() => {
                let level = self.cursor.number()?.checked_add(1)?;
                self.cursor.expect("p")?;
                self.function_argument(level)
            }
            b"fl" | b"fr" | b"fL" | b"fR" => self.fold(code[1]),
            b"cl" => self.call(),
            b"cv" => self.conversion(),
            b"tl" => self.braces(true),
            b"il" => self.braces(false),
            b"sr" => self.scoped(),
            b"gs" => self.prefix("::"),
            b"sp" => {
                let pattern = self.expression()?;
                self.tree.push(Node::Expansion(pattern))
            }
            b"sc" => self.cast("static_cast<"),
            b"cc" => self.cast("const_cast<"),
            b"rc" => self.cast("reinterpret_cast<"),
            b"dc" => self.cast("dynamic_cast<"),
            b"st" => self.query("sizeof(", Self::ty),
            b"sz" => self.query("sizeof(", Self::expression),
            b"sZ" => self.query("sizeof...(", Self::expression),
            b"at" => self.query("alignof(", Self::ty),
            b"az" => self.query("alignof(", Self::expression),
            b"ti" => self.query("typeid(", Self::ty),
            b"te" => self.query("typeid(", Self::expression),
            b"nx" => self.query("noexcept(", Self::expression),
            _ => None,
        }
    }

    /// The expressions of operators.
    fn operation(&mut self, code: [u8; 2]) -> Option<Id> {
        let (symbol, usage) = operator(code)?;
        match (usage, &code) {
            (Use::Prefix, _) => self.prefix(symbol),
            (Use::Infix, _) => self.infix(symbol),
            (Use::Other, b"pp" | b"mm") if self.cursor.eat("_") => self.prefix(symbol),
            (Use::Other, b"pp" | b"mm") => {
                let operand = self.expression()?;
                self.sequence(vec![Part(operand), Text(symbol)])
            }
            (Use::Other, b"dt" | b"pt") => {
                let object = self.expression()?;
                let member = self.unresolved()?;
                self.sequence(vec![Text("("), Part(object), Text(symbol), Part(member), Text(")")])
            }
            (Use::Other, b"ix") => {
                let (array, index) = (self.expression()?, self.expression()?);
                self.sequence(vec![Part(array), Text("["), Part(index), Text("]")])
            }
            (Use::Other, b"qu") => {
                let condition = self.expression()?;
                let (yes, no) = (self.expression()?, self.expression()?);
                self.sequence(vec![Part(condition), Text("?"), Part(yes), Text(":"), Part(no)])
            }
            (Use::Other, b"tr") => self.sequence(vec![Text(symbol)]),
            _ => None,
        }
    }

    fn sequence(&mut self, pieces: Vec<Piece>) -> Option<Id> {
        self.tree.push(Node::Sequence(pieces))
    }

    fn prefix(&mut self, symbol: &'static str) -> Option<Id> {
        let operand = self.expression()?;
        self.sequence(vec![Text(symbol), Part(operand)])
    }

    fn infix(&mut self, symbol: &'static str) -> Option<Id> {
        let (left, right) = (self.expression()?, self.expression()?);
        self.sequence(vec![Part(left), Text(symbol), Part(right)])
    }

    fn function_argument(&mut self, level: u64) -> Option<Id> {
        if level == 0 && self.cursor.eat("T") {
            return self.sequence(vec![Text("this")]);
        }
        // The qualifiers of the parameter are not printed.
        self.qualifiers();
        let ordinal = self.cursor.ordinal()?;
        self.tree.push(Node::Argument(ordinal, level))
    }

    /// A pack joined by an operator, with an initial value (`fL`, `fR`) or without.
    fn fold(&mut self, kind: u8) -> Option<Id> {
        let code = self.cursor.pair()?;
        let (symbol, usage) = operator(code)?;
        if usage != Use::Infix {
            return None;
        }
        self.cursor.next();
        self.cursor.next();
        let first = Part(self.expression()?);
        let operator = || Text(symbol);
        let pieces = match kind {
            b'l' => vec![Text("(..."), operator(), first, Text(")")],
            b'r' => vec![Text("("), first, operator(), Text("...)")],
            _ => {
                let second = Part(self.expression()?);
                vec![Text("("), first, operator(), Text("..."), operator(), second, Text(")")]
            }
        };
        self.sequence(pieces)
    }

    fn list(&mut self, open: &'static str, close: &'static str) -> Option<Piece> {
        let nodes = self.until_end(Self::expression)?;
        self.tree.push(Node::List(open, nodes, close)).map(Part)
    }

    fn call(&mut self) -> Option<Id> {
        let function = self.expression()?;
        let arguments = self.list("(", ")")?;
        self.sequence(vec![Part(function), arguments])
    }

    fn conversion(&mut self) -> Option<Id> {
        let target = self.ty()?;
        if self.cursor.eat("_") {
            let values = self.list("(", ")")?;
            return self.sequence(vec![Part(target), values]);
        }
        let value = self.expression()?;
        self.sequence(vec![Text("("), Part(target), Text(")"), Part(value)])
    }

    fn braces(&mut self, has_type: bool) -> Option<Id> {
        let mut pieces = if has_type { vec![Part(self.ty()?)] } else { Vec::new() };
        pieces.push(self.list("{", "}")?);
        self.sequence(pieces)
    }

    fn cast(&mut self, open: &'static str) -> Option<Id> {
        let (target, value) = (self.ty()?, self.expression()?);
        self.sequence(vec![Text(open), Part(target), Text(">("), Part(value), Text(")")])
    }

    fn query(&mut self, open: &'static str, operand: impl FnOnce(&mut Self) -> Option<Id>) -> Option<Id> {
        let operand = operand(self)?;
        self.sequence(vec![Text(open), Part(operand), Text(")")])
    }

    /// A name in a scope that depends on the template's parameters.
    fn scoped(&mut self) -> Option<Id> {
        let scope = match self.cursor.peek()? {
            b'N' => {
                self.cursor.next();
                let class = self.ty()?;
                self.levels(class)?
            }
            b'0'..=b'9' => {
                let outermost = self.unresolved()?;
                self.levels(outermost)?
            }
            _ => self.ty()?,
        };
        let name = self.unresolved()?;
        self.tree.push(Node::Nested(scope, name))
    }

    /// More scopes within a scope, up to an `E`.
    fn levels(&mut self, mut scope: Id) -> Option<Id> {
        while !self.cursor.eat("E") {
            let name = self.unresolved()?;
            scope = self.tree.push(Node::Nested(scope, name))?;
        }
        Some(scope)
    }

    /// A name that is looked up where the template is used.
    fn unresolved(&mut self) -> Option<Id> {
        let name = if self.cursor.eat("on") {
            self.operator_name()?
        } else if self.cursor.eat("dn") {
            let class = if self.cursor.is_digit() { self.source()? } else { self.ty()? };
            return self.sequence(vec![Text("~"), Part(class)]);
        } else {
            self.source()?
        };
        if self.cursor.peek() != Some(b'I') {
            return Some(name);
        }
        let arguments = self.arguments()?;
        self.tree.push(Node::Template(name, arguments))
    }

    /// A value with its type, or a function or variable.
    pub(super) fn literal(&mut self) -> Option<Id> {
        self.cursor.expect("L")?;
        if self.cursor.eat("_Z") {
            let encoding = self.encoding()?;
            self.cursor.expect("E")?;
            return self.tree.push(Node::Mention(encoding));
        }
        if self.cursor.eat("DnE") {
            return self.sequence(vec![Text("nullptr")]);
        }
        let letter = self.cursor.peek()?;
        let ty = self.ty()?;
        let value = match letter {
            b'f' => Value::Float(f32::from_bits(u32::try_from(self.bits(8)?).ok()?)),
            b'd' => Value::Double(f64::from_bits(self.bits(16)?)),
            b'A' => Value::String,
            _ => Value::Number(self.cursor.eat("n"), self.cursor.digits()?),
        };
        self.cursor.expect("E")?;
        self.tree.push(Node::Literal(ty, value))
    }

    /// The bits of a floating-point number, in lower-case hexadecimal digits.
    fn bits(&mut self, count: usize) -> Option<u64> {
        let digits = self.cursor.take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))?;
        u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == count)
    }
}
