//! What a mangled name says, as a tree whose nodes are shared wherever the name refers back.

/// The place of a node in its [`Tree`].
pub(super) type Id = u32;

/// All nodes of a name. A node stands behind those it refers to, so there are no circles.
#[derive(Default)]
pub(super) struct Tree<'a>(Vec<Node<'a>>);

impl<'a> Tree<'a> {
    pub(super) fn push(&mut self, node: Node<'a>) -> Option<Id> {
        let id = Id::try_from(self.0.len()).ok()?;
        self.0.push(node);
        Some(id)
    }

    pub(super) fn get(&self, id: Id) -> &Node<'a> {
        &self.0[id as usize]
    }
}

/// `const`, `volatile` and `restrict` in front of a type, and what follows a function's parameters.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Qualifiers {
    pub(super) constant: bool,
    pub(super) volatile: bool,
    pub(super) restrict: bool,
    /// `&`, `&&` or nothing.
    pub(super) reference: &'static str,
}

impl Qualifiers {
    /// The words in the order in which they are printed.
    pub(super) fn words(self) -> impl Iterator<Item = &'static str> {
        [(self.constant, "const"), (self.volatile, "volatile"), (self.restrict, "restrict")]
            .into_iter()
            .filter_map(|(is_set, word)| is_set.then_some(word))
    }

    /// These and others.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            constant: self.constant || other.constant,
            volatile: self.volatile || other.volatile,
            restrict: self.restrict || other.restrict,
            ..self
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// A part of a name. Names, types and expressions are of one kind, since each can stand within
/// each.
pub(super) enum Node<'a> {
    // Names.
    /// An identifier.
    Source(&'a str),
    /// Namespace `std`.
    Std,
    /// A class of the standard library that has a mangled form of two letters.
    Abbreviation(&'static Abbreviation),
    /// `operator` and its symbol.
    Operator(&'static str),
    /// `operator` and a type.
    Conversion(Id),
    /// `operator ""` and a suffix.
    LiteralOperator(&'a str),
    /// A constructor of the class before it; the text behind its parameters.
    Constructor(&'static str),
    /// A destructor, the same way.
    Destructor(&'static str),
    /// A name with an ABI tag.
    Tagged(Id, &'a str),
    /// A closure: its parameters and its number.
    Lambda(Vec<Id>, u64),
    /// A type without a name: its number.
    Unnamed(u64),
    /// The names of a structured binding.
    Binding(Vec<Id>),
    /// A scope and what lies in it.
    Nested(Id, Id),
    /// A template and its arguments.
    Template(Id, Vec<Id>),
    /// A scope or template that was there before; no space is due behind it.
    Back(Id),
    /// A template that was there before, with other arguments.
    Instance(Id, Vec<Id>),
    /// Something within a function.
    Local(Local),
    /// A function with its parameters, or a variable.
    Encoding(Encoding),

    // Types.
    /// A fundamental type, or one of the compiler's vendor.
    Builtin(&'a str),
    /// `const`, `volatile`, `restrict`.
    Qualified(Qualifiers, Id),
    /// A qualifier of the compiler's vendor.
    VendorQualified(&'a str, Id),
    /// `*`, `&` or `&&`.
    Pointer(&'static str, Id),
    /// A function: its result and parameters.
    Function(Function),
    /// An array: its length, where it is known, and its elements.
    Array(Option<Id>, Id),
    /// A pointer to a member: class and type.
    Member(Id, Id),
    /// A vector of the compiler's: number and type of its elements.
    Vector(&'a str, Id),
    /// A parameter of a template, counted from 1.
    Parameter(u64),
    /// `decltype`, and whether its operand has parentheses of its own.
    Decltype(Id, bool),
    /// A type or expression followed by an ellipsis.
    Expansion(Id),
    /// Several arguments of a template that one parameter takes.
    Pack(Vec<Id>),

    // Expressions.
    /// Digits, or an identifier by itself.
    Text(&'a str),
    /// A value with its type.
    Literal(Id, Value<'a>),
    /// Text between nodes, such as an operator between its operands.
    Sequence(Vec<Piece>),
    /// A list of nodes between two texts.
    List(&'static str, Vec<Id>, &'static str),
    /// A parameter of the function: its number from 1, and how many functions further out it is.
    Argument(u64, u64),
    /// A function named within an expression, without its parameters.
    Mention(Id),
}

/// A class of the standard library with a mangled form of two letters.
pub(super) struct Abbreviation {
    /// The letter behind `S`.
    pub(super) letter: u8,
    /// How it is printed.
    pub(super) full: &'static str,
    /// Its bare name, which its constructors have.
    pub(super) base: &'static str,
}

/// Something within a function.
pub(super) struct Local {
    /// The function's encoding.
    pub(super) function: Id,
    /// Which of its default arguments it stands in, counted from the last.
    pub(super) default: Option<u64>,
    /// What stands there.
    pub(super) entity: Id,
    /// Its number, where several have one name.
    pub(super) instance: Option<u64>,
}

/// A function with its parameters; without them a variable.
pub(super) struct Encoding {
    pub(super) name: Id,
    pub(super) qualifiers: Qualifiers,
    pub(super) result: Option<Id>,
    pub(super) parameters: Option<Vec<Id>>,
}

/// The type of a function.
pub(super) struct Function {
    pub(super) qualifiers: Qualifiers,
    pub(super) noexcept: bool,
    pub(super) result: Id,
    pub(super) parameters: Vec<Id>,
}

/// A value among the arguments of a template.
pub(super) enum Value<'a> {
    /// Whether it is negative, and its digits.
    Number(bool, &'a str),
    /// The bits of a floating-point number.
    Float(f32),
    /// The bits of a floating-point number.
    Double(f64),
    /// A string literal: names have its type and not its text.
    String,
}

/// A piece of an expression.
pub(super) enum Piece {
    Text(&'static str),
    Node(Id),
}
