//! Types are printed in two parts, one before and one behind where a name would stand: the `int (*`
//! and the `)(float)` of a pointer to a function.

use super::print::Printer;
use super::tree::{Id, Node, Qualifiers, Value};

impl Printer<'_> {
    /// The part before the name, or all of what has one part only.
    pub(super) fn left(&mut self, id: Id) -> Option<()> {
        self.deeper(|printer| printer.any_left(id))
    }

    fn any_left(&mut self, id: Id) -> Option<()> {
        let tree = self.tree;
        match tree.get(id) {
            Node::Pointer(mark, inner) => {
                self.marked(*inner)?;
                self.open(*inner)?;
                self.mark(mark)
            }
            Node::Member(class, inner) => {
                self.marked(*inner)?;
                self.open(*inner)?;
                self.mark(" :: ")?;
                self.node(*class)?;
                self.text("::*")
            }
            Node::Qualified(qualifiers, inner) => self.qualified(*qualifiers, *inner),
            Node::VendorQualified(qualifier, inner) => {
                self.marked(*inner)?;
                self.mark(qualifier)
            }
            Node::Function(function) => self.marked(function.result),
            Node::Array(_, element) => self.marked(*element),
            Node::Vector(length, element) => self.vector(length, *element, Qualifiers::default()),
            node => {
                self.plain(node)?;
                self.is_gap_due = !matches!(node, Node::Abbreviation(_) | Node::Back(_) | Node::Instance(..));
                Some(())
            }
        }
    }

    /// The part before the name of a type that a mark follows.
    fn marked(&mut self, id: Id) -> Option<()> {
        let outer = std::mem::replace(&mut self.is_marked, true);
        self.left(id)?;
        self.is_marked = outer;
        Some(())
    }

    /// The part behind the name.
    pub(super) fn right(&mut self, id: Id) -> Option<()> {
        self.deeper(|printer| printer.any_right(id))
    }

    fn any_right(&mut self, id: Id) -> Option<()> {
        let tree = self.tree;
        match tree.get(id) {
            Node::Pointer(_, inner) | Node::Member(_, inner) => {
                if self.is_suffixed(*inner) {
                    self.text(")")?;
                }
                self.right(*inner)
            }
            Node::Qualified(_, inner) | Node::VendorQualified(_, inner) => self.right(*inner),
            Node::Function(function) => {
                self.mark("")?;
                self.parameters(&function.parameters)?;
                self.trailing(function.qualifiers)?;
                if function.noexcept {
                    self.text(" noexcept")?;
                }
                self.right(function.result)
            }
            Node::Array(length, element) => {
                self.mark("[")?;
                if let Some(length) = length {
                    self.node(*length)?;
                }
                self.text("]")?;
                self.right(*element)
            }
            _ => Some(()),
        }
    }

    /// A mark behind the space that may be due.
    pub(super) fn mark(&mut self, mark: &str) -> Option<()> {
        if std::mem::take(&mut self.is_gap_due) {
            self.text(" ")?;
        }
        self.text(mark)
    }

    /// The parenthesis that keeps a mark from belonging to a function's result or an array's
    /// element.
    fn open(&mut self, inner: Id) -> Option<()> {
        if self.is_suffixed(inner) { self.mark("(") } else { Some(()) }
    }

    /// Whether a type has its own part behind the name.
    fn is_suffixed(&self, id: Id) -> bool {
        match self.tree.get(id) {
            Node::Function(_) | Node::Array(..) => true,
            Node::Qualified(_, inner) => matches!(self.tree.get(*inner), Node::Array(..)),
            _ => false,
        }
    }

    fn qualified(&mut self, qualifiers: Qualifiers, inner: Id) -> Option<()> {
        match self.tree.get(inner) {
            // The qualifiers of an array, and of a template parameter that was there before, are
            // lost.
            Node::Array(..) => self.left(inner),
            Node::Instance(template, _) if self.is_parameter(*template) => self.left(inner),
            Node::Pointer(..) | Node::Member(..) | Node::VendorQualified(..) => {
                self.left(inner)?;
                self.words(qualifiers)
            }
            // No word stands twice.
            Node::Qualified(more, inner) => self.qualified(qualifiers.with(*more), *inner),
            Node::Vector(length, element) => self.vector(length, *element, qualifiers),
            _ => {
                self.words(qualifiers)?;
                self.left(inner)
            }
        }
    }

    fn is_parameter(&self, id: Id) -> bool {
        matches!(self.tree.get(id), Node::Back(inner) if matches!(self.tree.get(*inner), Node::Parameter(_)))
    }

    fn words(&mut self, qualifiers: Qualifiers) -> Option<()> {
        for word in qualifiers.words() {
            self.text(word)?;
            self.text(" ")?;
        }
        Some(())
    }

    fn vector(&mut self, length: &str, element: Id, qualifiers: Qualifiers) -> Option<()> {
        self.words(qualifiers)?;
        self.node(element)?;
        self.text(&format!(" __attribute((vector_size({length}*sizeof("))?;
        self.node(element)?;
        self.text(")))) ")?;
        self.is_gap_due = true;
        Some(())
    }

    /// A value behind its type.
    pub(super) fn literal(&mut self, ty: Id, value: &Value<'_>) -> Option<()> {
        self.text("(")?;
        self.node(ty)?;
        self.text(")")?;
        match value {
            Value::Number(is_negative, digits) => {
                self.text(if *is_negative { "-" } else { "" })?;
                self.text(digits)
            }
            Value::Float(number) => self.text(&super::float::general(f64::from(*number), 6)),
            Value::Double(number) => self.text(&super::float::general(*number, 15)),
            Value::String => self.text("\"...\""),
        }
    }
}
