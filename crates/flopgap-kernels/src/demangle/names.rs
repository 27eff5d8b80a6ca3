//! Names: of functions, of what lies in scopes and within functions, and of templates.

use super::operators::{abbreviation, names_a_function, operator};
use super::parse::Parser;
use super::tree::{Id, Local, Node, Qualifiers};

impl Parser<'_> {
    /// A name, and the qualifiers of the member function that it may be.
    pub(super) fn name(&mut self) -> Option<(Id, Qualifiers)> {
        self.deeper(|parser| match parser.cursor.peek()? {
            b'N' => parser.nested(),
            b'Z' => parser.local(),
            _ => Some((parser.unscoped()?, Qualifiers::default())),
        })
    }

    /// A name outside all scopes, or in `std`.
    fn unscoped(&mut self) -> Option<Id> {
        if self.cursor.peek() == Some(b'S') && self.cursor.look(1) != Some(b't') {
            // Only a template is referred to here: its arguments follow.
            let template = self.reference()?;
            return self.arguments_of(template);
        }
        let scope = if self.cursor.eat("St") { Some(self.tree.push(Node::Std)?) } else { None };
        let name = self.within(scope)?;
        if self.cursor.peek() != Some(b'I') {
            return Some(name);
        }
        self.remember_scope(name)?;
        self.arguments_of(name)
    }

    /// `S_` and its like, and the classes of the standard library with two letters.
    pub(super) fn reference(&mut self) -> Option<Id> {
        self.cursor.expect("S")?;
        let Some(known) = self.cursor.peek().and_then(abbreviation) else {
            return self.substitution();
        };
        self.cursor.next();
        self.tree.push(Node::Abbreviation(known))
    }

    pub(super) fn arguments_of(&mut self, template: Id) -> Option<Id> {
        let arguments = self.arguments()?;
        self.tree.push(Node::Template(template, arguments))
    }

    /// A template that was there before, with its arguments.
    pub(super) fn instance_of(&mut self, template: Id) -> Option<Id> {
        let arguments = self.arguments()?;
        let instance = self.tree.push(Node::Instance(template, arguments))?;
        Some(self.remember(instance))
    }

    fn nested(&mut self) -> Option<(Id, Qualifiers)> {
        self.cursor.expect("N")?;
        let mut qualifiers = self.qualifiers();
        qualifiers.reference = self.reference_qualifier();
        let mut scope = None;
        let mut is_new = false;
        while !self.cursor.eat("E") {
            (scope, is_new) = self.component(scope)?;
        }
        if is_new {
            self.forget();
        }
        Some((scope?, qualifiers))
    }

    /// A scope with the next part of the name, and whether it is remembered.
    fn component(&mut self, scope: Option<Id>) -> Option<(Option<Id>, bool)> {
        let next = (self.cursor.peek()?, self.cursor.look(1)?);
        let id = match (next, scope) {
            ((b'S', b't'), None) => {
                self.cursor.expect("St")?;
                return Some((Some(self.tree.push(Node::Std)?), false));
            }
            ((b'S', _), None) => return Some((Some(self.reference()?), false)),
            ((b'T', _), None) => self.template_parameter()?,
            ((b'D', b't' | b'T'), None) => self.decltype()?,
            ((b'I', _), Some(template)) => self.arguments_of(template)?,
            // The name of a member whose initial value holds the closure that follows.
            ((b'M', b'U'), Some(scope)) => {
                self.cursor.expect("M")?;
                return Some((Some(scope), true));
            }
            (_, scope) => self.within(scope)?,
        };
        self.remember_scope(id)?;
        Some((Some(id), true))
    }

    /// The next name within a scope.
    fn within(&mut self, scope: Option<Id>) -> Option<Id> {
        let name = self.unqualified()?;
        match scope {
            Some(scope) => self.tree.push(Node::Nested(scope, name)),
            None => Some(name),
        }
    }

    /// A name without its scope, with the tags of its ABI.
    fn unqualified(&mut self) -> Option<Id> {
        self.has_static |= self.cursor.eat("L");
        let mut name = match self.cursor.peek()? {
            b'0'..=b'9' => self.source()?,
            b'U' => self.nameless()?,
            b'C' | b'D' => self.special()?,
            b'a'..=b'z' => self.operator_name()?,
            _ => return None,
        };
        while self.cursor.eat("B") {
            let tag = self.cursor.identifier()?;
            name = self.tree.push(Node::Tagged(name, tag))?;
        }
        Some(name)
    }

    pub(super) fn source(&mut self) -> Option<Id> {
        let identifier = self.cursor.identifier()?;
        self.tree.push(Node::Source(identifier))
    }

    /// A closure or a type without a name.
    fn nameless(&mut self) -> Option<Id> {
        if self.cursor.eat("Ut") {
            let ordinal = self.cursor.ordinal()?;
            return self.tree.push(Node::Unnamed(ordinal));
        }
        self.cursor.expect("Ul")?;
        let parameters = self.parameters()?;
        self.cursor.expect("E")?;
        let ordinal = self.cursor.ordinal()?;
        self.tree.push(Node::Lambda(parameters, ordinal))
    }

    /// A constructor, a destructor, or a structured binding.
    fn special(&mut self) -> Option<Id> {
        let node = match (self.cursor.next()?, self.cursor.next()?) {
            (b'C', b'1') => Node::Constructor(""),
            (b'C', b'2') => Node::Constructor(" [subobject]"),
            (b'C', b'3') => Node::Constructor(" [allocating]"),
            (b'D', b'0') => Node::Destructor(" [deleting]"),
            (b'D', b'1') => Node::Destructor(""),
            (b'D', b'2') => Node::Destructor(" [subobject]"),
            (b'D', b'C') => Node::Binding(self.until_end(Self::source)?),
            _ => return None,
        };
        self.tree.push(node)
    }

    /// The name of an operator's function.
    pub(super) fn operator_name(&mut self) -> Option<Id> {
        let code = self.cursor.pair()?;
        self.cursor.next();
        self.cursor.next();
        let node = match &code {
            b"cv" => Node::Conversion(self.conversion_target()?),
            b"li" => Node::LiteralOperator(self.cursor.identifier()?),
            _ => Node::Operator(operator(code).filter(|_| names_a_function(code))?.0),
        };
        self.tree.push(node)
    }

    fn conversion_target(&mut self) -> Option<Id> {
        let outer = std::mem::replace(&mut self.is_in_conversion, true);
        let target = self.ty();
        self.is_in_conversion = outer;
        target
    }

    /// Something within a function.
    fn local(&mut self) -> Option<(Id, Qualifiers)> {
        self.cursor.expect("Z")?;
        let function = self.encoding()?;
        self.cursor.expect("E")?;
        let default = if self.cursor.eat("d") { Some(self.cursor.ordinal()?) } else { None };
        // `s`, a string, names no function.
        let (entity, qualifiers) = self.name()?;
        let instance = self.discriminator()?;
        let local = Local { function, default, entity, instance };
        Some((self.tree.push(Node::Local(local))?, qualifiers))
    }

    /// The number of one of several things with one name in a function: `_0` and `__10_`. Outer:
    /// whether it could be read; inner: whether there is one.
    #[allow(clippy::option_option)]
    fn discriminator(&mut self) -> Option<Option<u64>> {
        if !self.cursor.eat("_") {
            return Some(None);
        }
        let number = if self.cursor.eat("_") {
            let number = self.cursor.number()?;
            self.cursor.expect("_")?;
            number
        } else {
            u64::from(self.cursor.next().filter(u8::is_ascii_digit)? - b'0')
        };
        number.checked_add(2).map(Some)
    }

    /// The arguments of a template.
    pub(super) fn arguments(&mut self) -> Option<Vec<Id>> {
        self.cursor.expect("I")?;
        let outer = std::mem::replace(&mut self.is_in_conversion, false);
        let arguments = self.deeper(|parser| parser.until_end(Self::argument));
        self.is_in_conversion = outer;
        arguments
    }

    fn argument(&mut self) -> Option<Id> {
        match self.cursor.peek()? {
            b'L' => self.literal(),
            b'X' => {
                self.cursor.expect("X")?;
                let expression = self.expression()?;
                self.cursor.expect("E")?;
                Some(expression)
            }
            b'J' => {
                self.cursor.expect("J")?;
                let pack = self.deeper(|parser| parser.until_end(Self::argument))?;
                self.tree.push(Node::Pack(pack))
            }
            _ => self.ty(),
        }
    }
}
