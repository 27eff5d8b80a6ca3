//! The explorer as the page shows it: grids and legends that are drawn, and the data of its script,
//! in which every value has its text, its place on the scale and its color.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Explorer, Metric};
use crate::ReportError;
use crate::axis::{Axis, AxisLabel};
use crate::field::Field;
use crate::heatmap::{Grid, absences};
use crate::numbers::{self, ValueFormat};
use crate::palette::{hex, letters_on};
use crate::scale::Scale;
use crate::svg::Across::Share;
use crate::svg::Svg;
use crate::text::escape;

/// What the template shows.
#[derive(Serialize)]
pub(super) struct ExplorerView<'a> {
    metrics: Vec<MetricView<'a>>,
    rows: Vec<RowView>,
    /// Whether points have steps.
    steps: bool,
    /// The JSON of the script.
    data: String,
}

#[derive(Serialize)]
struct MetricView<'a> {
    label: &'a str,
    title: String,
    explanation: &'a str,
    /// Colors, each with the label of its lower bound.
    colors: Vec<(String, Option<String>)>,
    missing: usize,
    refused: usize,
    note: String,
    /// What its lines mean, if it has any.
    lines: Option<&'a str>,
}

/// Grids next to each other, each with its caption.
#[derive(Serialize)]
struct RowView {
    name: String,
    grids: Vec<(String, String)>,
}

/// The points of a selection: for each y and, within it, each x.
#[derive(Serialize)]
struct GridData {
    selection: Vec<usize>,
    cells: Vec<Option<usize>>,
}

/// The explorer for the template, and its data for the script.
pub(super) fn view(explorer: &Explorer) -> Result<ExplorerView<'_>, ReportError> {
    let mut options: Vec<Options<'_>> = explorer.selectors.iter().map(|_| Options::default()).collect();
    let mut points: HashMap<Vec<usize>, Vec<(f64, f64, usize)>> = HashMap::new();
    for (index, point) in explorer.points.iter().enumerate() {
        let (choices, values) = (point.selection.len(), point.values.len());
        let (selectors, metrics) = (explorer.selectors.len(), explorer.metrics.len());
        if choices != selectors || values != metrics {
            return Err(invalid(format!(
                "a point has {choices} choices and {values} values, the explorer has {selectors} selectors and {metrics} metrics"
            )));
        }
        let choices = options.iter_mut().zip(&point.selection);
        let selection = choices.map(|(options, choice)| options.index(choice)).collect();
        points.entry(selection).or_default().push((point.x, point.y, index));
    }
    // The first selector distinguishes grids of a row, the others tell rows apart.
    let mut selections = vec![Vec::new()];
    for options in options.iter().rev() {
        let of = |rest: &Vec<usize>| {
            let rest = rest.clone();
            (0..options.names.len()).map(move |option| [vec![option], rest.clone()].concat())
        };
        selections = selections.iter().flat_map(of).collect();
    }
    let named = |index: usize, option: usize| {
        format!("{} = {}", explorer.selectors[index], options[index].names[option])
    };
    let title_of = |selection: &[usize], from: usize| {
        let parts = selection.iter().enumerate().skip(from).map(|(index, option)| named(index, *option));
        parts.collect::<Vec<_>>().join(", ")
    };
    let sets: Vec<_> = selections
        .iter()
        .map(|selection| (title_of(selection, 0), points.remove(selection).unwrap_or_default()))
        .collect();
    let infinite = |index: usize| {
        explorer.points[index].values.iter().copied().flatten().find(|value| !value.is_finite())
    };
    let fields = Field::of((&explorer.x, &explorer.y), &sets, infinite)?;
    let axis = |label: &AxisLabel, values: fn(&Field<usize>) -> &Vec<f64>| {
        Axis::new(label.clone(), fields.first().map(values).cloned().unwrap_or_default())
    };
    let (x, y) = (axis(&explorer.x, |field| &field.xs), axis(&explorer.y, |field| &field.ys));
    let (metrics, data): (Vec<_>, Vec<_>) =
        explorer.metrics.iter().enumerate().map(|(index, metric)| of_metric(explorer, metric, index)).unzip();
    let mut rows: Vec<RowView> = Vec::new();
    for ((selection, field), (name, _)) in selections.iter().zip(&fields).zip(&sets) {
        let caption = selection.first().map(|option| named(0, *option)).unwrap_or_default();
        let grid = (caption, draw(explorer, &x, &y, field, name));
        let name = title_of(selection, 1);
        match rows.last_mut().filter(|row| row.name == name) {
            Some(row) => row.grids.push(grid),
            None => rows.push(RowView { name, grids: vec![grid] }),
        }
    }
    let grids = selections.into_iter().zip(fields);
    let grids: Vec<GridData> =
        grids.map(|(selection, field)| GridData { selection, cells: field.places }).collect();
    let axis = |axis: &Axis| {
        let labels: Vec<&str> = axis.scale.ticks.iter().map(|(_, label)| label.as_str()).collect();
        json!({
            "label": axis.label.label,
            "unit": axis.label.unit.as_deref().unwrap_or_default(),
            "title": axis.title(),
            "values": axis.values,
            "labels": labels,
            "log": axis.scale.is_logarithmic(),
        })
    };
    let selectors = explorer.selectors.iter().zip(&options);
    let mut json = json!({
        "x": axis(&x),
        "y": axis(&y),
        "selectors": selectors.map(|(label, options)| json!({ "label": label, "options": options.names })).collect::<Vec<_>>(),
        "metrics": data,
        "grids": grids,
        "refused": explorer.points.iter().map(|point| point.refused.as_deref()).collect::<Vec<_>>(),
        "total": explorer.total.as_ref().map(|total| json!({ "label": total.label, "unit": total.unit })),
    });
    add_steps(explorer, &mut json)?;
    let json = serde_json::to_string(&json).map_err(ReportError::json)?;
    Ok(ExplorerView { metrics, rows, steps: explorer.total.is_some(), data: inside_script(&json) })
}

/// A metric for the template and for the script.
fn of_metric<'a>(explorer: &'a Explorer, metric: &'a Metric, index: usize) -> (MetricView<'a>, Value) {
    let values = || explorer.points.iter().map(move |point| point.values[index]);
    let scale = Scale::of(values().flatten(), ValueFormat::Number);
    let colors: Vec<String> = scale.iter().flat_map(Scale::colors).map(hex).collect();
    let bounds = scale.iter().flat_map(|scale| &scale.bounds).map(|(_, label)| Some(label.clone()));
    let refused =
        values().zip(&explorer.points).filter(|(value, point)| value.is_none() && point.refused.is_some());
    let refused = refused.count();
    let missing = values().filter(Option::is_none).count() - refused;
    let counts = [(missing, "missing (hatched)."), (refused, "refused (crossed).")];
    let lines =
        explorer.lines.as_deref().filter(|_| metric.lines && explorer.points.iter().any(|point| point.line));
    let view = MetricView {
        label: &metric.label.label,
        title: metric.label.title(None),
        explanation: &metric.explanation,
        colors: colors.iter().cloned().zip([None].into_iter().chain(bounds)).collect(),
        missing,
        refused,
        note: absences(counts, explorer.points.len()).collect::<Vec<_>>().join(" "),
        lines,
    };
    let largest = values().enumerate().filter(|(_, value)| value.is_some()).max_by(|a, b| {
        // The first of equals.
        a.1.partial_cmp(&b.1).unwrap_or(std::cmp::Ordering::Equal).then(b.0.cmp(&a.0))
    });
    let of_scale = |of: &dyn Fn(&Scale, f64) -> Value| -> Vec<Value> {
        let one = |value: Option<f64>| {
            scale.as_ref().zip(value).map_or(Value::Null, |(scale, value)| of(scale, value))
        };
        values().map(one).collect()
    };
    let steps = (0..=64).map(|step| f64::from(step) / 64.0);
    let data = json!({
        "label": metric.label.label,
        "unit": metric.label.unit.as_deref().unwrap_or_default(),
        "title": metric.label.title(scale.as_ref().and_then(Scale::note)),
        "lines": lines.is_some(),
        "ticks": scale.as_ref().map(Scale::marks).unwrap_or_default(),
        "colors": colors.iter().map(|color| (color, letters_on(color))).collect::<Vec<_>>(),
        "shades": scale.iter().flat_map(|scale| steps.clone().map(|at| (at, hex(scale.shade(at))))).collect::<Vec<_>>(),
        "largest": largest.map(|(index, _)| index),
        "values": values().collect::<Vec<_>>(),
        "texts": values().map(|value| value.map(|value| numbers::significant(value, ValueFormat::Number))).collect::<Vec<_>>(),
        "heights": of_scale(&|scale, value| ((scale.position(value) * 1e4).round() / 1e4).into()),
        "classes": of_scale(&|scale, value| scale.class(value).into()),
    });
    (view, data)
}

/// What points are made of. Causes of what was expected come first, so that one number separates
/// them from the others.
fn add_steps(explorer: &Explorer, json: &mut Value) -> Result<(), ReportError> {
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
    json["steps"] = json!(steps);
    json["expected"] = json!(expected);
    for (key, options) in [("causes", causes), ("labels", labels), ("details", details)] {
        json[key] = json!(options.names);
    }
    Ok(())
}

/// Height of the letters of a grid, and about how many pixels of it cells take.
const LETTERS: f64 = 11.0;
const CELLS: f64 = 230.0;
/// The width for which the room of its upright axis is right: where grids are narrow.
const NARROW: f64 = 210.0;

/// A grid without its colors, which the script sets.
fn draw(explorer: &Explorer, x: &Axis, y: &Axis, field: &Field<usize>, name: &str) -> String {
    let cell_height = (CELLS / y.values.len() as f64).clamp(9.0, 30.0);
    let drawn = Grid { x, y, cell_height, size: LETTERS, labels_y: true };
    let left = Grid::before(y, LETTERS) / NARROW;
    let mut svg = Svg::default();
    let lined = |row, column| field.at(row, column).is_some_and(|index| explorer.points[index].line);
    svg.within(Share(left), 6.0, Share(1.0 - left - 0.04), |svg| {
        drawn.draw(svg, 1.0 - left - 0.04, |_, _| Some(String::new()), lined);
    });
    svg.height = 6.0 + drawn.height() + Grid::below(LETTERS);
    svg.for_page(&format!("role=\"grid\" aria-label=\"{}\"", escape(name)))
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
    use super::super::{Metric, Point};
    use super::*;

    fn explorer(points: Vec<Point>) -> Explorer {
        let metric =
            |label| Metric { label: AxisLabel::new(label), explanation: String::new(), lines: false };
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

    fn json(explorer: &Explorer) -> Value {
        serde_json::from_str(&view(explorer).unwrap().data).unwrap()
    }

    #[test]
    fn values_have_a_text_a_place_and_a_color() {
        let value = json(&explorer(vec![
            point("forward", 256.0, [Some(0.5), None]),
            point("backward", 256.0, [Some(3.0), Some(-0.25)]),
            point("forward", 512.5, [None, Some(0.0)]),
        ]));
        assert_eq!(value["selectors"], json!([{ "label": "pass", "options": ["forward", "backward"] }]));
        assert_eq!(
            (&value["x"]["values"], &value["x"]["labels"]),
            (&json!([256.0, 512.5]), &json!(["256", "512.5"]))
        );
        assert_eq!((&value["y"]["label"], &value["y"]["unit"]), (&json!("m"), &json!("rows")));
        assert_eq!(
            value["grids"],
            json!([{ "selection": [0], "cells": [0, 2] }, { "selection": [1], "cells": [1, null] }])
        );
        let metric = &value["metrics"][0];
        assert_eq!(
            (&metric["values"], &metric["texts"]),
            (&json!([0.5, 3.0, null]), &json!(["0.5", "3", null]))
        );
        assert_eq!(metric["largest"], 1);
        // From 0.5 to 3 the axis is linear, from 0 to 3 and in steps of 0.5.
        assert_eq!(metric["heights"], json!([0.0, 1.0, null]));
        let last = metric["colors"].as_array().unwrap().len() - 1;
        assert_eq!(metric["classes"], json!([0, last, null]));
    }

    #[test]
    fn points_that_do_not_fit_are_refused() {
        let message = |points| view(&explorer(points)).map(|_| ()).unwrap_err().to_string();
        let good = point("forward", 256.0, [Some(0.5), None]);
        assert_eq!(
            message(vec![good.clone(), good.clone()]),
            "plot `pass = forward`: there are two points at d = 256, m = 16"
        );
        assert_eq!(
            message(vec![Point { values: vec![None], ..good.clone() }]),
            "report page: a point has 1 choices and 1 values, the explorer has 1 selectors and 2 metrics"
        );
        assert_eq!(
            message(vec![Point { values: vec![Some(f64::NAN), None], ..good }]),
            "plot `pass = forward`: the value at d = 256, m = 16 is NaN; leave out what was not measured"
        );
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
            explorer.metrics[0].label = AxisLabel::new(hostile.clone());
            let json = view(&explorer).unwrap().data;
            proptest::prop_assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{}", json);
            let value: Value = serde_json::from_str(&json).unwrap();
            proptest::prop_assert_eq!(value["metrics"][0]["label"].as_str(), Some(hostile.as_str()));
            proptest::prop_assert_eq!(value["selectors"][0]["options"][0].as_str(), Some(hostile.as_str()));
        }
    }
}
