//! The codes of two letters that stand for operators, builtin types and classes of the library.

use super::tree::Abbreviation;

/// How an operator is used in an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Before its operand.
    Prefix,
    /// Between two operands.
    Infix,
    /// In ways of its own, or not at all.
    Other,
}

/// The symbol of an operator and how it is used.
pub(super) fn operator(code: [u8; 2]) -> Option<(&'static str, Use)> {
    OPERATORS.iter().find(|row| row.0.as_bytes() == code).map(|row| (row.1, row.2))
}

const OPERATORS: [(&str, &str, Use); 53] = [
    ("nw", "new ", Use::Other),
    ("na", "new[] ", Use::Other),
    ("dl", "delete ", Use::Prefix),
    ("da", "delete[] ", Use::Prefix),
    ("aw", "co_await", Use::Other),
    ("ps", "+", Use::Prefix),
    ("ng", "-", Use::Prefix),
    ("ad", "&", Use::Prefix),
    ("de", "*", Use::Prefix),
    ("co", "~", Use::Prefix),
    ("nt", "!", Use::Prefix),
    ("pl", "+", Use::Infix),
    ("mi", "-", Use::Infix),
    ("ml", "*", Use::Infix),
    ("dv", "/", Use::Infix),
    ("rm", "%", Use::Infix),
    ("an", "&", Use::Infix),
    ("or", "|", Use::Infix),
    ("eo", "^", Use::Infix),
    ("aS", "=", Use::Infix),
    ("pL", "+=", Use::Infix),
    ("mI", "-=", Use::Infix),
    ("mL", "*=", Use::Infix),
    ("dV", "/=", Use::Infix),
    ("rM", "%=", Use::Infix),
    ("aN", "&=", Use::Infix),
    ("oR", "|=", Use::Infix),
    ("eO", "^=", Use::Infix),
    ("ls", "<<", Use::Infix),
    ("rs", ">>", Use::Infix),
    ("lS", "<<=", Use::Infix),
    ("rS", ">>=", Use::Infix),
    ("eq", "==", Use::Infix),
    ("ne", "!=", Use::Infix),
    ("lt", "<", Use::Infix),
    ("gt", ">", Use::Infix),
    ("le", "<=", Use::Infix),
    ("ge", ">=", Use::Infix),
    ("ss", "<=>", Use::Infix),
    ("aa", "&&", Use::Infix),
    ("oo", "||", Use::Infix),
    ("pp", "++", Use::Other),
    ("mm", "--", Use::Other),
    ("cm", ",", Use::Infix),
    ("pm", "->*", Use::Infix),
    ("ds", ".*", Use::Infix),
    ("pt", "->", Use::Other),
    ("dt", ".", Use::Other),
    ("cl", "()", Use::Other),
    ("ix", "[]", Use::Other),
    ("qu", "?", Use::Other),
    ("tw", "throw ", Use::Prefix),
    ("tr", "throw", Use::Other),
];

/// Whether a function can be named after an operator: the others are of expressions only.
pub(super) fn names_a_function(code: [u8; 2]) -> bool {
    !matches!(&code, b"ds" | b"dt" | b"tw" | b"tr")
}

/// The fundamental type that a letter stands for.
pub(super) fn builtin(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'v' => "void",
        b'w' => "wchar_t",
        b'b' => "bool",
        b'c' => "char",
        b'a' => "signed char",
        b'h' => "unsigned char",
        b's' => "short",
        b't' => "unsigned short",
        b'i' => "int",
        b'j' => "unsigned int",
        b'l' => "long",
        b'm' => "unsigned long",
        b'x' => "long long",
        b'y' => "unsigned long long",
        b'n' => "__int128",
        b'o' => "unsigned __int128",
        b'f' => "float",
        b'd' => "double",
        b'e' => "long double",
        b'g' => "__float128",
        b'z' => "...",
        _ => return None,
    })
}

/// The fundamental type behind a `D`.
pub(super) fn builtin_d(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'n' => "std::nullptr_t",
        b'i' => "char32_t",
        b's' => "char16_t",
        b'u' => "char8_t",
        b'h' => "__fp16",
        b'a' => "auto",
        b'c' => "decltype(auto)",
        _ => return None,
    })
}

/// The class of the standard library that the letter behind an `S` stands for.
pub(super) fn abbreviation(letter: u8) -> Option<&'static Abbreviation> {
    ABBREVIATIONS.iter().find(|row| row.letter == letter)
}

const ABBREVIATIONS: [Abbreviation; 6] = [
    Abbreviation { letter: b'a', full: "std::allocator", base: "allocator" },
    Abbreviation { letter: b'b', full: "std::basic_string", base: "basic_string" },
    Abbreviation {
        letter: b's',
        full: "std::basic_string<char, std::char_traits<char>, std::allocator<char>>",
        base: "basic_string",
    },
    Abbreviation {
        letter: b'i',
        full: "std::basic_istream<char, std::char_traits<char>>",
        base: "basic_istream",
    },
    Abbreviation {
        letter: b'o',
        full: "std::basic_ostream<char, std::char_traits<char>>",
        base: "basic_ostream",
    },
    Abbreviation {
        letter: b'd',
        full: "std::basic_iostream<char, std::char_traits<char>>",
        base: "basic_iostream",
    },
];
