//! What a query may be: one SELECT over the tables of the data set, and nothing else.
//!
//! The engine knows statements that create and delete tables, and functions that read any file.
//! Files are read-only here and a query reads those of the data set alone, so that SQL of others
//! can be run without reading it first.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use flopgap_cli::{Exit, Failure};
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, ObjectName, Query, Select, SetExpr, Statement, TableFactor,
    Value, Visit as _, Visitor,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::{Parser, ParserOptions};

/// A query that was found harmless.
#[derive(Debug)]
pub(super) struct Checked {
    /// The tables of the data set that it reads.
    pub(super) tables: BTreeSet<String>,
    /// Names within sums.
    pub(super) summed: BTreeSet<String>,
    /// Names within products of whole numbers.
    pub(super) multiplied: BTreeSet<String>,
    /// Whether there are sums over joined tables, to which a row may contribute several times.
    pub(super) joins: bool,
}

/// Parses as the engine does.
pub(super) fn parse(sql: &str) -> Result<Vec<Statement>, Failure> {
    let options = ParserOptions { trailing_commas: true, ..ParserOptions::default() };
    let parser = Parser::new(&GenericDialect).with_options(options).try_with_sql(sql);
    parser
        .and_then(|mut parser| parser.parse_statements())
        .map_err(|error| Failure::new(format!("SQL: {error}")).exit(Exit::Usage))
}

/// Checks a query against the tables of a data set.
pub(super) fn check(sql: &str, known: &[&str]) -> Result<Checked, Failure> {
    let mut statements = parse(sql)?;
    let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
        return Err(refused("expected one statement", "separate questions are separate calls"));
    };
    let Statement::Query(_) = &statement else {
        let text = statement.to_string();
        let verb = text.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        let message = format!("`{verb}` is not a question; only SELECT and WITH … SELECT are");
        return Err(refused(&message, "the files of a data set are never changed by a query"));
    };
    let mut walk = Walk::default();
    if let ControlFlow::Break(failure) = statement.visit(&mut walk) {
        return Err(*failure);
    }
    let mut tables = BTreeSet::new();
    for name in std::mem::take(&mut walk.relations) {
        if known.contains(&name.as_str()) {
            tables.insert(name);
        } else if !walk.own.contains(&name) {
            return Err(unknown_table(&name, known));
        }
    }
    let Walk { summed, multiplied, joins, .. } = walk;
    Ok(Checked { tables, summed, multiplied, joins })
}

fn refused(message: &str, hint: &str) -> Failure {
    Failure::new(format!("SQL: {message}")).hint(hint).exit(Exit::Usage)
}

pub(super) fn unknown_table(name: &str, known: &[&str]) -> Failure {
    Failure::new(format!("the data set has no table `{name}`"))
        .hint(format!("it has {}", known.join(", ")))
        .exit(Exit::Absent)
}

/// What a query names and does.
#[derive(Default)]
struct Walk {
    relations: Vec<String>,
    /// Tables that the query makes for itself: WITH and subqueries with a name.
    own: BTreeSet<String>,
    summed: BTreeSet<String>,
    multiplied: BTreeSet<String>,
    joins: bool,
}

type Step = ControlFlow<Box<Failure>>;

fn stop(message: &str, hint: &str) -> Step {
    ControlFlow::Break(Box::new(refused(message, hint)))
}

impl Visitor for Walk {
    type Break = Box<Failure>;

    fn pre_visit_statement(&mut self, statement: &Statement) -> Step {
        match statement {
            Statement::Query(_) => ControlFlow::Continue(()),
            _ => stop("only SELECT is a question", "the files of a data set are never changed by a query"),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> Step {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.own.insert(table.alias.name.value.clone());
        }
        match &*query.body {
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                stop("only SELECT is a question", "the files of a data set are never changed by a query")
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> Step {
        if select.into.is_some() {
            return stop("`SELECT … INTO` would write a table", "write the answer to a file with --output");
        }
        if select.from.len() > 1 || select.from.iter().any(|from| !from.joins.is_empty()) {
            let mut sums = HasSum;
            self.joins |=
                select.projection.visit(&mut sums).is_break() || select.having.visit(&mut sums).is_break();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Step {
        let hint = "name a table of the data set; `flopgap table query DIR` lists them";
        match factor {
            TableFactor::Table { args: None, name, .. } if name.0.len() == 1 => {}
            TableFactor::Table { args: None, name, .. } => {
                return stop(&format!("`{name}`: tables have one name, without a schema"), hint);
            }
            TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
                return stop(&format!("`{name}` would read files beside the data set"), hint);
            }
            TableFactor::Derived { alias, .. } => {
                if let Some(alias) = alias {
                    self.own.insert(alias.name.value.clone());
                }
            }
            TableFactor::NestedJoin { .. } | TableFactor::UNNEST { .. } => {}
            _ => return stop("tables are read by their names alone", hint),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> Step {
        if let Some(name) = name.0.first().and_then(|part| part.as_ident()) {
            self.relations.push(name.value.clone());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> Step {
        if let Some(arguments) = sum(expression) {
            let _ = arguments.visit(&mut Names(&mut self.summed));
        }
        if let Expr::BinaryOp { left, op: BinaryOperator::Multiply, right } = expression
            && !is_float(left)
            && !is_float(right)
        {
            let _ = expression.visit(&mut Names(&mut self.multiplied));
        }
        ControlFlow::Continue(())
    }
}

/// What a sum is of, where an expression is one.
fn sum(expression: &Expr) -> Option<&FunctionArguments> {
    let Expr::Function(function) = expression else { return None };
    let name = function.name.0.last()?.as_ident()?;
    name.value.eq_ignore_ascii_case("sum").then_some(&function.args)
}

/// Stops at a sum.
struct HasSum;

impl Visitor for HasSum {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if sum(expression).is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Collects the names of columns.
struct Names<'a>(&'a mut BTreeSet<String>);

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match expression {
            Expr::Identifier(name) => _ = self.0.insert(name.value.clone()),
            Expr::CompoundIdentifier(parts) => self.0.extend(parts.last().map(|name| name.value.clone())),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Whether an expression is a number with a point or an exponent.
fn is_float(expression: &Expr) -> bool {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.contains(['.', 'e', 'E']),
            _ => false,
        },
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_float(inner),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 2] = ["kernels", "runs"];

    fn tables(sql: &str) -> Vec<String> {
        check(sql, &KNOWN).unwrap_or_else(|error| panic!("{sql}: {error}")).tables.into_iter().collect()
    }

    #[test]
    fn questions_pass() {
        for (sql, read) in [
            ("select 1", &[][..]),
            ("SELECT * FROM kernels;", &["kernels"]),
            (
                "with a as (select run from runs) select * from a join kernels using (run)",
                &["kernels", "runs"],
            ),
            ("select * from (select name from kernels) as k", &["kernels"]),
            ("select name from kernels where run in (select run from runs)", &["kernels", "runs"]),
            ("(select name from kernels) union all (select source from runs)", &["kernels", "runs"]),
            ("select a.name from kernels as a, runs as b", &["kernels", "runs"]),
        ] {
            assert_eq!(tables(sql), read, "{sql}");
        }
    }

    #[test]
    fn what_writes_or_reads_elsewhere_is_refused() {
        for sql in [
            "create table x as select * from kernels",
            "drop table kernels",
            "delete from kernels",
            "truncate table kernels",
            "insert into kernels values (1)",
            "update kernels set name = 'x'",
            "copy kernels to 'x.csv'",
            "attach 'x.db' as x",
            "pragma database_list",
            "set x = 1",
            "show tables",
            "explain select 1",
            "select * into x from kernels",
            "select * from read_parquet('/etc/passwd')",
            "select * from read_csv('https://example.com/x.csv')",
            "select * from kernels where run in (select x from read_parquet('x'))",
            "with a as (select * from read_json('x')) select * from a",
            "with a as (delete from kernels returning *) select * from a",
            "select * from table(read_parquet('x'))",
            "select * from main.kernels",
            "select 1; select 2",
            "",
            "selec 1",
        ] {
            let failure = check(sql, &KNOWN).expect_err(sql);
            assert_eq!(failure.code(), Exit::Usage, "{sql}: {failure}");
        }
    }

    #[test]
    fn a_path_is_no_table() {
        for sql in [
            "select * from 'kernels/run=a/part-0.parquet'",
            "select * from \"/etc/passwd\"",
            "select * from kernel",
        ] {
            let failure = check(sql, &KNOWN).expect_err(sql);
            assert!(
                failure.code() != Exit::Done && failure.to_string().contains("kernels"),
                "{sql}: {failure}"
            );
        }
    }

    #[test]
    fn sums_are_found() {
        let sql = "select sum(start_ns), SUM((k.x)), sum(case when y = 1 then a * b end), avg(c * 1.5) from kernels k";
        let checked = check(sql, &KNOWN).unwrap();
        assert_eq!(checked.summed.into_iter().collect::<Vec<_>>(), ["a", "b", "start_ns", "x", "y"]);
        assert_eq!(checked.multiplied.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(!checked.joins);
        let joined = check("select sum(x) from kernels join runs using (run)", &KNOWN).unwrap();
        assert!(joined.joins);
    }
}
