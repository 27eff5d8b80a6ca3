//! What is explored on a page: heatmaps, and a surface that can be turned.

use crate::axis::AxisLabel;

/// Metrics over a grid of two quantities, one heatmap and surface for each selection.
///
/// ```
/// use flopgap_report::html::{Block, Document, Explorer, Metric, Point};
/// use flopgap_report::axis::AxisLabel;
///
/// let point = |x, value| Point { selection: vec!["forward".to_owned()], x, y: 16.0, values: vec![value], ..Point::default() };
/// let explorer = Explorer {
///     x: AxisLabel::new("layer width d"),
///     y: AxisLabel::new("batch m").unit("rows"),
///     selectors: vec!["pass".to_owned()],
///     metrics: vec![Metric {
///         label: AxisLabel::new("overhead"),
///         explanation: "FLOPs executed beyond the closed form, as a share of it.".to_owned(),
///         lines: false,
///     }],
///     lines: None,
///     total: None,
///     points: vec![point(256.0, Some(0.31)), point(512.0, None)],
/// };
/// let page = Document { blocks: vec![Block::Explorer(explorer)], ..Document::default() };
/// assert!(page.to_html()?.contains("1 of 2 values missing (hatched)."));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Explorer {
    /// The first quantity of the grid.
    pub x: AxisLabel,
    /// The second quantity of the grid.
    pub y: AxisLabel,
    /// What distinguishes surfaces, such as `n` and `pass`. The choices are what occurs in the
    /// points, in that order.
    pub selectors: Vec<String>,
    /// What is drawn upwards; the reader chooses one.
    pub metrics: Vec<Metric>,
    /// What the [lines](Point::line) in heatmaps mean; `None` where there are none.
    pub lines: Option<String>,
    /// What the [steps](Point::steps) of a point add up to; `None` where points have none.
    pub total: Option<AxisLabel>,
    /// The measured points, in any order. One whose values are all `None` was planned and not
    /// measured; a place without a point was not asked for.
    pub points: Vec<Point>,
}

/// A metric of an [`Explorer`].
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Name and unit.
    pub label: AxisLabel,
    /// What the metric means, in one sentence.
    pub explanation: String,
    /// Whether the [lines](Point::line) of points are drawn for it.
    pub lines: bool,
}

/// One measured configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// One choice for each selector.
    pub selection: Vec<String>,
    /// Value of the first quantity.
    pub x: f64,
    /// Value of the second quantity.
    pub y: f64,
    /// One value for each metric; `None` where it was not measured.
    pub values: Vec<Option<f64>>,
    /// Why what was measured is in no value, if it was refused.
    pub refused: Option<String>,
    /// Whether a line is drawn at the upper edge of its cell.
    pub line: bool,
    /// What the point's total is made of, expected parts first. Readers see it when they choose the
    /// point.
    pub steps: Vec<Step>,
}

/// A part of a point's total.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Why it is there, such as `padding`.
    pub cause: String,
    /// Whether it was expected; other parts are shown as what was added to these.
    pub expected: bool,
    /// What did it, such as a kernel; may be empty.
    pub label: String,
    /// More about that, such as its tile; may be empty.
    pub detail: String,
    /// How often; 0 where that says nothing.
    pub times: u64,
    /// How much, in the unit of the total.
    pub amount: i128,
}
