//! Types.

use super::operators::{builtin, builtin_d};
use super::parse::Parser;
use super::tree::{Function, Id, Node, Qualifiers};

impl Parser<'_> {
    /// A type.
    pub(super) fn ty(&mut self) -> Option<Id> {
        self.deeper(Self::any_type)
    }

    fn any_type(&mut self) -> Option<Id> {
        let id = match self.cursor.peek()? {
            b'r' | b'V' | b'K' => self.qualified()?,
            b'P' => self.pointer("*")?,
            b'R' => self.pointer("&")?,
            b'O' => self.pointer("&&")?,
            b'F' => self.function(Qualifiers::default())?,
            b'A' => self.array()?,
            b'M' => self.member()?,
            b'T' => return self.parameter_type(),
            b'S' if self.cursor.look(1) != Some(b't') => return self.reference_type(),
            b'D' => return self.extended(),
            b'U' if self.cursor.look(1).is_some_and(|next| next.is_ascii_digit()) => {
                self.vendor_qualified()?
            }
            b'u' => self.vendor()?,
            b'0'..=b'9' | b'N' | b'S' | b'U' | b'Z' => self.class()?,
            letter => {
                let name = builtin(letter)?;
                self.cursor.next();
                return self.tree.push(Node::Builtin(name));
            }
        };
        Some(self.remember(id))
    }

    /// `restrict`, `volatile` and `const`, in their mangled order.
    pub(super) fn qualifiers(&mut self) -> Qualifiers {
        Qualifiers {
            restrict: self.cursor.eat("r"),
            volatile: self.cursor.eat("V"),
            constant: self.cursor.eat("K"),
            reference: "",
        }
    }

    /// `&` or `&&` behind the parameters of a member function.
    pub(super) fn reference_qualifier(&mut self) -> &'static str {
        match self.cursor.peek() {
            Some(b'R') if self.cursor.eat("R") => "&",
            Some(b'O') if self.cursor.eat("O") => "&&",
            _ => "",
        }
    }

    fn qualified(&mut self) -> Option<Id> {
        let qualifiers = self.qualifiers();
        if self.cursor.peek()? == b'F' || self.cursor.pair() == Some(*b"Do") {
            return self.function(qualifiers);
        }
        let inner = self.ty()?;
        self.tree.push(Node::Qualified(qualifiers, inner))
    }

    fn pointer(&mut self, mark: &'static str) -> Option<Id> {
        self.cursor.next();
        let inner = self.ty()?;
        self.tree.push(Node::Pointer(mark, inner))
    }

    fn function(&mut self, mut qualifiers: Qualifiers) -> Option<Id> {
        let noexcept = self.cursor.eat("Do");
        self.cursor.expect("F")?;
        self.cursor.eat("Y");
        let result = self.ty()?;
        let parameters = self.parameters()?;
        qualifiers.reference = self.reference_qualifier();
        self.cursor.expect("E")?;
        self.tree.push(Node::Function(Function { qualifiers, noexcept, result, parameters }))
    }

    fn array(&mut self) -> Option<Id> {
        self.cursor.expect("A")?;
        let length = match self.cursor.peek()? {
            b'_' => None,
            b'0'..=b'9' => Some(self.text()?),
            _ => Some(self.expression()?),
        };
        self.cursor.expect("_")?;
        let element = self.ty()?;
        self.tree.push(Node::Array(length, element))
    }

    fn text(&mut self) -> Option<Id> {
        let digits = self.cursor.digits()?;
        self.tree.push(Node::Text(digits))
    }

    fn member(&mut self) -> Option<Id> {
        self.cursor.expect("M")?;
        let class = self.ty()?;
        let inner = self.ty()?;
        self.tree.push(Node::Member(class, inner))
    }

    /// A parameter of a template, with arguments where it is a template itself.
    fn parameter_type(&mut self) -> Option<Id> {
        let parameter = self.template_parameter()?;
        if self.cursor.peek() != Some(b'I') || self.is_in_conversion {
            return Some(self.remember(parameter));
        }
        self.remember_scope(parameter)?;
        let template = self.arguments_of(parameter)?;
        Some(self.remember(template))
    }

    /// `T_`, `T0_` and so on.
    pub(super) fn template_parameter(&mut self) -> Option<Id> {
        self.cursor.expect("T")?;
        let ordinal = self.cursor.ordinal()?;
        self.tree.push(Node::Parameter(ordinal))
    }

    /// A type that was there before, or a template that was, with other arguments.
    fn reference_type(&mut self) -> Option<Id> {
        let known = self.reference()?;
        if self.cursor.peek() == Some(b'I') { self.instance_of(known) } else { Some(known) }
    }

    /// The types that begin with a `D`.
    fn extended(&mut self) -> Option<Id> {
        let id = match self.cursor.look(1)? {
            b't' | b'T' => self.decltype()?,
            b'p' => {
                self.cursor.expect("Dp")?;
                let pattern = self.ty()?;
                self.tree.push(Node::Expansion(pattern))?
            }
            b'o' => self.function(Qualifiers::default())?,
            b'v' => self.vector()?,
            _ => return self.extended_builtin(),
        };
        Some(self.remember(id))
    }

    fn extended_builtin(&mut self) -> Option<Id> {
        let name = if self.cursor.eat("DF16_") {
            "std::float16_t"
        } else if self.cursor.eat("DF16b") {
            "std::bfloat16_t"
        } else {
            self.cursor.expect("D")?;
            builtin_d(self.cursor.next()?)?
        };
        self.tree.push(Node::Builtin(name))
    }

    pub(super) fn decltype(&mut self) -> Option<Id> {
        self.cursor.expect("D")?;
        let has_parentheses = self.cursor.next()? == b'T';
        let operand = self.expression()?;
        self.cursor.expect("E")?;
        self.tree.push(Node::Decltype(operand, has_parentheses))
    }

    fn vector(&mut self) -> Option<Id> {
        self.cursor.expect("Dv")?;
        let length = self.cursor.digits()?;
        self.cursor.expect("_")?;
        let element = self.ty()?;
        self.tree.push(Node::Vector(length, element))
    }

    fn vendor_qualified(&mut self) -> Option<Id> {
        self.cursor.expect("U")?;
        let qualifier = self.cursor.identifier()?;
        let inner = self.ty()?;
        self.tree.push(Node::VendorQualified(qualifier, inner))
    }

    fn vendor(&mut self) -> Option<Id> {
        self.cursor.expect("u")?;
        let name = self.cursor.identifier()?;
        let ty = self.tree.push(Node::Builtin(name))?;
        if self.cursor.peek() == Some(b'I') { self.arguments_of(ty) } else { Some(ty) }
    }

    /// A class, an enumeration, or a template of either.
    fn class(&mut self) -> Option<Id> {
        let (name, qualifiers) = self.name()?;
        qualifiers.is_empty().then_some(name)
    }
}
