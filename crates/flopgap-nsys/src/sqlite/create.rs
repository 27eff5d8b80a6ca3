//! `CREATE TABLE`, as far as it says where rows keep each column.

use super::record::Slot;

/// What a statement says of the rows of its table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    /// The columns by their names, in the order of the statement.
    pub(crate) columns: Vec<(String, Slot)>,
    /// Whether each row stores each column, in this order and by row id: not where a default stands
    /// in for what older rows lack, a column is computed, or the table has no row ids.
    pub(crate) plain: bool,
}

/// Words that end the type of a column. They are no names, unless they are quoted.
const AFTER_TYPE: [&str; 10] =
    ["CONSTRAINT", "PRIMARY", "NOT", "NULL", "UNIQUE", "CHECK", "DEFAULT", "COLLATE", "REFERENCES", "AS"];

/// Words with which a constraint of the table begins; they are no names, unless they are quoted.
const OF_TABLE: [&str; 5] = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];

/// Reads a statement as `sqlite_schema` has it; `None` when it creates no table, or is none of
/// `SQLite`'s.
pub(crate) fn declared(sql: &str) -> Option<Declared> {
    let tokens = tokens(sql)?;
    let [create, table, rest @ ..] = tokens.as_slice() else { return None };
    if !(create.is("CREATE") && table.is("TABLE")) {
        return None;
    }
    let (items, options) = split(rest)?;
    let mut declared = Declared { columns: Vec::new(), plain: true };
    let (mut types, mut key): (Vec<String>, Option<usize>) = (Vec::new(), None);
    for item in items {
        let (first, rest) = item.split_first()?;
        if OF_TABLE.iter().any(|word| first.is(word)) {
            key = key.or(key_of_table(item, &declared.columns));
            continue;
        }
        let own = outermost(rest);
        let of_type = own.iter().take_while(|token| !AFTER_TYPE.iter().any(|word| token.is(word))).count();
        let (of_type, constraints) = own.split_at(of_type);
        let text = match (of_type.first(), of_type.last()) {
            (Some(first), _) if first.is_quoted() => first.name()?,
            (Some(first), Some(last)) => sql[first.at..last.at + last.text.len()].to_owned(),
            _ => String::new(),
        };
        if is_key(constraints) {
            key = Some(declared.columns.len());
        }
        declared.plain &= !is_computed_or_defaulted(constraints);
        declared.columns.push((first.name()?, Slot::stored(declared.columns.len(), &text)));
        types.push(text);
    }
    let rowids = !options.iter().any(|token| token.is("WITHOUT"));
    declared.plain &= rowids;
    // The only column of a primary key, when it is an INTEGER, is another name of the row id.
    if let Some(key) = key.filter(|key| rowids && types[*key].eq_ignore_ascii_case("INTEGER")) {
        declared.columns[key].1 = Slot::Rowid;
    }
    Some(declared)
}

/// A word, a quoted name or text, or a symbol.
#[derive(Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    /// Where it begins.
    at: usize,
}

impl Token<'_> {
    /// Whether it is this word, and not quoted.
    fn is(&self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }

    fn is_quoted(&self) -> bool {
        self.text.starts_with(['"', '\'', '`', '['])
    }

    /// The name that it is.
    fn name(&self) -> Option<String> {
        let quote = self.text.chars().next()?;
        let close = match quote {
            '"' | '\'' | '`' => quote,
            // No doubled bracket stands for one.
            '[' => return Some(self.text[1..self.text.len() - 1].to_owned()),
            _ => return is_of_word(self.text.as_bytes()[0]).then(|| self.text.to_owned()),
        };
        let inner = &self.text[1..self.text.len() - 1];
        Some(inner.replace(&format!("{close}{close}"), &close.to_string()))
    }
}

/// Whether a byte may be part of a word. All of UTF-8 beyond ASCII may.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// The tokens of a statement, without comments; `None` when a quotation does not end.
fn tokens(sql: &str) -> Option<Vec<Token<'_>>> {
    let bytes = sql.as_bytes();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = match rest[0] {
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'-' if rest.starts_with(b"--") => {
                at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with(b"/*") => {
                let end = rest[2..].windows(2).position(|pair| pair == b"*/");
                at += end.map_or(rest.len(), |end| end + 4);
                continue;
            }
            b'[' => 1 + rest.iter().position(|&byte| byte == b']')?,
            quote @ (b'"' | b'\'' | b'`') => quoted(rest, quote)?,
            byte if is_of_word(byte) => rest.iter().position(|&byte| !is_of_word(byte)).unwrap_or(rest.len()),
            _ => 1,
        };
        // Words take all bytes of a character, and all else ends with ASCII.
        tokens.push(Token { text: sql.get(at..at + length)?, at });
        at += length;
    }
    Some(tokens)
}

/// The length of a quotation at the beginning of `bytes`; a doubled quote is part of it.
fn quoted(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == quote)?;
        if bytes.get(at + 1) != Some(&quote) {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The columns and constraints between the outermost parentheses, and what follows these.
fn split<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<(Vec<&'t [Token<'a>]>, &'t [Token<'a>])> {
    let open = tokens.iter().position(|token| token.is("("))?;
    let (mut items, mut depth, mut begin) = (Vec::new(), 0_usize, open + 1);
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" => depth += 1,
            "," if depth == 1 => {
                items.push(&tokens[begin..at]);
                begin = at + 1;
            }
            ")" if depth == 1 => {
                items.push(&tokens[begin..at]);
                return Some((items, &tokens[at + 1..]));
            }
            ")" => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The tokens that are in no parentheses, and the parentheses themselves.
fn outermost<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut depth = 0_usize;
    let mut outermost = Vec::with_capacity(tokens.len());
    for &token in tokens {
        depth = depth.saturating_sub(usize::from(token.is(")")));
        if depth == 0 {
            outermost.push(token);
        }
        depth += usize::from(token.is("("));
    }
    outermost
}

/// Whether constraints of a column make it a key that may be the row id: one that descends has an
/// index of its own.
fn is_key(constraints: &[Token<'_>]) -> bool {
    let key = constraints.windows(2).position(|pair| pair[0].is("PRIMARY") && pair[1].is("KEY"));
    key.is_some_and(|at| !constraints.get(at + 2).is_some_and(|token| token.is("DESC")))
}

/// Whether constraints of a column compute it or give it a default.
fn is_computed_or_defaulted(constraints: &[Token<'_>]) -> bool {
    let mut before: Option<&Token<'_>> = None;
    constraints.iter().any(|token| {
        // `ON DELETE SET DEFAULT` of a foreign key gives none.
        let of_key = before.replace(token).is_some_and(|before| before.is("SET"));
        token.is("AS") || token.is("DEFAULT") && !of_key
    })
}

/// The place of the only column of the primary key that a constraint of the table declares.
fn key_of_table(constraint: &[Token<'_>], columns: &[(String, Slot)]) -> Option<usize> {
    let key = constraint.windows(2).position(|pair| pair[0].is("PRIMARY") && pair[1].is("KEY"))?;
    let (terms, _) = split(&constraint[key + 2..])?;
    let [[name, ..]] = terms.as_slice() else { return None };
    let name = name.name()?;
    columns.iter().position(|(column, _)| column.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_creates_no_table_is_none() {
        for sql in [
            "",
            "CREATE",
            "CREATE INDEX i ON t(a)",
            "CREATE VIRTUAL TABLE t USING fts5(a)",
            "CREATE TABLE t",
            "CREATE TABLE t(a",
            "CREATE TABLE t(a, \"b)",
            "CREATE TABLE t(a, [b)",
            "CREATE TABLE t()",
            "CREATE TABLE t(a,)",
            "CREATE TABLE t(a, +)",
        ] {
            assert_eq!(declared(sql), None, "{sql}");
        }
    }

    #[test]
    fn names_lose_their_quotes() {
        let names = r#"CREATE TABLE "t(" ("a ""b", [c "d], `e``f`, 'g''h', ü, "end" INT, key)"#;
        let names: Vec<String> = declared(names).unwrap().columns.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a \"b", "c \"d", "e`f", "g'h", "ü", "end", "key"]);
    }
}
