//! What a query may be: one SELECT over the tables of the data set, of forms whose answers are
//! known to be right.
//!
//! The engine knows statements that create and delete tables, functions that read any file, and
//! forms that it answers otherwise than SQL does. So a query is no text that is passed on: what is
//! known is written out again (`exact.rs`), and all else is refused by name.

use std::collections::BTreeSet;

use flopgap_cli::{Exit, Failure};
use sqlparser::ast::{
    BinaryOperator, Distinct, Expr, GroupByExpr, JoinConstraint, JoinOperator, LimitClause, ObjectName,
    OrderBy, OrderByKind, Query, Select, SelectFlavor, SelectItem, SetExpr, SetOperator, SetQuantifier,
    Statement, TableAlias, TableFactor, TableWithJoins, Value,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::{Parser, ParserOptions};

use super::exact::{Exact, quoted};
use super::refusals::{refused, unknown};

/// A query that was found harmless.
#[derive(Debug)]
pub(super) struct Checked {
    /// What the engine is asked.
    pub(super) sql: String,
    /// The tables of the data set that it reads.
    pub(super) tables: BTreeSet<String>,
    /// Columns of which it has sums, and nothing is calculated with whole numbers beside.
    pub(super) summed: BTreeSet<String>,
    /// Whether it calculates with whole numbers: all of them have 38 digits then.
    pub(super) calculates: bool,
}

/// Parses as the engine does.
fn parse(sql: &str) -> Result<Vec<Statement>, Failure> {
    let options = ParserOptions { trailing_commas: true, ..ParserOptions::default() };
    let parser = Parser::new(&GenericDialect).with_options(options).try_with_sql(sql);
    parser
        .and_then(|mut parser| parser.parse_statements())
        .map_err(|error| Failure::new(format!("SQL: {error}")).exit(Exit::Usage))
}

/// Checks a query against the tables of a data set, which have these columns.
pub(super) fn check(
    sql: &str,
    known: &[&str],
    columns: impl Fn(&str) -> Vec<String>,
) -> Result<Checked, Failure> {
    let mut statements = parse(sql)?;
    let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
        return Err(refused("expected one statement", "separate questions are separate calls"));
    };
    let Statement::Query(query) = &statement else {
        let text = statement.to_string();
        let verb = text.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        return Err(changes(&format!("`{verb}` is not a question; only SELECT and WITH … SELECT are")));
    };
    let mut scope = Scope {
        known,
        columns: &columns,
        tables: BTreeSet::new(),
        own: Vec::new(),
        exact: Exact::new(query),
    };
    let sql = scope.query(query)?;
    let Scope { tables, exact, .. } = scope;
    Ok(Checked { sql, tables, summed: exact.summed, calculates: exact.calculates })
}

fn changes(message: &str) -> Failure {
    refused(message, "the files of a data set are never changed by a query")
}

pub(super) fn unknown_table(name: &str, known: &[&str]) -> Failure {
    Failure::new(format!("the data set has no table `{name}`"))
        .hint(format!("it has {}", known.join(", ")))
        .exit(Exit::Absent)
}

/// Refuses what is there and is not known.
fn none(is_none: bool, form: &str) -> Result<(), Failure> {
    if is_none { Ok(()) } else { Err(unknown(form)) }
}

/// The tables that names stand for, and what was found so far.
struct Scope<'a> {
    known: &'a [&'a str],
    columns: &'a dyn Fn(&str) -> Vec<String>,
    tables: BTreeSet<String>,
    /// Tables that the query makes for itself with WITH, and their columns, where these are named.
    own: Vec<(String, Option<Vec<String>>)>,
    exact: Exact,
}

impl Scope<'_> {
    fn query(&mut self, query: &Query) -> Result<String, Failure> {
        none(query.fetch.is_none(), "FETCH")?;
        none(query.locks.is_empty() && query.for_clause.is_none(), "FOR")?;
        none(query.settings.is_none() && query.format_clause.is_none(), "SETTINGS, FORMAT")?;
        none(query.pipe_operators.is_empty(), "|>")?;
        let outside = self.own.len();
        let mut with = Vec::new();
        if let Some(tables) = &query.with {
            none(!tables.recursive, "WITH RECURSIVE")?;
            for table in &tables.cte_tables {
                none(table.from.is_none() && table.materialized.is_none(), "MATERIALIZED")?;
                let name = self.alias(&table.alias)?;
                if self.own.iter().any(|(own, _)| *own == table.alias.name.value) {
                    return Err(refused(
                        &format!("`{name}` is the name of two tables of this query"),
                        "rename one",
                    ));
                }
                with.push(format!("{name} as ({})", self.query(&table.query)?));
                self.own.push((table.alias.name.value.clone(), named_columns(&table.query.body)));
                self.exact.calculates = true;
            }
        }
        let body = self.body(&query.body)?;
        let is_limited = query.limit_clause.is_some();
        let order = query.order_by.as_ref();
        let order = order.map(|order| self.order(order, &query.body, is_limited)).transpose()?;
        let limit = query.limit_clause.as_ref().map(limit).transpose()?;
        self.own.truncate(outside);
        let with = if with.is_empty() { String::new() } else { format!("with {} ", with.join(", ")) };
        Ok(format!("{with}{body}{}{}", order.unwrap_or_default(), limit.unwrap_or_default()))
    }

    fn body(&mut self, body: &SetExpr) -> Result<String, Failure> {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => Ok(format!("({})", self.query(query)?)),
            SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } => {
                let all = match set_quantifier {
                    SetQuantifier::All => "all ",
                    SetQuantifier::Distinct | SetQuantifier::None => "",
                    other => return Err(unknown(format!("UNION {other}"))),
                };
                self.exact.calculates = true;
                Ok(format!("{} union {all}{}", self.body(left)?, self.body(right)?))
            }
            SetExpr::SetOperation { op, .. } => Err(unknown(op)),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(changes("only SELECT is a question"))
            }
            SetExpr::Values(_) | SetExpr::Table(_) => Err(unknown("VALUES, TABLE")),
        }
    }

    fn select(&mut self, select: &Select) -> Result<String, Failure> {
        if select.into.is_some() {
            let hint = "write the answer to a file with --output";
            return Err(refused("`SELECT … INTO` would write a table", hint));
        }
        none(select.top.is_none() && select.select_modifiers.is_none(), "TOP")?;
        none(select.exclude.is_none(), "EXCLUDE")?;
        none(select.lateral_views.is_empty() && select.prewhere.is_none(), "LATERAL VIEW, PREWHERE")?;
        none(select.connect_by.is_empty(), "CONNECT BY")?;
        none(select.cluster_by.is_empty() && select.distribute_by.is_empty(), "CLUSTER BY, DISTRIBUTE BY")?;
        none(select.sort_by.is_empty(), "SORT BY")?;
        none(select.named_window.is_empty() && select.qualify.is_none(), "WINDOW, QUALIFY")?;
        none(select.value_table_mode.is_none(), "SELECT AS")?;
        none(matches!(select.flavor, SelectFlavor::Standard), "FROM without SELECT")?;
        let distinct = match &select.distinct {
            None | Some(Distinct::All) => "",
            Some(Distinct::Distinct) => "distinct ",
            Some(Distinct::On(_)) => return Err(unknown("DISTINCT ON")),
        };
        let from: Vec<String> = select.from.iter().map(|from| self.from(from)).collect::<Result<_, _>>()?;
        let is_joined = select.from.len() > 1 || select.from.iter().any(|from| !from.joins.is_empty());
        self.exact.calculates |= is_joined;
        let keys = group_keys(select)?;
        check_aggregates(select, &keys)?;
        self.check_aliases(select, &keys)?;
        let items: Vec<String> =
            select.projection.iter().map(|item| self.item(item, is_joined)).collect::<Result<_, _>>()?;
        let mut sql = vec![format!("select {distinct}{}", items.join(", "))];
        if !from.is_empty() {
            sql.push(format!("from {}", from.join(", ")));
        }
        if let Some(condition) = &select.selection {
            sql.push(format!("where {}", self.condition(condition)?));
        }
        if !keys.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| self.exact.expr(key)).collect::<Result<_, _>>()?;
            sql.push(format!("group by {}", keys.join(", ")));
        }
        if let Some(condition) = &select.having {
            sql.push(format!("having {}", self.exact.expr(condition)?));
        }
        Ok(sql.join(" "))
    }

    /// A column of the answer; one that is calculated is called as it was asked for.
    fn item(&mut self, item: &SelectItem, is_joined: bool) -> Result<String, Failure> {
        match item {
            SelectItem::UnnamedExpr(expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) => {
                self.exact.expr(expr)
            }
            SelectItem::UnnamedExpr(expr) => {
                Ok(format!("{} as {}", self.exact.expr(expr)?, quoted(&expr.to_string())))
            }
            SelectItem::ExprWithAlias { expr, alias } => Ok(format!("{} as {alias}", self.exact.expr(expr)?)),
            SelectItem::Wildcard(options) if options.to_string().is_empty() => {
                if is_joined {
                    let hint = "name the columns";
                    return Err(refused("`*` over several tables has columns of one name", hint));
                }
                Ok("*".to_owned())
            }
            other => Err(unknown(other)),
        }
    }

    fn from(&mut self, from: &TableWithJoins) -> Result<String, Failure> {
        let mut sql = vec![self.factor(&from.relation)?];
        for join in &from.joins {
            none(!join.global, "GLOBAL JOIN")?;
            let (how, constraint) = match &join.join_operator {
                JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => ("join", constraint),
                JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
                    ("left join", constraint)
                }
                JoinOperator::CrossJoin(constraint) => ("cross join", constraint),
                other => {
                    let name = format!("{other:?}");
                    return Err(unknown(format!("{} JOIN", name.split('(').next().unwrap_or_default())));
                }
            };
            let right = self.factor(&join.relation)?;
            let constraint = match constraint {
                JoinConstraint::On(condition) => {
                    check_condition(condition)?;
                    format!(" on {condition}")
                }
                JoinConstraint::Using(names) => {
                    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
                    format!(" using ({})", names.join(", "))
                }
                JoinConstraint::Natural => return Err(unknown("NATURAL JOIN")),
                JoinConstraint::None if how == "cross join" => String::new(),
                JoinConstraint::None => return Err(unknown("JOIN without a condition")),
            };
            sql.push(format!("{how} {right}{constraint}"));
        }
        Ok(sql.join(" "))
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<String, Failure> {
        let hint = "name a table of the data set; `flopgap table query DIR` lists them";
        match factor {
            TableFactor::Table { args: None, name, alias, .. } if name.0.len() == 1 => {
                let plain = TableFactor::Table {
                    name: name.clone(),
                    alias: alias.clone(),
                    args: None,
                    with_hints: Vec::new(),
                    version: None,
                    with_ordinality: false,
                    partitions: Vec::new(),
                    json_path: None,
                    sample: None,
                    index_hints: Vec::new(),
                };
                none(plain == *factor, "a table with hints or a sample")?;
                self.table(name)?;
                let alias = alias.as_ref().map(|alias| self.alias(alias)).transpose()?;
                Ok(format!("{name}{}", alias.map(|alias| format!(" as {alias}")).unwrap_or_default()))
            }
            TableFactor::Table { args: None, name, .. } => {
                Err(refused(&format!("`{name}`: tables have one name, without a schema"), hint))
            }
            TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
                Err(refused(&format!("`{name}` would read files beside the data set"), hint))
            }
            TableFactor::Derived { lateral: false, subquery, alias, sample: None } => {
                self.exact.calculates = true;
                let sql = self.query(subquery)?;
                let alias = alias.as_ref().map(|alias| self.alias(alias)).transpose()?;
                Ok(format!("({sql}) as {}", alias.unwrap_or_else(|| "unnamed".to_owned())))
            }
            _ => Err(refused("tables are read by their names alone", hint)),
        }
    }

    fn table(&mut self, name: &ObjectName) -> Result<(), Failure> {
        let name = name_of(name);
        if self.own.iter().any(|(own, _)| own == name) {
            return Ok(());
        }
        if !self.known.contains(&name) {
            return Err(unknown_table(name, self.known));
        }
        self.tables.insert(name.to_owned());
        Ok(())
    }

    /// The name of a table within a query. One of the data set would stand for two tables.
    fn alias(&self, alias: &TableAlias) -> Result<String, Failure> {
        let name = &alias.name;
        none(
            alias.to_string().trim_start_matches("AS ") == name.to_string(),
            "names of columns of an alias",
        )?;
        if self.known.contains(&name.value.as_str()) {
            let message = format!("`{name}` is a table of the data set");
            return Err(refused(&message, "give it another name in the query"));
        }
        Ok(name.to_string())
    }

    /// Refuses a name after GROUP BY, HAVING or ORDER BY that is both a column and something else
    /// of the answer: engines choose differently.
    fn check_aliases(&self, select: &Select, keys: &[Expr]) -> Result<(), Failure> {
        let mut names = BTreeSet::new();
        keys.iter().chain(&select.having).for_each(|expr| Exact::names(expr, &mut names));
        for item in &select.projection {
            let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
            if names.contains(&alias.value)
                && !is_column(expr, &alias.value)
                && self.is_ambiguous(select, &alias.value)
            {
                return Err(ambiguous(&alias.value));
            }
        }
        Ok(())
    }

    /// Whether a column of a table that is read could be meant.
    fn is_ambiguous(&self, select: &Select, name: &str) -> bool {
        let joined = select.from.iter().flat_map(|from| &from.joins).map(|join| &join.relation);
        select.from.iter().map(|from| &from.relation).chain(joined).any(|table| {
            self.columns_of(table).is_none_or(|columns| columns.iter().any(|column| column == name))
        })
    }

    /// The columns of a table that is read; none where they are not known.
    fn columns_of(&self, table: &TableFactor) -> Option<Vec<String>> {
        match table {
            TableFactor::Derived { subquery, .. } => named_columns(&subquery.body),
            TableFactor::Table { name, .. } => {
                let name = name_of(name);
                let own = self.own.iter().find(|(own, _)| own == name);
                own.map_or_else(|| Some((self.columns)(name)), |(_, columns)| columns.clone())
            }
            _ => None,
        }
    }

    /// The order of the rows; what is absent comes last.
    fn order(&mut self, order: &OrderBy, body: &SetExpr, is_limited: bool) -> Result<String, Failure> {
        none(order.interpolate.is_none(), "INTERPOLATE")?;
        let OrderByKind::Expressions(keys) = &order.kind else { return Err(unknown("ORDER BY ALL")) };
        let select = body.as_select();
        let is_grouped = select.is_none_or(|select| {
            select.distinct.is_some()
                || !group_keys(select).unwrap_or_default().is_empty()
                || select.projection.iter().filter_map(expression).any(Exact::aggregates)
        });
        let mut written = Vec::new();
        for key in keys {
            none(key.with_fill.is_none(), "WITH FILL")?;
            let named = select.map(|select| select.projection.as_slice()).unwrap_or_default();
            let is_item = |item: &&SelectItem| match item {
                SelectItem::ExprWithAlias { alias, .. } => key.expr == Expr::Identifier(alias.clone()),
                SelectItem::UnnamedExpr(expr) => *expr == key.expr && matches!(expr, Expr::Identifier(_)),
                _ => false,
            };
            let item = named.iter().find(is_item);
            if let (Some(SelectItem::ExprWithAlias { expr, alias }), Some(select)) = (item, select)
                && !is_column(expr, &alias.value)
                && self.is_ambiguous(select, &alias.value)
            {
                return Err(ambiguous(&alias.value));
            }
            let is_place =
                matches!(&key.expr, Expr::Value(value) if matches!(value.value, Value::Number(..)));
            if is_grouped && select.is_some() && item.is_none() && !is_place {
                let hint = "name the column with AS, and order by its name";
                return Err(refused(&format!("`ORDER BY {}` is no column of the answer", key.expr), hint));
            }
            let by = if is_place { key.expr.to_string() } else { self.exact.expr(&key.expr)? };
            let direction = if key.options.asc == Some(false) { "desc" } else { "asc" };
            let nulls = if key.options.nulls_first == Some(true) { "first" } else { "last" };
            written.push(format!("{by} {direction} nulls {nulls}"));
        }
        // The engine stops at a limit by one key of 38 digits, and knows several. This one changes
        // nothing: it is the same wherever the first is.
        if let ([key], true) = (keys.as_slice(), is_limited) {
            let place = key.expr.to_string().parse::<usize>().ok().and_then(|place| place.checked_sub(1));
            let named = || named_columns(body)?.get(place?).map(|name| quoted(name));
            let by = if place.is_some() { named() } else { Some(self.exact.expr(&key.expr)?) };
            written.extend(by.map(|by| format!("({by}) is null")));
        }
        Ok(format!(" order by {}", written.join(", ")))
    }

    /// A condition of WHERE, where rows may be looked up in another table.
    fn condition(&mut self, expr: &Expr) -> Result<String, Failure> {
        match expr {
            Expr::InSubquery { expr, subquery, negated: false } => {
                let place = self.exact.expr(expr)?;
                Ok(format!("{place} in ({})", self.query(subquery)?))
            }
            Expr::InSubquery { .. } => {
                let hint = "an absent value in the list would leave no rows: use a LEFT JOIN";
                Err(refused("`NOT IN (SELECT …)` is not answered here", hint))
            }
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                Ok(format!("({}) and ({})", self.condition(left)?, self.condition(right)?))
            }
            Expr::Nested(inner) => Ok(format!("({})", self.condition(inner)?)),
            _ => self.exact.expr(expr),
        }
    }
}

/// Refuses columns that have no single value in a row of the answer, and sums where there are
/// none.
fn check_aggregates(select: &Select, keys: &[Expr]) -> Result<(), Failure> {
    if let Some(condition) = &select.selection
        && Exact::aggregates(condition)
    {
        return Err(refused("a condition of WHERE on a sum", "conditions on sums follow HAVING"));
    }
    none(select.having.is_none() || !keys.is_empty(), "HAVING without GROUP BY")?;
    if select.from.is_empty() && (select.selection.is_some() || !keys.is_empty()) {
        return Err(unknown("a condition without FROM"));
    }
    let of_rows = select.projection.iter().map(expression);
    let is_grouped = !keys.is_empty() || of_rows.clone().flatten().any(Exact::aggregates);
    if !is_grouped {
        return Ok(());
    }
    none(!select.from.is_empty(), "an aggregate without FROM")?;
    for item in of_rows {
        let Some(item) = item else { return Err(unknown("* beside GROUP BY or an aggregate")) };
        Exact::check_group(item, keys)?;
    }
    select.having.iter().try_for_each(|having| Exact::check_group(having, keys))
}

/// The name of a table, without quotes.
fn name_of(name: &ObjectName) -> &str {
    name.0.first().and_then(|part| part.as_ident()).map_or("", |name| name.value.as_str())
}

fn ambiguous(name: &str) -> Failure {
    refused(&format!("`{name}` is a column and the name of another one of the answer"), "rename it with AS")
}

/// What the columns of an answer are called; none where it has all of a table.
fn named_columns(body: &SetExpr) -> Option<Vec<String>> {
    match body {
        SetExpr::Select(select) => {
            let names = select.projection.iter().map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => Some(parts.last()?.value.clone()),
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.value.clone()),
                SelectItem::UnnamedExpr(expr) => Some(expr.to_string()),
                _ => None,
            });
            names.collect()
        }
        SetExpr::SetOperation { left, .. } => named_columns(left),
        SetExpr::Query(query) => named_columns(&query.body),
        _ => None,
    }
}

/// What a column of the answer is; none for all columns.
fn expression(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Whether an expression is the column of this name.
fn is_column(expr: &Expr, name: &str) -> bool {
    match expr {
        Expr::Identifier(own) => own.value == name,
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|own| own.value == name),
        _ => false,
    }
}

/// What rows are grouped by: places are replaced by what stands there, and names of the answer by
/// what they name.
fn group_keys(select: &Select) -> Result<Vec<Expr>, Failure> {
    let GroupByExpr::Expressions(keys, modifiers) = &select.group_by else {
        return Err(unknown("GROUP BY ALL"));
    };
    none(modifiers.is_empty(), "ROLLUP, CUBE")?;
    keys.iter()
        .map(|key| match key {
            Expr::Value(value) => {
                let place =
                    value.value.to_string().parse::<usize>().ok().and_then(|place| place.checked_sub(1));
                let item = place.and_then(|place| select.projection.get(place)).and_then(expression);
                item.cloned().ok_or_else(|| unknown(format!("GROUP BY {key}")))
            }
            Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_) => Err(unknown(key)),
            Expr::Identifier(name) => {
                let named = select.projection.iter().find_map(|item| match item {
                    SelectItem::ExprWithAlias { expr, alias } if alias == name => Some(expr.clone()),
                    _ => None,
                });
                Ok(named.unwrap_or_else(|| key.clone()))
            }
            _ => Ok(key.clone()),
        })
        .collect()
}

/// Refuses conditions of joins but equal columns.
fn check_condition(condition: &Expr) -> Result<(), Failure> {
    use sqlparser::ast::BinaryOperator::{And, Eq};
    match condition {
        Expr::Nested(inner) => check_condition(inner),
        Expr::BinaryOp { left, op: And, right } => {
            check_condition(left).and_then(|()| check_condition(right))
        }
        Expr::BinaryOp { left, op: Eq, right }
            if [left, right].iter().all(|side| matches!(&***side, Expr::CompoundIdentifier(_))) =>
        {
            Ok(())
        }
        other => Err(unknown(format!("JOIN … ON {other}"))),
    }
}

fn limit(clause: &LimitClause) -> Result<String, Failure> {
    let LimitClause::LimitOffset { limit, offset, limit_by } = clause else {
        return Err(unknown("LIMIT with a comma"));
    };
    none(limit_by.is_empty(), "LIMIT BY")?;
    let number = |expr: &Expr| match expr {
        Expr::Value(value) if matches!(value.value, Value::Number(..)) => Ok(expr.to_string()),
        other => Err(unknown(format!("LIMIT {other}"))),
    };
    let limit = limit.as_ref().map(number).transpose()?;
    let offset = offset.as_ref().map(|offset| number(&offset.value)).transpose()?;
    none(limit.is_some() || offset.is_none(), "OFFSET without LIMIT")?;
    Ok(limit.map(|limit| format!(" limit {limit}")).unwrap_or_default()
        + &offset.map(|offset| format!(" offset {offset}")).unwrap_or_default())
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
