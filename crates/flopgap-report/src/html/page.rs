use minijinja::{context, value::Serde};
use serde::Serialize;

use super::data;
use super::policy::policy;
use super::view::{STYLE, TABLES, TableView, environment};
use crate::{ReportError, numbers::ValueFormat, surface::AxisLabel, table::Table};

const TEMPLATE: &str = include_str!("../../assets/page/report.html");
const SCRIPT: &str = concat!(
    include_str!("../../assets/page/scale.js"),
    include_str!("../../assets/page/heatmap.js"),
    include_str!("../../assets/page/camera.js"),
    include_str!("../../assets/page/report.js"),
);
const PLOTLY: &str = include_str!("../../assets/plotly/plotly-gl3d.min.js");
const PLOTLY_LICENSE: &str = include_str!("../../assets/plotly/LICENSE");

/// Everything that a page shows. All text is plain text: markup in it is shown, not obeyed.
///
/// ```
/// use flopgap_report::{
///     html::{Explorer, Metric, Point, ReportPage},
///     numbers::ValueFormat,
///     surface::AxisLabel,
/// };
///
/// let explorer = Explorer {
///     x: AxisLabel::new("layer width d"),
///     y: AxisLabel::new("batch m").unit("rows"),
///     selectors: vec!["pass".to_owned()],
///     metrics: vec![Metric {
///         label: AxisLabel::new("overhead"),
///         explanation: "FLOPs executed beyond the closed form, as a share of it.".to_owned(),
///         format: ValueFormat::Percent,
///         lines: false,
///     }],
///     lines: None,
///     total: None,
///     points: vec![
///         Point { selection: vec!["forward".to_owned()], x: 256.0, y: 16.0, values: vec![Some(0.31)], ..Point::default() },
///         Point { selection: vec!["forward".to_owned()], x: 512.0, y: 16.0, values: vec![None], ..Point::default() },
///     ],
/// };
/// let page = ReportPage { title: "A <run>".to_owned(), explorer: Some(explorer), ..ReportPage::default() };
/// let html = page.to_html()?;
/// assert!(html.contains("<title>A &lt;run&gt;</title>"));
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportPage {
    /// Heading and window title.
    pub title: String,
    /// A line below the heading; may be empty.
    pub subtitle: String,
    /// What identifies the run, as name and value: machine, versions, time.
    pub facts: Vec<(String, String)>,
    /// The interactive heatmaps and surface. Without them the page has no plot and is small.
    pub explorer: Option<Explorer>,
    /// Tables, each below its title.
    pub tables: Vec<Table>,
    /// What is incomplete or damaged, one line each. Shown first, because it limits what the rest
    /// means.
    pub problems: Vec<String>,
}

/// Metrics over a grid of two quantities, one heatmap and surface for each selection.
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
    /// How its values are written.
    pub format: ValueFormat,
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

#[derive(Serialize)]
struct PageView<'a> {
    title: &'a str,
    subtitle: &'a str,
    facts: &'a [(String, String)],
    problems: &'a [String],
    metrics: Vec<MetricView<'a>>,
    steps: bool,
    tables: Vec<TableView<'a>>,
}

#[derive(Serialize)]
struct MetricView<'a> {
    label: &'a str,
    explanation: &'a str,
}

impl ReportPage {
    /// The page as one HTML document: about 1.8 MB with an explorer, nearly all of it the plotting
    /// code.
    ///
    /// # Errors
    /// [`ReportError::InvalidPage`] when a point of the explorer does not fit its selectors or
    /// metrics, is not finite, or stands twice at one place.
    pub fn to_html(&self) -> Result<String, ReportError> {
        let data = data::script_json(self.explorer.as_ref())?;
        let script = if self.explorer.is_some() { format!("{TABLES}{SCRIPT}") } else { TABLES.to_owned() };
        let environment = environment("report.html", TEMPLATE)?;
        let template = environment.get_template("report.html").map_err(ReportError::template)?;
        let html = template.render(context! {
            page => Serde(self.view()),
            version => env!("CARGO_PKG_VERSION"),
            style => STYLE,
            policy => policy(&[PLOTLY, &script]),
            script,
            plotly => PLOTLY,
            plotly_license => PLOTLY_LICENSE,
            data,
        });
        html.map_err(ReportError::template)
    }

    fn view(&self) -> PageView<'_> {
        let metrics = self.explorer.iter().flat_map(|explorer| &explorer.metrics);
        PageView {
            title: &self.title,
            subtitle: &self.subtitle,
            facts: &self.facts,
            problems: &self.problems,
            metrics: metrics
                .map(|metric| MetricView { label: &metric.label.label, explanation: &metric.explanation })
                .collect(),
            steps: self.explorer.as_ref().is_some_and(|explorer| explorer.total.is_some()),
            tables: self.tables.iter().map(TableView::from).collect(),
        }
    }
}
