//! The heatmaps of the page and what a chosen cell is made of, in a headless Chromium; skipped
//! where there is none.

use flopgap_report::axis::AxisLabel;
use flopgap_report::heatmap::{Cell, Heatmaps, Panel};
use flopgap_report::html::{Block, Document, Explorer, Metric, Point, Step};
use flopgap_testing::browser::Browser;
use serde_json::json;

const WIDTHS: [f64; 4] = [256.0, 512.0, 1024.0, 2048.0];
const COLUMNS: [f64; 8] = [16.0, 32.0, 48.0, 64.0, 80.0, 96.0, 112.0, 128.0];

/// What was requested of so many layers: what a tile of 64 columns executes above it. Nothing was
/// measured at width 1024, and width 2048 was requested with one layer alone.
fn places(n: u32) -> impl Iterator<Item = (f64, f64, Option<f64>)> {
    let widths = WIDTHS.into_iter().take(if n == 2 { 3 } else { 4 });
    let all = widths.enumerate().flat_map(|(index, d)| COLUMNS.into_iter().map(move |m| (index, d, m)));
    all.map(move |(index, d, m)| {
        (d, m, (index != 2).then(|| ((m / 64.0).ceil() * 64.0 / m - 1.0) * f64::from(n)))
    })
}

/// Whether two places are one.
fn is(a: (f64, f64), b: (f64, f64)) -> bool {
    (a.0.to_bits(), a.1.to_bits()) == (b.0.to_bits(), b.1.to_bits())
}

/// More than a double holds exactly.
const THEORY: i128 = (1 << 60) + 1;

fn page() -> Document {
    let step = |cause: &str, expected, label: &str, times, amount| Step {
        cause: cause.to_owned(),
        expected,
        label: label.to_owned(),
        detail: String::new(),
        times,
        amount,
    };
    let points = [1, 2].into_iter().flat_map(|n| {
        places(n).map(move |(d, m, value)| Point {
            selection: vec![n.to_string(), "forward".to_owned()],
            x: d,
            y: m,
            values: vec![value],
            refused: (n == 2 && is((d, m), (1024.0, 32.0)))
                .then(|| "its counts are those of another".to_owned()),
            line: is((d, m), (512.0, 64.0)),
            steps: match value {
                Some(_) => vec![
                    step("theory", true, "", 0, THEORY),
                    step("padding", false, "gemm <64>", u64::from(n), 1 << 58),
                    step("activation", false, "relu", 1, -2),
                ],
                None => Vec::new(),
            },
        })
    });
    let metric =
        Metric { label: AxisLabel::new("overhead"), explanation: "From a formula.".to_owned(), lines: true };
    let explorer = Explorer {
        x: AxisLabel::new("width d"),
        y: AxisLabel::new("columns m"),
        selectors: vec!["layers n".to_owned(), "pass".to_owned()],
        metrics: vec![metric],
        lines: Some("a tile is full".to_owned()),
        total: Some(AxisLabel::new("counted").unit("FLOP")),
        points: points.collect(),
    };
    Document { title: "A run".to_owned(), blocks: vec![Block::Explorer(explorer)], ..Document::default() }
}

fn opened(test: &str) -> Option<Browser> {
    let mut browser = Browser::for_test(test).unwrap()?;
    let (_folder, [file]) = flopgap_testing::paths(["report.html"]);
    std::fs::write(&file, page().to_html().unwrap()).unwrap();
    browser.open(&file).unwrap();
    Some(browser)
}

/// The cell of a grid by its accessible place: the grid, from the top, from the left.
fn cell(grid: usize, row: usize, column: usize) -> String {
    format!("document.querySelectorAll('[role=grid]')[{grid}].rows_()[{row}][{column}]")
}

fn click(grid: usize, row: usize, column: usize) -> String {
    format!("{}.dispatchEvent(new MouseEvent('click'))", cell(grid, row, column))
}

const ROWS: &str = "Element.prototype.rows_ = function () {
    return [...this.querySelectorAll('[role=row]')].map((row) => [...row.querySelectorAll('[role=gridcell]')]).filter((row) => row.length); }";

#[test]
fn cells_have_the_colors_of_the_picture_and_what_is_missing_is_hatched() {
    let Some(mut browser) = opened("heatmap colors") else { return };
    browser.evaluate(ROWS).unwrap();
    let grids = browser.evaluate(
        "[...document.querySelectorAll('[role=grid]')].map((grid) => grid.rows_().map((row) => row.length))",
    );
    assert_eq!(
        grids.unwrap(),
        json!([[4, 4, 4, 4, 4, 4, 4, 4], [4, 4, 4, 4, 4, 4, 4, 4]]),
        "the widths of both depths"
    );

    let panels = [1, 2].map(|n| {
        let cells = places(n).map(|(x, y, value)| {
            let refused = n == 2 && is((x, y), (1024.0, 32.0));
            Cell { x, y, value, refused, line: false }
        });
        Panel { row: "forward".to_owned(), column: n.to_string(), cells: cells.collect() }
    });
    let label = AxisLabel::new;
    let picture = Heatmaps::new("t", label("d"), label("m"), label("overhead"), panels.into()).unwrap();
    let svg = picture.to_svg().unwrap();
    let colors = browser
        .evaluate("[...new Set([...document.querySelectorAll('[role=gridcell]')].map((cell) => cell.style.fill).filter(Boolean))]")
        .unwrap();
    let colors = colors.as_array().unwrap();
    assert!(colors.len() >= 4, "{colors:?}");
    for color in colors {
        let channels: Vec<u8> = color.as_str().unwrap()[4..]
            .trim_end_matches(')')
            .split(", ")
            .map(|c| c.parse().unwrap())
            .collect();
        let hex = format!("fill=\"#{:02x}{:02x}{:02x}\"", channels[0], channels[1], channels[2]);
        assert!(svg.contains(&hex), "{hex} is in no cell of the picture");
    }
    // From the top: 128 columns are two whole tiles, 112 are not.
    let at = |grid, row, column| format!("{}.style.fill", cell(grid, row, column));
    assert_ne!(browser.evaluate(&at(0, 0, 0)).unwrap(), browser.evaluate(&at(0, 7, 0)).unwrap());
    assert_eq!(
        browser.evaluate(&at(0, 0, 0)).unwrap(),
        browser.evaluate(&at(0, 4, 0)).unwrap(),
        "128 and 64"
    );
    let look = |grid, row, column| {
        format!("[{0}.getAttribute('class'), {0}.getAttribute('aria-label')]", cell(grid, row, column))
    };
    assert_eq!(
        browser.evaluate(&look(0, 3, 2)).unwrap(),
        json!(["missing", "width d = 1,024, columns m = 80: not measured"])
    );
    assert_eq!(
        browser.evaluate(&look(1, 3, 3)).unwrap(),
        json!(["unasked", "width d = 2,048, columns m = 80: not asked for"])
    );
    assert_eq!(
        browser.evaluate(&look(1, 7, 0)).unwrap(),
        json!(["", "width d = 256, columns m = 16: overhead = 6"])
    );
    let note = browser.evaluate("document.querySelector('.heat-note').textContent").unwrap();
    let expected = "15 of 56 values missing (hatched). 1 of 56 values refused (crossed).";
    assert_eq!(note, expected);
    for said in expected.trim_end_matches('.').split(". ") {
        assert!(svg.contains(said), "{said} is not in the picture");
    }
    let note = browser.evaluate("document.getElementById('plot-note').textContent").unwrap();
    assert!(note.as_str().unwrap().starts_with("8 of 32 values missing"), "{note}");
    // What was measured and refused is not called unmeasured, and says why.
    assert_eq!(
        browser.evaluate(&look(1, 6, 2)).unwrap(),
        json!(["refused", "width d = 1,024, columns m = 32: refused"])
    );
    browser.evaluate(&click(1, 6, 2)).unwrap();
    let said = browser.evaluate("document.querySelector('#cell .note').textContent").unwrap();
    assert_eq!(said, "Refused: its counts are those of another");
    // Lines stand at the cells that have one, and the legend says what they mean.
    let place = format!("const cell = {}.getBoundingClientRect()", cell(0, 4, 1));
    let lined = "[...document.querySelectorAll('.fg-step')].map((line) => line.getBoundingClientRect())";
    let above = format!(
        "(() => {{ {place}; return {lined}.map((line) => Math.hypot(line.left - cell.left, line.right - cell.right, line.top - cell.top) < 1.5); }})()"
    );
    assert_eq!(browser.evaluate(&above).unwrap(), json!([true, false]), "512 and 64, in either grid");
    let legend = browser.evaluate("document.querySelector('.legend').textContent").unwrap();
    for text in ["not measured", "refused", "a tile is full"] {
        assert!(legend.as_str().unwrap().contains(text), "{legend}");
    }
    // Each grid says what its axes are.
    let axes = browser
        .evaluate("[...document.querySelectorAll('.grid .fg-title')].map((title) => title.textContent)");
    assert_eq!(axes.unwrap(), json!(["width d", "columns m", "width d", "columns m"]));
    assert_eq!(browser.axe().unwrap(), Vec::<String>::new());
    assert_eq!(browser.problems(), Vec::<String>::new());
}

/// The texts of the rows that say what the chosen cell is made of.
const ACCOUNT: &str = "[...document.querySelectorAll('#cell table tbody tr')].map((row) => [...row.cells].slice(0, 6).map((cell) => cell.textContent).join('|'))";

#[test]
fn a_chosen_cell_says_which_kernels_and_the_sum_is_exact() {
    let Some(mut browser) = opened("which kernels") else { return };
    browser.evaluate(ROWS).unwrap();
    // At first the largest value: two layers, the least of columns.
    let heading = "document.querySelector('#cell h3').textContent";
    assert_eq!(
        browser.evaluate(heading).unwrap(),
        "layers n = 2, pass = forward, width d = 256, columns m = 16"
    );

    browser.evaluate(&click(0, 0, 1)).unwrap();
    assert_eq!(
        browser.evaluate(heading).unwrap(),
        "layers n = 1, pass = forward, width d = 512, columns m = 128"
    );
    assert_eq!(
        browser.evaluate(ACCOUNT).unwrap(),
        json!([
            "theory||||1,152,921,504,606,846,977|100.00%",
            "padding|gemm <64>||1|+288,230,376,151,711,744|+25.00%",
            "activation|relu||1|-2|0.00%",
            "counted||||1,441,151,880,758,558,719|125.00%",
        ])
    );
    // The surface follows the choice, and keys do what the mouse does.
    let depth = "document.querySelector('#surface-controls select').value";
    assert_eq!(browser.evaluate(depth).unwrap(), "0");
    browser.evaluate(&format!("{}.focus()", cell(1, 7, 0))).unwrap();
    browser.key("ArrowRight").unwrap();
    browser.key("ArrowRight").unwrap();
    browser.key("Enter").unwrap();
    assert_eq!(
        browser.evaluate(heading).unwrap(),
        "layers n = 2, pass = forward, width d = 1,024, columns m = 16"
    );
    assert_eq!(
        browser.evaluate("document.querySelector('#cell .note').textContent").unwrap(),
        "Not measured."
    );
    assert_eq!(browser.evaluate(depth).unwrap(), "1");
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn the_height_of_the_surface_is_logarithmic_with_ticks_at_equal_steps() {
    let Some(mut browser) = opened("the surface's scale") else { return };
    let axis = browser.evaluate("(() => { const { tickvals, ticktext } = document.getElementById('plot')._fullLayout.scene.zaxis; return [tickvals, ticktext]; })()");
    let axis = axis.unwrap();
    let places: Vec<f64> = axis[0].as_array().unwrap().iter().map(|place| place.as_f64().unwrap()).collect();
    assert!(places.len() >= 3 && axis[1][0] == "0", "{axis}");
    for three in places.windows(3) {
        assert!((three[2] - 2.0 * three[1] + three[0]).abs() < 1e-9, "{axis}");
    }
    // The same point from wherever the metric: the high ends of both axes.
    let eye = browser.evaluate("(() => { const { x, y } = document.getElementById('plot')._fullLayout.scene.camera.eye; return x > 0 && y > 0; })()");
    assert_eq!(eye.unwrap(), true);
}

/// What a chosen cell is made of has more columns than a narrow screen: the edge at which it goes
/// on fades, and a line says so; on a wide screen neither.
#[test]
fn what_goes_on_sideways_says_so() {
    let Some(mut browser) = opened("scroll cues") else { return };
    let cues = "(() => { const region = document.querySelector('#cell .scroll'); const said = region.previousElementSibling; return [region.classList.contains('more-right'), !said.hidden]; })()";
    let until = |browser: &mut Browser, width, expected: bool| {
        browser.resize(width, 800).unwrap();
        for _ in 0..50 {
            if browser.evaluate(cues).unwrap() == json!([expected, expected]) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{width}: {}", browser.evaluate(cues).unwrap());
    };
    until(&mut browser, 1400, false);
    until(&mut browser, 360, true);
    assert_eq!(browser.problems(), Vec::<String>::new());
}
