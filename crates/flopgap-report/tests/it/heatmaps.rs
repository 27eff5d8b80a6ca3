//! Heatmaps to SVG and PNG. The values come from formulas: they exercise the drawing.

use flopgap_report::ReportError;
use flopgap_report::axis::AxisLabel;
use flopgap_report::heatmap::{Cell, Heatmaps, Panel};
use proptest::prelude::*;

use crate::markup::check_well_formed;

fn heatmaps(panels: Vec<Panel>) -> Result<Heatmaps, ReportError> {
    let label = AxisLabel::new;
    Heatmaps::new("Overhead <of> all", label("width d"), label("columns m"), label("ε"), panels)
}

fn panel(column: usize, value: impl Fn(f64, f64) -> Option<f64>) -> Panel {
    let steps = |by: u32| (1..=16).map(move |step| f64::from(step * by));
    let points = steps(128).flat_map(|d| steps(16).map(move |m| (d, m)));
    let cells = points.map(|(x, y)| Cell { x, y, value: value(x, y), ..Cell::default() });
    Panel { row: "forward".to_owned(), column: format!("n = {column}"), cells: cells.collect() }
}

/// What a tile of 64 columns executes above what is requested.
fn above(_: f64, m: f64) -> f64 {
    (m / 64.0).ceil() * 64.0 / m - 1.0
}

/// A place that can be compared.
fn key((x, y): (f64, f64)) -> (u64, u64) {
    (x.to_bits(), y.to_bits())
}

fn padding(n: usize) -> Panel {
    panel(n, |d, m| Some(above(d, m)))
}

fn rectangles(svg: &str, color: &str) -> usize {
    svg.matches(&format!("fill=\"{color}\"")).count()
}

#[test]
fn cells_have_the_color_of_their_value() {
    let svg = heatmaps(vec![padding(2)]).unwrap().to_svg().unwrap();
    assert!(check_well_formed(&svg) > 100);
    // Below 0.1 are four rows without padding, 176 and 240, and above 2 is one row, of 16 cells
    // each. One more of each color is in the legend.
    assert_eq!((rectangles(&svg, "#f5f992"), rectangles(&svg, "#1e0c45")), (6 * 16 + 1, 16 + 1));
    for text in ["Overhead &lt;of&gt; all", "forward", "n = 2", "width d", "columns m", "ε", "2,048", "256"]
    {
        assert!(svg.contains(&format!(">{text}</text>")), "{text}");
    }
    assert!(!svg.contains("values missing") && !svg.contains("not measured"));
}

#[test]
fn unmeasured_points_are_hatched_and_counted_and_others_are_blank() {
    let hole = |d: f64, m: f64| (!(1000.0..1100.0).contains(&d)).then(|| above(d, m));
    let whole = heatmaps(vec![padding(2), padding(4)]).unwrap();
    let holed = heatmaps(vec![padding(2), panel(4, hole)]).unwrap();
    let svg = holed.to_svg().unwrap();
    assert!(svg.contains("16 of 512 values missing (hatched)") && svg.contains("not measured"));
    // The cells and one entry of the legend.
    assert_eq!(svg.matches("fill=\"url(#missing)\"").count(), 16 + 1);
    assert!(!whole.to_svg().unwrap().contains("fill=\"url("));

    // Another depth that was requested at fewer widths leaves no hatching.
    let mut narrow = padding(4);
    narrow.cells.retain(|cell| cell.x <= 512.0);
    let plan = heatmaps(vec![padding(2), narrow]).unwrap();
    assert!(!plan.to_svg().unwrap().contains("values missing"));
}

/// What was measured and refused is not called unmeasured.
#[test]
fn refused_points_have_a_pattern_and_a_count_of_their_own() {
    let hole = |d: f64, m: f64| (!(1000.0..1100.0).contains(&d)).then(|| above(d, m));
    let mut some = panel(2, hole);
    // The last has a value: it is drawn.
    let refused = [(1024.0, 16.0), (1024.0, 32.0), (128.0, 16.0)].map(key);
    some.cells.iter_mut().for_each(|cell| cell.refused = refused.contains(&key((cell.x, cell.y))));
    let picture = heatmaps(vec![some.clone()]).unwrap();
    let svg = picture.to_svg().unwrap();
    for text in
        ["14 of 256 values missing (hatched) · 2 of 256 values refused (crossed)", "not measured", "refused"]
    {
        assert!(svg.contains(text), "{text}");
    }
    some.cells.iter_mut().for_each(|cell| cell.refused = true);
    assert_eq!(
        ["missing", "refused"].map(|id| svg.matches(&format!("\"url(#{id})\"")).count()),
        [14 + 1, 2 + 1]
    );
    let svg = heatmaps(vec![some]).unwrap().to_svg().unwrap();
    assert!(svg.contains("16 of 256 values refused (crossed)"));
    assert!(!svg.contains("values missing") && !svg.contains("not measured"));
}

/// Lines stand at the upper edges of the cells that have one, and the picture says what they mean.
#[test]
fn lines_are_drawn_where_they_are_and_explained() {
    let lines_of = |svg: &str| svg.matches("class=\"fg-step\"").count();
    let plain = heatmaps(vec![padding(2)]).unwrap();
    let mut lined = padding(2);
    // Two cells next to each other, one apart, and one in the last row, above which is nothing.
    let marks = [(128.0, 64.0), (256.0, 64.0), (1024.0, 128.0), (128.0, 256.0)].map(key);
    lined.cells.iter_mut().for_each(|cell| cell.line = marks.contains(&key((cell.x, cell.y))));
    let meaning = "a tile is full";
    let without = heatmaps(vec![lined.clone()]).unwrap().to_svg().unwrap();
    let with = heatmaps(vec![lined]).unwrap().lines(meaning).to_svg().unwrap();
    assert_eq!(lines_of(&without), lines_of(&plain.to_svg().unwrap()));
    assert_eq!(lines_of(&with), lines_of(&without) + 2 + 1, "two lines and one in the legend");
    assert!(with.contains(meaning) && !without.contains(meaning));
    // Nothing is explained that is not there.
    assert!(!plain.lines(meaning).to_svg().unwrap().contains(meaning));
}

#[test]
fn more_grids_than_fit_stand_below_each_other() {
    let size = |count: usize| {
        let png = heatmaps((1..=count).map(padding).collect()).unwrap().to_png().unwrap();
        let reader = png::Decoder::new(std::io::Cursor::new(&png)).read_info().unwrap();
        let (width, height) = (reader.info().width, reader.info().height);
        // Flat colors take little: less than a bit for each pixel.
        assert!(png.len() < (width * height) as usize / 8, "{} bytes", png.len());
        (width, height)
    };
    let [few, many] = [size(5), size(12)];
    assert!(few.0 == 1240 && many.0 == 1240 && many.1 > few.1 + 200, "{few:?} {many:?}");
    let error = heatmaps((1..=200).map(padding).collect()).unwrap().to_svg().unwrap_err().to_string();
    assert!(error.contains("pixels high: at most 4000 can be read"), "{error}");
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let twice = heatmaps(vec![padding(2), padding(2)]).unwrap_err().to_string();
    assert!(twice.contains("forward, n = 2`: there are two panels"), "{twice}");
    let empty = heatmaps(vec![panel(2, |_, _| None)]).unwrap_err();
    assert!(matches!(empty, ReportError::NothingToDraw { .. }), "{empty}");
    assert!(matches!(heatmaps(Vec::new()).unwrap_err(), ReportError::NothingToDraw { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_grids_give_a_well_formed_picture(
        name in ".{0,30}",
        columns in 1_usize..7,
        rows in 1_usize..9,
        values in proptest::collection::vec(proptest::option::weighted(0.8, -1e6_f64..1e9), 64),
    ) {
        let panels = (0..columns).map(|column| {
            let cell = |row: usize| {
                let (x, y, value) = (row as f64, f64::from(1 << row), values[row * 7 + column]);
                Cell { x, y, value, ..Cell::default() }
            };
            Panel { row: name.clone(), column: format!("{column} {name}"), cells: (0..rows).map(cell).collect() }
        });
        match heatmaps(panels.collect()) {
            Ok(picture) => { check_well_formed(&picture.to_svg().unwrap()); }
            Err(error) => prop_assert!(matches!(error, ReportError::NothingToDraw { .. }), "{error}"),
        }
    }
}
