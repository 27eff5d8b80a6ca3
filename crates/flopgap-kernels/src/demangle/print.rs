//! Prints a tree the way NVIDIA's tools do.

use super::tree::{Encoding, Id, Local, Node, Piece, Qualifiers, Tree};

/// Longest text printed. References let a short malicious name expand without bound; the longest
/// real names seen have a few kilobytes.
const LENGTH: usize = 64 * 1024;

/// Most nodes visited, since a node need not print anything.
const STEPS: usize = 1 << 18;

/// How deep nodes may lie within each other. References make it deeper than the parser's limit.
const DEPTH: usize = 256;

/// A printer: what it has printed so far. All methods answer `None` where a limit is reached.
pub(super) struct Printer<'t> {
    pub(super) tree: &'t Tree<'t>,
    out: String,
    /// Whether a space is due before the next mark of a type (`*`, `(`, `[`).
    pub(super) is_gap_due: bool,
    /// Whether such a mark follows the type that is being printed.
    pub(super) is_marked: bool,
    steps: usize,
    depth: usize,
}

/// The text of a node.
pub(super) fn print(tree: &Tree<'_>, node: Id) -> Option<String> {
    let mut printer = Printer::new(tree);
    printer.node(node)?;
    Some(printer.out)
}

/// The bare name of the function that a tree's root stands for.
pub(super) fn print_base(tree: &Tree<'_>, root: Id) -> Option<String> {
    let mut printer = Printer::new(tree);
    printer.base(root)?;
    Some(printer.out)
}

impl<'t> Printer<'t> {
    fn new(tree: &'t Tree<'t>) -> Self {
        Self { tree, out: String::new(), is_gap_due: false, is_marked: false, steps: 0, depth: 0 }
    }

    pub(super) fn text(&mut self, text: &str) -> Option<()> {
        if self.out.len() + text.len() > LENGTH {
            return None;
        }
        self.out.push_str(text);
        Some(())
    }

    /// Prints one level deeper.
    pub(super) fn deeper(&mut self, print: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        if self.depth == DEPTH || self.steps == STEPS {
            return None;
        }
        self.depth += 1;
        self.steps += 1;
        let done = print(self);
        self.depth -= 1;
        done
    }

    /// A whole node: a name, a type or an expression.
    pub(super) fn node(&mut self, id: Id) -> Option<()> {
        let outer = std::mem::take(&mut self.is_marked);
        self.left(id)?;
        self.right(id)?;
        self.is_gap_due = false;
        self.is_marked = outer;
        Some(())
    }

    /// Nodes with commas between them.
    pub(super) fn list(&mut self, nodes: &[Id]) -> Option<()> {
        for (index, &node) in nodes.iter().enumerate() {
            if index > 0 {
                self.text(", ")?;
            }
            self.node(node)?;
        }
        Some(())
    }

    /// The parameters of a function; a single `void` stands for none.
    pub(super) fn parameters(&mut self, parameters: &[Id]) -> Option<()> {
        let is_none = matches!(parameters, [only] if matches!(self.tree.get(*only), Node::Builtin("void")));
        self.text("(")?;
        if !is_none {
            self.list(parameters)?;
        }
        self.text(")")
    }

    /// What follows the parameters of a member function.
    pub(super) fn trailing(&mut self, qualifiers: Qualifiers) -> Option<()> {
        for word in qualifiers.words().chain(Some(qualifiers.reference).filter(|mark| !mark.is_empty())) {
            self.text(" ")?;
            self.text(word)?;
        }
        Some(())
    }

    /// Everything but types that have a part behind the name.
    pub(super) fn plain(&mut self, node: &'t Node<'t>) -> Option<()> {
        match node {
            Node::Source(name) => self.text(if is_unnamed(name) { "<unnamed>" } else { name }),
            Node::Std => self.text("std"),
            Node::Abbreviation(known) => self.text(known.full),
            Node::Operator(_) | Node::Conversion(_) | Node::LiteralOperator(_) => self.operator(node),
            // Without a class there is nothing to name it after.
            Node::Constructor(_) | Node::Destructor(_) => None,
            Node::Tagged(name, tag) => self.tagged(*name, tag),
            Node::Lambda(parameters, number) => {
                self.text("[lambda")?;
                self.parameters(parameters)?;
                self.text(&format!(" (instance {number})]"))
            }
            Node::Unnamed(number) => self.text(&format!("[unnamed type (instance {number})]")),
            Node::Binding(names) => self.binding(names),
            Node::Nested(scope, name) => self.nested(*scope, *name),
            Node::Back(inner) => self.node(*inner),
            Node::Template(template, arguments) => {
                self.node(*template)?;
                self.arguments(arguments)
            }
            Node::Instance(template, arguments) => {
                self.left(*template)?;
                // The space before a mark comes too early here.
                self.is_gap_due &= self.is_marked;
                self.mark("")?;
                self.arguments(arguments)
            }
            Node::Local(local) => self.local(local),
            Node::Encoding(encoding) => self.encoding(encoding),
            _ => self.expression(node),
        }
    }

    fn arguments(&mut self, arguments: &[Id]) -> Option<()> {
        self.text("<")?;
        self.list(arguments)?;
        self.text(">")
    }

    fn operator(&mut self, node: &Node<'_>) -> Option<()> {
        self.text("operator ")?;
        match node {
            Node::Operator(symbol) => self.text(symbol),
            Node::Conversion(target) => self.node(*target),
            Node::LiteralOperator(suffix) => self.text("\"\"").and_then(|()| self.text(suffix)),
            _ => None,
        }
    }

    fn tagged(&mut self, name: Id, tag: &str) -> Option<()> {
        self.node(name)?;
        self.text(&format!("[abi:{tag}]"))
    }

    fn binding(&mut self, names: &[Id]) -> Option<()> {
        self.text("[structured binding for ")?;
        for (index, &name) in names.iter().enumerate() {
            if index > 0 {
                self.text(",")?;
            }
            self.node(name)?;
        }
        self.text("]")
    }

    fn nested(&mut self, scope: Id, name: Id) -> Option<()> {
        // nvcc's scope for what is internal to a file is not shown.
        if !matches!(self.tree.get(scope), Node::Source(scope) if scope.starts_with("_INTERNAL")) {
            self.node(scope)?;
            self.text("::")?;
        }
        self.last(scope, name)
    }

    /// The last part of a name; constructors and destructors are named after their class.
    fn last(&mut self, scope: Id, name: Id) -> Option<()> {
        match self.tree.get(name) {
            Node::Constructor(_) => self.base(scope),
            Node::Destructor(_) => self.text("~").and_then(|()| self.base(scope)),
            Node::Tagged(inner, tag) => {
                self.deeper(|printer| printer.last(scope, *inner))?;
                self.text(&format!("[abi:{tag}]"))
            }
            _ => self.node(name),
        }
    }

    /// The last name, without scope and template arguments.
    fn base(&mut self, id: Id) -> Option<()> {
        self.deeper(|printer| match printer.tree.get(id) {
            Node::Encoding(encoding) => printer.base(encoding.name),
            Node::Local(local) => printer.base(local.entity),
            Node::Template(name, _) | Node::Instance(name, _) | Node::Back(name) => printer.base(*name),
            Node::Nested(scope, name) => printer.last(*scope, *name),
            Node::Abbreviation(known) => printer.text(known.base),
            _ => printer.node(id),
        })
    }

    fn local(&mut self, local: &Local) -> Option<()> {
        self.node(local.function)?;
        self.text("::")?;
        if let Some(default) = local.default {
            self.text(&format!("[default argument {default} (from end)]::"))?;
        }
        self.node(local.entity)?;
        match local.instance {
            Some(instance) => self.text(&format!(" (instance {instance})")),
            None => Some(()),
        }
    }

    fn encoding(&mut self, encoding: &Encoding) -> Option<()> {
        if let Some(result) = encoding.result {
            self.node(result)?;
            self.text(" ")?;
        }
        self.node(encoding.name)?;
        if let Some(parameters) = &encoding.parameters {
            self.parameters(parameters)?;
            self.trailing(encoding.qualifiers)?;
        }
        let variant = self.variant(encoding.name);
        self.text(variant)
    }

    /// Which of the functions of a constructor or destructor it is.
    fn variant(&self, mut name: Id) -> &'static str {
        // Every step goes to an earlier node, so this ends.
        loop {
            name = match self.tree.get(name) {
                Node::Constructor(variant) | Node::Destructor(variant) => return variant,
                Node::Nested(_, inner) | Node::Template(inner, _) | Node::Tagged(inner, _) => *inner,
                Node::Local(local) => local.entity,
                _ => return "",
            };
        }
    }

    fn expression(&mut self, node: &'t Node<'t>) -> Option<()> {
        match node {
            Node::Pack(nodes) => self.list(nodes),
            Node::Text(text) | Node::Builtin(text) => self.text(text),
            Node::Parameter(number) => self.text(&format!("T{number}")),
            Node::Decltype(operand, has_parentheses) => {
                self.text(if *has_parentheses { "decltype((" } else { "decltype(" })?;
                self.node(*operand)?;
                self.text(if *has_parentheses { "))" } else { ")" })
            }
            Node::Expansion(pattern) => {
                self.node(*pattern)?;
                self.text("...")
            }
            Node::Literal(ty, value) => self.literal(*ty, value),
            Node::Sequence(pieces) => pieces.iter().try_for_each(|piece| match piece {
                Piece::Text(text) => self.text(text),
                Piece::Node(id) => self.node(*id),
            }),
            Node::List(open, nodes, close) => {
                self.text(open)?;
                self.list(nodes)?;
                self.text(close)
            }
            Node::Argument(number, 0) => self.text(&format!("param#{number}")),
            Node::Argument(number, level) => {
                let levels = if *level == 1 { "level" } else { "levels" };
                self.text(&format!("param#{number}[up {level} {levels}]"))
            }
            Node::Mention(encoding) => self.mention(*encoding),
            _ => None,
        }
    }

    fn mention(&mut self, encoding: Id) -> Option<()> {
        let Node::Encoding(encoding) = self.tree.get(encoding) else { return None };
        self.node(encoding.name)?;
        self.trailing(encoding.qualifiers)
    }
}

/// Whether this is nvcc's name for the anonymous namespace of a file.
fn is_unnamed(name: &str) -> bool {
    name.starts_with("_GLOBAL__N_")
}
