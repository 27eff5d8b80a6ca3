//! Expressions, spelled so that the engine's answer is that of SQL.
//!
//! The engine adds, subtracts and multiplies whole numbers in 32 or 64 bits and wraps around
//! silently; its counts and lengths have 32 bits without a sign. So a query that calculates
//! sees whole numbers as decimal numbers of 38 digits, which are checked: columns (`data.rs`),
//! numbers of the query, counts and lengths. The sum of nothing is absent, and so is what is
//! divided by 0.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use flopgap_cli::Failure;
use sqlparser::ast::{
    BinaryOperator, CastKind, CeilFloorKind, DataType, DateTimeField, DuplicateTreatment, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArguments, Query, UnaryOperator, Value, Visit as _, Visitor,
};

use super::refusals::{refused, unknown};

/// What the expressions of a query do.
#[derive(Debug, Default)]
pub(super) struct Exact {
    /// Columns of which there are sums.
    pub(super) summed: BTreeSet<String>,
    /// Whether whole numbers meet in anything but a comparison or the sum of a column.
    pub(super) calculates: bool,
    /// Whether there are products, whose sums can leave 38 digits.
    multiplies: bool,
}

impl Exact {
    pub(super) fn new(query: &Query) -> Exact {
        let is_product = |expr: &Expr| matches!(expr, Expr::BinaryOp { op: BinaryOperator::Multiply, .. });
        Exact { multiplies: query.visit(&mut Find(is_product)).is_break(), ..Exact::default() }
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> Result<String, Failure> {
        match expr {
            Expr::Identifier(_) => Ok(expr.to_string()),
            Expr::CompoundIdentifier(parts) if parts.len() == 2 => Ok(expr.to_string()),
            Expr::Value(value) => number_or_text(&value.value),
            Expr::Nested(inner) => Ok(format!("({})", self.expr(inner)?)),
            Expr::IsNull(inner) => Ok(format!("({}) is null", self.expr(inner)?)),
            Expr::IsNotNull(inner) => Ok(format!("({}) is not null", self.expr(inner)?)),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => Ok(format!("(not ({}))", self.expr(expr)?)),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => self.negative(expr),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::Between { expr, negated, low, high } => {
                let (value, low, high) = (self.expr(expr)?, self.expr(low)?, self.expr(high)?);
                let (not, end) = if *negated { ("(not (", "))") } else { ("(", ")") };
                Ok(format!("{not}({value}) >= {low} and ({value}) <= {high}{end}"))
            }
            // The engine compares lists in types of its own.
            Expr::InList { expr, list, negated } => {
                let value = self.expr(expr)?;
                let each: Vec<String> = list
                    .iter()
                    .map(|item| Ok(format!("({value}) = {}", self.expr(item)?)))
                    .collect::<Result<_, Failure>>()?;
                if each.is_empty() {
                    return Err(unknown("IN ()"));
                }
                let any = each.join(" or ");
                Ok(if *negated { format!("(not ({any}))") } else { format!("({any})") })
            }
            Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(*negated, "like", expr, pattern)
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(*negated, "ilike", expr, pattern)
            }
            Expr::Case { operand: None, conditions, else_result, .. } => {
                self.calculates = true;
                let branches: Vec<String> = conditions
                    .iter()
                    .map(|when| {
                        let (condition, result) = (self.expr(&when.condition)?, self.expr(&when.result)?);
                        Ok(format!("when {condition} then {result}"))
                    })
                    .collect::<Result<_, Failure>>()?;
                // Said, so that the types of the branches meet.
                let other = else_result.as_ref().map(|other| self.expr(other)).transpose()?;
                let other = other.unwrap_or_else(|| "null".to_owned());
                Ok(format!("(case {} else {other} end)", branches.join(" ")))
            }
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => self.cast(expr, data_type),
            Expr::Substring { expr: text, substring_from: Some(from), substring_for, .. } => {
                let place = |expr: &Expr| match expr {
                    Expr::Value(value) => match value.value.to_string().parse::<u32>() {
                        Ok(number) if number > 0 => Ok(number.to_string()),
                        _ => Err(unknown(format!("SUBSTR at {expr}"))),
                    },
                    _ => Err(unknown(format!("SUBSTR at {expr}"))),
                };
                let (text, from) = (self.expr(text)?, place(from)?);
                let length = substring_for.as_ref().map(|length| place(length)).transpose()?;
                Ok(format!(
                    "substr({text}, {from}{})",
                    length.map(|length| format!(", {length}")).unwrap_or_default()
                ))
            }
            Expr::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                self.real("floor", expr)
            }
            Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                self.real("ceil", expr)
            }
            Expr::Function(function) => self.function(function),
            other => Err(unknown(other)),
        }
    }

    fn negative(&mut self, expr: &Expr) -> Result<String, Failure> {
        if let Expr::Value(value) = expr
            && let Value::Number(number, _) = &value.value
        {
            return written(&format!("-{number}"));
        }
        self.calculates = true;
        Ok(format!("({} - {})", exact("0"), self.expr(expr)?))
    }

    fn binary(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<String, Failure> {
        let (a, b) = (self.expr(left)?, self.expr(right)?);
        match op {
            BinaryOperator::And
            | BinaryOperator::Or
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::StringConcat => Ok(format!("(({a}) {op} ({b}))")),
            BinaryOperator::PGRegexMatch if is_text(right) => Ok(format!("(({a}) ~ {b})")),
            BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply => {
                self.calculates = true;
                Ok(format!("(({a}) {op} ({b}))"))
            }
            BinaryOperator::Divide => {
                self.calculates = true;
                let (a, b) = (real(&a), real(&b));
                Ok(format!("(case when {b} <> 0.0 then {a} / {b} else null end)"))
            }
            other => Err(unknown(other)),
        }
    }

    fn like(&mut self, negated: bool, how: &str, expr: &Expr, pattern: &Expr) -> Result<String, Failure> {
        if !is_text(pattern) || pattern.to_string().contains('\\') {
            return Err(unknown(format!("LIKE {pattern}")));
        }
        let not = if negated { "not " } else { "" };
        Ok(format!("(({}) {not}{how} {pattern})", self.expr(expr)?))
    }

    fn cast(&mut self, expr: &Expr, kind: &DataType) -> Result<String, Failure> {
        let name = kind.to_string().to_ascii_lowercase();
        match name.as_str() {
            "double" | "double precision" | "float8" => {
                self.calculates = true;
                Ok(real(&self.expr(expr)?))
            }
            "varchar" | "text" | "string" => Ok(format!("cast({} as varchar)", self.expr(expr)?)),
            _ => Err(refused(
                &format!("`CAST … AS {kind}` is not answered here"),
                "whole numbers are exact without it; DOUBLE and VARCHAR are known",
            )),
        }
    }

    /// A function of real numbers.
    fn real(&mut self, name: &str, expr: &Expr) -> Result<String, Failure> {
        self.calculates = true;
        Ok(format!("{name}({})", real(&self.expr(expr)?)))
    }

    fn function(&mut self, function: &Function) -> Result<String, Failure> {
        let name = function.name.to_string().to_ascii_lowercase();
        if function.over.is_some() {
            return Err(unknown(format!("{} … OVER", name.to_uppercase())));
        }
        if function.filter.is_some() {
            let hint = "write sum(case when … then … end)";
            return Err(refused("`FILTER` is not answered here", hint));
        }
        let (arguments, distinct) = arguments(function).ok_or_else(|| unknown(function))?;
        if distinct && name != "count" {
            return Err(unknown(format!("{name}(distinct …)")));
        }
        match (name.as_str(), arguments.as_slice()) {
            ("count", [None]) if !distinct => Ok(exact("count(*)")),
            ("count", [Some(Expr::Value(value))]) if !distinct && value.value != Value::Null => {
                Ok(exact("count(*)"))
            }
            (name, [Some(expr)]) if is_aggregate(name) => self.aggregate(name, expr, distinct),
            ("lower" | "upper", [Some(text)]) => Ok(format!("{name}({})", self.expr(text)?)),
            ("length" | "char_length" | "character_length", [Some(text)]) => {
                self.calculates = true;
                Ok(exact(&format!("length({})", self.expr(text)?)))
            }
            ("starts_with", [Some(text), Some(start)]) if is_text(start) => {
                Ok(format!("starts_with({}, {start})", self.expr(text)?))
            }
            ("coalesce", [Some(_), ..]) => {
                self.calculates = true;
                let all: Vec<String> =
                    arguments.iter().flatten().map(|expr| self.expr(expr)).collect::<Result<_, _>>()?;
                Ok(format!("coalesce({})", all.join(", ")))
            }
            ("nullif", [Some(a), Some(b)]) => {
                self.calculates = true;
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                Ok(format!("(case when ({a}) = ({b}) then null else {a} end)"))
            }
            ("abs", [Some(value)]) => {
                self.calculates = true;
                let (value, zero) = (self.expr(value)?, exact("0"));
                Ok(format!("(case when ({value}) < 0 then {zero} - ({value}) else {value} end)"))
            }
            ("sqrt" | "ln" | "log10" | "exp", [Some(value)]) => self.real(&name, value),
            ("round", [Some(value)]) => self.real("round", value),
            ("round", [Some(value), Some(Expr::Value(digits))])
                if digits.value.to_string().parse::<u8>().is_ok() =>
            {
                self.calculates = true;
                Ok(format!("round({}, {})", real(&self.expr(value)?), digits.value))
            }
            _ => Err(unknown(function)),
        }
    }

    /// An aggregate of values: absent where there are none.
    fn aggregate(&mut self, name: &str, expr: &Expr, distinct: bool) -> Result<String, Failure> {
        if expr.visit(&mut Find(|inner: &Expr| aggregate_of(inner))).is_break() {
            return Err(unknown(format!("an aggregate within {name}(…)")));
        }
        let mut names = BTreeSet::new();
        Exact::names(expr, &mut names);
        if names.is_empty() {
            let hint = "rows are counted by count(*)";
            return Err(refused(&format!("`{name}({expr})` is an aggregate of no column"), hint));
        }
        if name == "sum" {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.summed.extend(names),
                _ => self.calculates = true,
            }
        }
        let value = self.expr(expr)?;
        Ok(match name {
            "count" if distinct => exact(&format!("count(distinct {value})")),
            "count" => exact(&format!("count({value})")),
            "sum" => {
                let check = if self.multiplies {
                    // Fails where the sum has more than 38 digits.
                    format!(" + {} * {}", exact("0"), exact(&format!("sum({})", real(&value))))
                } else {
                    String::new()
                };
                format!("(case when count({value}) > 0 then sum({value}){check} else null end)")
            }
            "min" | "max" => format!("{name}({value})"),
            _ => {
                self.calculates = true;
                format!("{name}({})", real(&value))
            }
        })
    }

    /// Whether an expression has an aggregate.
    pub(super) fn aggregates(expr: &Expr) -> bool {
        expr.visit(&mut Find(|inner: &Expr| aggregate_of(inner))).is_break()
    }

    /// Refuses columns that are neither within an aggregate nor what rows are grouped by.
    pub(super) fn check_group(expr: &Expr, keys: &[Expr]) -> Result<(), Failure> {
        let is_key = |expr: &Expr| keys.iter().any(|key| key == expr || is_same_column(key, expr));
        let mut walk = Ungrouped { is_key: &is_key, within: 0, found: None };
        let _ = expr.visit(&mut walk);
        match walk.found {
            None => Ok(()),
            Some(column) => {
                let hint = "group by it, or choose a value with min or max";
                Err(refused(&format!("`{column}` has several values in a group"), hint))
            }
        }
    }

    /// Adds the names of the columns of an expression.
    pub(super) fn names(expr: &Expr, names: &mut BTreeSet<String>) {
        let _ = expr.visit(&mut Find(|inner: &Expr| {
            match inner {
                Expr::Identifier(name) => _ = names.insert(name.value.clone()),
                Expr::CompoundIdentifier(parts) => names.extend(parts.last().map(|name| name.value.clone())),
                _ => {}
            }
            false
        }));
    }
}

/// Whether two names are of one column: with and without its table.
fn is_same_column(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Identifier(name), Expr::CompoundIdentifier(parts))
        | (Expr::CompoundIdentifier(parts), Expr::Identifier(name)) => parts.last() == Some(name),
        _ => false,
    }
}

/// A name of SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A whole number as one of 38 digits.
fn exact(value: &str) -> String {
    format!("cast({value} as decimal(38, 0))")
}

/// A number as a real one.
fn real(value: &str) -> String {
    format!("cast({value} as double)")
}

/// A number of the query.
fn written(number: &str) -> Result<String, Failure> {
    if number.contains(['.', 'e', 'E']) {
        let value: f64 = number.parse().map_err(|_| unknown(number))?;
        // The engine knows a real number by its point, and takes one beside a decimal for another.
        let text = format!("{value:?}");
        let is_plain = text.contains('.') && !text.contains('e');
        return if is_plain { Ok(real(&text)) } else { Err(unknown(number)) };
    }
    number.parse::<i64>().map_err(|_| unknown(number))?;
    Ok(exact(number))
}

fn number_or_text(value: &Value) -> Result<String, Failure> {
    match value {
        Value::Number(number, _) => written(number),
        Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null => Ok(value.to_string()),
        other => Err(unknown(other)),
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

fn is_aggregate(name: &str) -> bool {
    ["count", "sum", "avg", "min", "max", "median", "stddev", "stddev_samp", "variance", "var_samp"]
        .contains(&name)
}

fn aggregate_of(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if is_aggregate(&function.name.to_string().to_ascii_lowercase()))
}

/// The arguments of a function, none for `*`, and whether only distinct ones are meant; nothing
/// where it has others than that.
fn arguments(function: &Function) -> Option<(Vec<Option<&Expr>>, bool)> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = list.clauses.is_empty()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
        && !function.uses_odbc_syntax
        && function.parameters == FunctionArguments::None;
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(Some(expr)),
        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => Some(None),
        _ => None,
    });
    let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    arguments.collect::<Option<Vec<_>>>().filter(|_| plain).map(|arguments| (arguments, distinct))
}

/// Stops at the first expression of a kind.
struct Find<F>(F);

impl<F: FnMut(&Expr) -> bool> Visitor for Find<F> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if (self.0)(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Finds a column outside of aggregates and of what rows are grouped by.
struct Ungrouped<'a> {
    is_key: &'a dyn Fn(&Expr) -> bool,
    /// How many aggregates and keys are open.
    within: usize,
    found: Option<String>,
}

impl Visitor for Ungrouped<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if aggregate_of(expr) || (self.is_key)(expr) {
            self.within += 1;
        }
        if self.within == 0 && matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
            self.found = Some(expr.to_string());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if aggregate_of(expr) || (self.is_key)(expr) {
            self.within -= 1;
        }
        ControlFlow::Continue(())
    }
}
