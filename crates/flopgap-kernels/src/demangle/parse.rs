//! Reads a mangled name into a [`Tree`]. Nothing is tried twice, so the time is that of its length.

use super::cursor::Cursor;
use super::tree::{Encoding, Id, Node, Tree};

/// How deep names, types and expressions may lie within each other. The deepest real names seen
/// have about 30 levels; the limit keeps the stack small.
const DEPTH: usize = 192;

/// A reader of a mangled name.
pub(super) struct Parser<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) tree: Tree<'a>,
    /// What `S_`, `S0_` and so on refer to.
    substitutions: Vec<Id>,
    depth: usize,
    /// Whether arguments that follow belong to the operator whose type is being read.
    pub(super) is_in_conversion: bool,
    pub(super) has_static: bool,
}

/// What a whole mangled name says.
pub(super) struct Parsed<'a> {
    pub(super) tree: Tree<'a>,
    pub(super) root: Id,
    /// Whether it names a static function or variable the way other compilers than nvcc do.
    pub(super) has_static: bool,
}

/// Reads a whole mangled name.
pub(super) fn parse(mangled: &str) -> Option<Parsed<'_>> {
    let mut parser = Parser {
        cursor: Cursor::new(mangled),
        tree: Tree::default(),
        substitutions: Vec::new(),
        depth: 0,
        is_in_conversion: false,
        has_static: false,
    };
    parser.cursor.expect("_Z")?;
    let root = parser.encoding()?;
    let Parser { cursor, tree, has_static, .. } = parser;
    cursor.is_end().then_some(Parsed { tree, root, has_static })
}

impl Parser<'_> {
    /// A name with the parameters of the function that it names.
    pub(super) fn encoding(&mut self) -> Option<Id> {
        let (name, qualifiers) = self.name()?;
        // A variable has no parameters.
        let has_parameters = self.cursor.peek().is_some_and(|next| next != b'E');
        let (result, parameters) = if has_parameters {
            let has_result = self.tree.has_result(name);
            let result = if has_result { Some(self.ty()?) } else { None };
            (result, Some(self.parameters()?))
        } else {
            (None, None)
        };
        self.tree.push(Node::Encoding(Encoding { name, qualifiers, result, parameters }))
    }

    /// Types up to what ends them, which is left.
    pub(super) fn parameters(&mut self) -> Option<Vec<Id>> {
        let mut types = vec![self.ty()?];
        while !self.is_behind_parameters() {
            types.push(self.ty()?);
        }
        Some(types)
    }

    fn is_behind_parameters(&self) -> bool {
        match self.cursor.peek() {
            None | Some(b'E') => true,
            // The `&` of a member function.
            Some(b'R' | b'O') => self.cursor.look(1) == Some(b'E'),
            _ => false,
        }
    }

    /// Nodes up to an `E`, which is consumed.
    pub(super) fn until_end(&mut self, mut node: impl FnMut(&mut Self) -> Option<Id>) -> Option<Vec<Id>> {
        let mut nodes = Vec::new();
        while !self.cursor.eat("E") {
            nodes.push(node(self)?);
        }
        Some(nodes)
    }

    /// Reads one level deeper.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == DEPTH {
            return None;
        }
        self.depth += 1;
        let node = read(self);
        self.depth -= 1;
        node
    }

    /// Remembers what a later `S_` can refer to.
    pub(super) fn remember(&mut self, id: Id) -> Id {
        self.substitutions.push(id);
        id
    }

    /// Remembers a scope or a template's name: a later `S_` is printed in another way.
    pub(super) fn remember_scope(&mut self, id: Id) -> Option<Id> {
        let back = self.tree.push(Node::Back(id))?;
        Some(self.remember(back))
    }

    /// Takes back the last of them: a whole name is none, only the scopes that lead to it.
    pub(super) fn forget(&mut self) {
        self.substitutions.pop();
    }

    /// `S_`, `S0_` and so on, behind the `S`.
    pub(super) fn substitution(&mut self) -> Option<Id> {
        let index = self.cursor.index()?;
        self.substitutions.get(index).copied()
    }
}

impl Tree<'_> {
    /// Whether a function's type names its result: of templates only, and of those that have one.
    fn has_result(&self, name: Id) -> bool {
        let mut name = name;
        // Every step goes to an earlier node, so these loops end.
        while let Node::Local(local) = self.get(name) {
            name = local.entity;
        }
        let Node::Template(template, _) = self.get(name) else { return false };
        let mut last = *template;
        while let Node::Nested(_, inner) | Node::Tagged(inner, _) = self.get(last) {
            last = *inner;
        }
        !matches!(self.get(last), Node::Constructor(_) | Node::Destructor(_) | Node::Conversion(_))
    }
}
