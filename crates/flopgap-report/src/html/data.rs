//! The explorer's data as JSON that can stand inside a script element.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Explorer, Point};
use crate::palette::{self, ramp_stops};
use crate::scale::{Scale, ValueSpacing};
use crate::{ReportError, numbers::ValueFormat, surface::AxisLabel};

#[derive(Serialize)]
struct Label<'a> {
    label: &'a str,
    unit: &'a str,
}

impl<'a> From<&'a AxisLabel> for Label<'a> {
    fn from(label: &'a AxisLabel) -> Self {
        Self { label: &label.label, unit: label.unit.as_deref().unwrap_or_default() }
    }
}

/// The JSON for the page's script: `null` when there is nothing to explore.
pub(super) fn script_json(explorer: Option<&Explorer>) -> Result<String, ReportError> {
    let Some(explorer) = explorer.filter(|explorer| !explorer.metrics.is_empty()) else {
        return Ok("null".to_owned());
    };
    let mut options: Vec<Options<'_>> = explorer.selectors.iter().map(|_| Options::default()).collect();
    let mut places = HashSet::new();
    let mut rows = Vec::with_capacity(explorer.points.len());
    for point in &explorer.points {
        check(explorer, point)?;
        let chosen: Vec<usize> =
            options.iter_mut().zip(&point.selection).map(|(options, choice)| options.index(choice)).collect();
        // Adding zero makes both zeros one place.
        if !places.insert((chosen.clone(), (point.x + 0.0).to_bits(), (point.y + 0.0).to_bits())) {
            return Err(invalid(format!("there are two points at {}", place(explorer, point))));
        }
        let mut row: Vec<Value> = chosen.into_iter().map(Value::from).collect();
        row.extend([number(point.x), number(point.y)]);
        row.extend(point.values.iter().map(|value| value.map_or(Value::Null, number)));
        rows.push(row);
    }
    let selectors: Vec<Value> = explorer
        .selectors
        .iter()
        .zip(&options)
        .map(|(label, options)| json!({ "label": label, "options": options.names }))
        .collect();
    let metrics: Vec<Value> = explorer
        .metrics
        .iter()
        .enumerate()
        .map(|(index, metric)| {
            let values = explorer.points.iter().filter_map(|point| point.values[index]);
            json!({
                "label": metric.label.label,
                "unit": metric.label.unit.as_deref().unwrap_or_default(),
                "explanation": metric.explanation,
                "percent": metric.format == ValueFormat::Percent,
                "lines": metric.lines,
                "scale": Scale::of(values, metric.format).as_ref().map(scale_json),
            })
        })
        .collect();
    // Causes of what was expected come first, so that one number separates them from the others.
    let (mut causes, mut labels, mut details) = (Options::default(), Options::default(), Options::default());
    let all = || explorer.points.iter().flat_map(|point| &point.steps);
    for step in all().filter(|step| step.expected) {
        causes.index(&step.cause);
    }
    let expected = causes.names.len();
    if let Some(step) = all().find(|step| !step.expected && causes.indices.contains_key(step.cause.as_str()))
    {
        return Err(invalid(format!(
            "the cause `{}` is expected in one step and not in another",
            step.cause
        )));
    }
    let steps: Vec<Vec<Value>> = explorer
        .points
        .iter()
        .map(|point| {
            let of_point = point.steps.iter().map(|step| {
                let indices =
                    [causes.index(&step.cause), labels.index(&step.label), details.index(&step.detail)];
                json!([indices[0], indices[1], indices[2], step.times, exact_integer(step.amount)])
            });
            of_point.collect()
        })
        .collect();
    let indices = |is: fn(&Point) -> bool| -> Vec<usize> {
        let points = explorer.points.iter().enumerate();
        points.filter(|(_, point)| is(point)).map(|(index, _)| index).collect()
    };
    let json = serde_json::to_string(&json!({
        "x": Label::from(&explorer.x),
        "y": Label::from(&explorer.y),
        "selectors": selectors,
        "metrics": metrics,
        "ramp": ramp_stops(),
        "line": hex(palette::LINE),
        "lines": explorer.lines,
        "lined": indices(|point| point.line),
        "refused": indices(|point| point.refused.is_some()),
        "reasons": explorer.points.iter().filter_map(|point| point.refused.as_deref()).collect::<Vec<_>>(),
        "total": explorer.total.as_ref().map(Label::from),
        "causes": causes.names,
        "expected": expected,
        "labels": labels.names,
        "details": details.names,
        "steps": steps,
        "points": rows,
    }))
    .map_err(ReportError::json)?;
    Ok(inside_script(&json))
}

/// A scale as `scale.js` reads it.
fn scale_json(scale: &Scale) -> Value {
    let (spacing, linear, factor) = match scale.spacing {
        ValueSpacing::Linear => ("linear", None, None),
        ValueSpacing::Log => ("log", None, None),
        ValueSpacing::SymLog { linear, factor } => ("symlog", Some(linear), Some(factor)),
    };
    json!({
        "spacing": spacing,
        "linear": linear,
        "factor": factor,
        "low": scale.low,
        "high": scale.high,
        "ticks": scale.ticks,
        "bounds": scale.bounds,
        "colors": scale.colors().into_iter().map(hex).collect::<Vec<_>>(),
        "shades": scale.shades(),
    })
}

fn hex((r, g, b): palette::Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// A number where a script reads it exactly, and text beyond that.
fn exact_integer(value: i128) -> Value {
    match i64::try_from(value) {
        Ok(small) if small.unsigned_abs() < 1 << 53 => Value::from(small),
        _ => Value::from(value.to_string()),
    }
}

/// The choices of a selector in order of first occurrence.
#[derive(Default)]
struct Options<'a> {
    names: Vec<&'a str>,
    indices: HashMap<&'a str, usize>,
}

impl<'a> Options<'a> {
    fn index(&mut self, name: &'a str) -> usize {
        *self.indices.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }
}

/// Whole numbers without a trailing `.0`: a thousand points have several thousand of them.
fn number(value: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "only taken when nothing is lost")]
    let whole = value as i64;
    #[expect(clippy::float_cmp, reason = "exact equality is the question")]
    let exact = whole as f64 == value && whole.unsigned_abs() < 1 << 53;
    if exact { Value::from(whole) } else { Value::from(value) }
}

fn check(explorer: &Explorer, point: &Point) -> Result<(), ReportError> {
    let fits =
        point.selection.len() == explorer.selectors.len() && point.values.len() == explorer.metrics.len();
    if !fits {
        return Err(invalid(format!(
            "a point has {} choices and {} values, the explorer has {} selectors and {} metrics",
            point.selection.len(),
            point.values.len(),
            explorer.selectors.len(),
            explorer.metrics.len()
        )));
    }
    let mut numbers = [point.x, point.y].into_iter().chain(point.values.iter().copied().flatten());
    match numbers.find(|number| !number.is_finite()) {
        Some(number) => {
            let place = place(explorer, point);
            Err(invalid(format!("{number} at {place}; leave out what was not measured")))
        }
        None => Ok(()),
    }
}

fn place(explorer: &Explorer, point: &Point) -> String {
    let mut parts: Vec<String> = explorer
        .selectors
        .iter()
        .zip(&point.selection)
        .map(|(name, choice)| format!("{name} = {choice}"))
        .collect();
    parts.push(format!("{} = {}", explorer.x.label, point.x));
    parts.push(format!("{} = {}", explorer.y.label, point.y));
    parts.join(", ")
}

fn invalid(reason: String) -> ReportError {
    ReportError::InvalidPage { reason }
}

/// Escapes what could end or reinterpret a script element, or the line in old JavaScript. All of
/// these occur inside JSON strings alone, where `\u` escapes mean the same.
pub(super) fn inside_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::Metric;
    use super::*;

    fn explorer(points: Vec<Point>) -> Explorer {
        let metric = |label| Metric {
            label: AxisLabel::new(label),
            explanation: String::new(),
            format: ValueFormat::Percent,
            lines: false,
        };
        Explorer {
            x: AxisLabel::new("d"),
            y: AxisLabel::new("m").unit("rows"),
            selectors: vec!["pass".to_owned()],
            metrics: vec![metric("ε"), metric("ρ")],
            lines: None,
            total: None,
            points,
        }
    }

    fn point(pass: &str, x: f64, values: [Option<f64>; 2]) -> Point {
        Point { selection: vec![pass.to_owned()], x, y: 16.0, values: values.to_vec(), ..Point::default() }
    }

    #[test]
    fn points_become_rows_of_indices_and_numbers() {
        let json = script_json(Some(&explorer(vec![
            point("forward", 256.0, [Some(0.5), None]),
            point("backward", 256.0, [Some(3.0), Some(-0.25)]),
            point("forward", 512.5, [None, Some(0.0)]),
        ])))
        .unwrap();
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["selectors"], json!([{ "label": "pass", "options": ["forward", "backward"] }]));
        assert_eq!(
            value["points"],
            json!([[0, 256, 16, 0.5, null], [1, 256, 16, 3, -0.25], [0, 512.5, 16, null, 0]])
        );
        assert_eq!(value["y"], json!({ "label": "m", "unit": "rows" }));
    }

    #[test]
    fn points_that_do_not_fit_are_refused() {
        let message = |points| script_json(Some(&explorer(points))).unwrap_err().to_string();
        let good = point("forward", 256.0, [Some(0.5), None]);
        assert_eq!(
            message(vec![good.clone(), good.clone()]),
            "report page: there are two points at pass = forward, d = 256, m = 16"
        );
        assert_eq!(
            message(vec![Point { values: vec![None], ..good.clone() }]),
            "report page: a point has 1 choices and 1 values, the explorer has 1 selectors and 2 metrics"
        );
        assert_eq!(
            message(vec![Point { values: vec![Some(f64::NAN), None], ..good }]),
            "report page: NaN at pass = forward, d = 256, m = 16; leave out what was not measured"
        );
    }

    #[test]
    fn no_explorer_is_null() {
        assert_eq!(script_json(None).unwrap(), "null");
        let no_metrics = Explorer { metrics: Vec::new(), ..explorer(Vec::new()) };
        assert_eq!(script_json(Some(&no_metrics)).unwrap(), "null");
    }

    proptest::proptest! {
        #[test]
        fn hostile_strings_stay_inside_their_script(
            prefix in ".*",
            attack in proptest::sample::select(vec![
                "</script>", "</SCRIPT >", "<!--<script>", "]]>", "\u{2028}", "&lt;/script&gt;", "\\u003c/script>", "\"};alert(1)//",
            ]),
            suffix in ".*",
        ) {
            let hostile = format!("{prefix}{attack}{suffix}");
            let mut explorer = explorer(vec![point(&hostile, 1.0, [None, None])]);
            explorer.metrics[0].explanation.clone_from(&hostile);
            let json = script_json(Some(&explorer)).unwrap();
            proptest::prop_assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{}", json);
            let value: Value = serde_json::from_str(&json).unwrap();
            proptest::prop_assert_eq!(value["metrics"][0]["explanation"].as_str(), Some(hostile.as_str()));
            proptest::prop_assert_eq!(value["selectors"][0]["options"][0].as_str(), Some(hostile.as_str()));
        }

        #[test]
        fn numbers_read_back_exactly(bits: u64) {
            let value = f64::from_bits(bits);
            proptest::prop_assume!(value.is_finite());
            let text = number(value).to_string();
            // Adding zero: minus zero is written as zero.
            proptest::prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), (value + 0.0).to_bits(), "{}", text);
        }
    }
}
