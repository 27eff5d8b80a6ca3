//! The page as readers see it, in a headless Chromium; skipped where there is none.

use flopgap_report::axis::AxisLabel;
use flopgap_report::chart::{Color, Timeline};
use flopgap_report::html::{Block, Document, Explorer, Metric, Point};
use flopgap_report::table::{Cell, Column, Table};
use flopgap_testing::browser::{Browser, Swipe, sheets};
use serde_json::{Value, json};

const COUNTS: [&str; 7] =
    ["gemm", "split_k", "activation", "other", "total", "theory gemm", "theory activation"];

/// As large as the report of a whole run: 2,560 rows of 15 columns. The values are from a formula.
pub(crate) fn large_page() -> Document {
    let overheads = ["epsilon", "rho", "kappa", "omega"];
    let columns = ["n", "d", "m"]
        .map(|name| Column::number(name, name))
        .into_iter()
        .chain([Column::text("pass", "pass")])
        .chain(overheads.map(|name| Column::number(name, name)))
        .chain(COUNTS.map(|name| Column::number(name.replace(' ', "_"), name)));
    let mut table = Table::new("Counted and theoretical FLOPs", columns).unwrap();
    let mut points = Vec::new();
    for n in [2_u32, 4, 8, 16, 32] {
        for d in (128..=2048_u32).step_by(128) {
            for m in (16..=256_u32).step_by(16) {
                for pass in ["forward", "backward"] {
                    let work = 2 * u64::from(n) * u64::from(m) * u64::from(d) * u64::from(d);
                    let overhead = 30.0 / f64::from(d) + 12.0 / f64::from(m);
                    let sizes = [n, d, m].map(Cell::from).into_iter();
                    let row = sizes.chain([Cell::text(pass)]).chain((0..4).map(|_| Cell::float(overhead, 4)));
                    table.push(row.chain(COUNTS.map(|_| Cell::from(work)))).unwrap();
                    points.push(Point {
                        selection: vec![n.to_string(), pass.to_owned()],
                        x: f64::from(d),
                        y: f64::from(m),
                        values: vec![Some(overhead), Some(work as f64)],
                        ..Point::default()
                    });
                }
            }
        }
    }
    let metric = |label: &str| Metric {
        label: AxisLabel::new(label),
        explanation: "What the test draws.".to_owned(),
        lines: true,
    };
    let explorer = Explorer {
        x: AxisLabel::new("width d"),
        y: AxisLabel::new("columns m"),
        selectors: vec!["layers n".to_owned(), "pass".to_owned()],
        metrics: vec![metric("overhead"), metric("work")],
        lines: Some("a tile is full".to_owned()),
        total: None,
        points,
    };
    Document {
        title: "A run".to_owned(),
        subtitle: "values from a formula, not measured".to_owned(),
        blocks: vec![
            Block::Facts(vec![("device".to_owned(), "none".to_owned())]),
            Block::Explorer(explorer),
            Block::Table(table),
        ],
    }
}

/// A browser with the large page open.
fn opened(test: &str) -> Option<Browser> {
    let mut browser = Browser::for_test(test).unwrap()?;
    let (_folder, [file]) = flopgap_testing::paths(["report.html"]);
    std::fs::write(&file, large_page().to_html().unwrap()).unwrap();
    browser.open(&file).unwrap();
    Some(browser)
}

/// The number of rows in sight, and the cells of the first of them in the given columns.
fn filtered(browser: &mut Browser, words: &str) -> (u64, Vec<String>) {
    let script = format!(
        "(() => {{ const input = document.querySelector('input.filter'); input.value = {words:?};
            input.dispatchEvent(new Event('input'));
            const rows = [...document.querySelectorAll('table.data tbody tr')].filter((row) => !row.hidden);
            return [rows.length, rows.length ? [...rows[0].cells].slice(0, 4).map((cell) => cell.textContent) : []]; }})()"
    );
    let found = browser.evaluate(&script).unwrap();
    let cells = found[1].as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().to_owned()).collect();
    (found[0].as_u64().unwrap(), cells)
}

#[test]
fn the_report_works_offline_and_its_policy_lets_no_other_script_run() {
    let Some(mut browser) = opened("the report offline") else { return };
    assert_eq!(browser.problems(), Vec::<String>::new());
    assert!(browser.evaluate("document.querySelectorAll('#plot canvas').length > 0").unwrap() == true);
    browser.shot("report-1440").unwrap();
    // All rows are alike, and 38,000 cells would take axe-core a minute.
    browser.evaluate("document.querySelectorAll('table.data tbody tr:nth-child(n + 30)').forEach((row) => row.remove())").unwrap();
    assert_eq!(browser.axe().unwrap(), Vec::<String>::new());

    // A script of somebody else's: an element, and a handler in markup.
    browser
        .evaluate(
            "(() => { const added = document.createElement('script'); added.textContent = 'window.foreign = 1'; document.body.append(added);
                document.body.insertAdjacentHTML('beforeend', '<button id=handled onclick=\"window.foreign = 1\">x</button>');
                document.getElementById('handled').click(); })()",
        )
        .unwrap();
    assert_eq!(browser.evaluate("window.foreign === undefined").unwrap(), true);
}

#[test]
fn a_filter_asks_cells_and_not_rows() {
    let Some(mut browser) = opened("the filter") else { return };
    // Before, "2048" was looked for in the row's letters run together: it found n = 2, m = 048 and
    // not d = 2,048.
    let (count, first) = filtered(&mut browser, "2048");
    assert_eq!(first[1], "2,048");
    assert_eq!(count, 160);
    assert_eq!(filtered(&mut browser, "2,048").0, 160);
    assert_eq!(filtered(&mut browser, "m=48").0, 160);
    assert_eq!(
        filtered(&mut browser, "d=2048 m=48 back"),
        (5, ["2", "2,048", "48", "backward"].map(str::to_owned).to_vec())
    );
    assert_eq!(filtered(&mut browser, "forward").0, 1280);
    assert_eq!(filtered(&mut browser, "48forward").0, 0);
    assert_eq!(filtered(&mut browser, "").0, 2560);
    assert_eq!(browser.evaluate("document.querySelector('.found').textContent").unwrap(), "");
}

#[test]
fn the_overheads_are_on_screen_and_the_page_never_scrolls_sideways() {
    let Some(mut browser) = opened("widths") else { return };
    for width in [1440, 1024, 640, 360] {
        browser.resize(width, 900).unwrap();
        let sideways = browser.evaluate("document.documentElement.scrollWidth - innerWidth").unwrap();
        assert!(sideways.as_i64().unwrap() <= 0, "{sideways} pixels at {width}");
    }
    browser.resize(1440, 900).unwrap();
    let right = browser
        .evaluate("document.querySelector('table.data').rows[1].cells[7].getBoundingClientRect().right")
        .unwrap();
    assert!(right.as_f64().unwrap() <= 1440.0, "omega ends at {right}");
}

/// Color bars, and whether the surface fills the plot.
const LAYOUT: &str = "(() => { const plot = document.getElementById('plot'); const { width } = plot._fullLayout;
    const filled = plot.querySelector('canvas').clientWidth / plot.clientWidth;
    return { bars: plot.querySelectorAll('.infolayer > .colorbar').length, filled: filled > 0.85 && filled <= 1, width: width === plot.clientWidth }; })()";

#[test]
fn the_plot_survives_a_resize_across_the_narrow_layout() {
    let Some(mut browser) = opened("resizing") else { return };
    for width in [1440, 600, 1440, 500, 360, 1440] {
        browser.resize(width, 900).unwrap();
        browser.wait_for("document.getElementById('plot')._fullLayout.width === document.getElementById('plot').clientWidth").unwrap();
        browser.wait_until_drawn().unwrap();
        let now = browser.evaluate(LAYOUT).unwrap();
        assert_eq!(now, json!({ "bars": 0, "filled": true, "width": true }), "at {width}");
    }
    browser.shot("report-after-resizes").unwrap();
}

/// The camera's eye and the size of the box.
const VIEW: &str = "(() => { const scene = document.getElementById('plot')._fullLayout.scene; const { x, y, z } = scene._scene.getCamera().eye;
    return [x, y, z, scene.aspectratio.x].map((value) => Math.round(value * 1000)); })()";

fn view(browser: &mut Browser) -> Value {
    browser.wait_until_drawn().unwrap();
    browser.evaluate(VIEW).unwrap()
}

/// Waits until a part of the view is what it was, or is not.
fn wait_for_view(browser: &mut Browser, part: usize, relation: &str, first: &Value) {
    browser.wait_for(&format!("{VIEW}[{part}] {relation} {}", first[part])).unwrap();
}

/// The middle of the plot in the window, after scrolling to it.
fn middle(browser: &mut Browser) -> (f64, f64) {
    let place = browser
        .evaluate(
            "(() => { const plot = document.getElementById('plot'); plot.scrollIntoView({ block: 'center', behavior: 'instant' });
                const box = plot.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()",
        )
        .unwrap();
    (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
}

#[test]
fn the_surface_turns_and_resets_and_lets_the_page_scroll() {
    let Some(mut browser) = opened("the surface's view") else { return };
    let (x, y) = middle(&mut browser);
    let first = view(&mut browser);
    let top = browser.evaluate("scrollY").unwrap();

    browser.wheel(x, y, 120.0, false).unwrap();
    browser.wait_for(&format!("scrollY > {top}")).unwrap();
    assert_eq!(view(&mut browser), first, "the wheel scrolls the page and does not zoom");

    let (x, y) = middle(&mut browser);
    browser.wheel(x, y, -120.0, true).unwrap();
    wait_for_view(&mut browser, 3, ">", &first);
    browser.drag((x, y), (x + 120.0, y + 40.0)).unwrap();
    wait_for_view(&mut browser, 0, "!==", &first);
    browser.click(x, y, 2).unwrap();
    wait_for_view(&mut browser, 0, "===", &first);
    wait_for_view(&mut browser, 3, "===", &first);

    browser.evaluate("document.getElementById('plot').focus()").unwrap();
    browser.key("ArrowRight").unwrap();
    browser.key("+").unwrap();
    wait_for_view(&mut browser, 0, "!==", &first);
    wait_for_view(&mut browser, 3, ">", &first);
    browser.key("0").unwrap();
    wait_for_view(&mut browser, 3, "===", &first);
    assert_eq!(view(&mut browser), first);
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn one_finger_scrolls_the_page_and_two_turn_the_surface() {
    let Some(mut browser) = opened("touch") else { return };
    browser.touch().unwrap();
    browser.resize(400, 740).unwrap();
    browser.wait_until_drawn().unwrap();
    let (x, y) = middle(&mut browser);
    let first = view(&mut browser);
    let top = browser.evaluate("scrollY").unwrap();
    browser.fingers(&[Swipe { from: (x, y + 100.0), to: (x, y - 100.0) }]).unwrap();
    browser.wait_for(&format!("scrollY > {top}")).unwrap();
    assert_eq!(view(&mut browser), first);

    // A page that was flung goes on scrolling.
    browser
        .evaluate("new Promise((done) => { let last = -1; const look = () => { if (scrollY === last) done(); last = scrollY; setTimeout(look, 200); }; look(); })")
        .unwrap();
    let (x, y) = middle(&mut browser);
    let top = browser.evaluate("scrollY").unwrap();
    let right = |from: f64| Swipe { from: (x + from, y), to: (x + from + 80.0, y) };
    browser.fingers(&[right(-60.0), right(60.0)]).unwrap();
    wait_for_view(&mut browser, 0, "!==", &first);
    assert_eq!(browser.evaluate("scrollY").unwrap(), top);
    browser.shot("report-phone").unwrap();
}

#[test]
fn the_report_prints_on_few_sheets_with_all_columns() {
    let Some(mut browser) = opened("printing") else { return };
    let pdf = browser.print().unwrap();
    let sheets = sheets(&pdf);
    // Before, all 2,560 rows were printed on 80 sheets.
    assert!((2..=8).contains(&sheets), "{sheets} sheets");
    if let Some(folder) = std::env::var_os("FLOPGAP_SHOTS") {
        std::fs::write(std::path::Path::new(&folder).join("report.pdf"), &pdf).unwrap();
    }
    // The paper is A4 across: 297 mm less two margins of 11 mm, in pixels of 1/96 inch.
    browser.command("Emulation.setEmulatedMedia", &json!({ "media": "print" })).unwrap();
    browser.resize(1039, 700).unwrap();
    let columns = browser
        .evaluate("[...document.querySelector('table.data').tHead.rows[0].cells].filter((cell) => cell.getBoundingClientRect().right <= 1039).length")
        .unwrap();
    assert_eq!(columns, 15);
    let rows = browser.evaluate("[...document.querySelectorAll('table.data tbody tr')].filter((row) => row.getClientRects().length > 0).length");
    assert_eq!(rows.unwrap(), 100);
}

/// A step of 667 kernels, a few long products and many short ones of an optimizer, over and over:
/// 100,050 intervals on two streams.
const STEPS: i64 = 150;
const STEP: i64 = 4_000_000;

fn large_timeline(kept_from: Option<i64>) -> Document {
    let mut timeline = Timeline::new("Steps", 0..STEPS * STEP).unwrap();
    if let Some(time) = kept_from {
        timeline = timeline.keep_from(time);
    }
    let gpu = timeline.row_of_work("GPU 0");
    let streams = [timeline.lane(gpu, "stream 7"), timeline.lane(gpu, "stream 14")];
    let kinds = ["matmul", "optimizer", "copy"];
    for (n, kind) in kinds.into_iter().enumerate() {
        timeline.kind(kind, Color::nth(n));
    }
    let [matmul, optimizer, copy] = [0, 1, 2].map(|n| timeline.name(&format!("kernel_{n}"), Color::nth(n)));
    for step in 0..STEPS {
        let start = step * STEP;
        // 67 products of 40 µs, 500 kernels of an optimizer of 1 µs, each followed by as much idle
        // time; also 100 copies.
        for n in 0..67 {
            timeline.push(streams[0], matmul, start + n * 40_000..start + n * 40_000 + 40_000);
        }
        for n in 0..500 {
            let at = start + 2_700_000 + n * 2_000;
            timeline.push(streams[0], optimizer, at..at + 1_000);
        }
        for n in 0..100 {
            timeline.push(streams[1], copy, start + n * 30_000..start + n * 30_000 + 3_000);
        }
    }
    Document {
        title: "Timeline".to_owned(),
        blocks: vec![Block::Heading("Timeline".to_owned()), Block::Timeline(timeline)],
        ..Document::default()
    }
}

fn opened_timeline(test: &str, kept_from: Option<i64>) -> Option<Browser> {
    let mut browser = Browser::for_test(test).unwrap()?;
    let (_folder, [file]) = flopgap_testing::paths(["timeline.html"]);
    let html = large_timeline(kept_from).to_html().unwrap();
    assert!(html.len() < 1_000_000, "{} bytes for 100,050 intervals", html.len());
    std::fs::write(&file, html).unwrap();
    browser.open(&file).unwrap();
    browser.wait_for("document.querySelector('.fg-timeline').dataset.ready === 'true'").unwrap();
    browser.wait_until_drawn().unwrap();
    Some(browser)
}

/// Counts the pixels of each kind's color in the lanes of the canvas, without letters and edges,
/// and how long the drawing took.
const PIXELS: &str = "(() => {
    const { u } = document.querySelector('figure.timeline').timeline;
    const context = CanvasRenderingContext2D.prototype;
    const kept = [context.fillText, context.fillRect, context.strokeRect];
    context.fillText = context.fillRect = context.strokeRect = () => {};
    const start = performance.now();
    u.redraw(false);
    return new Promise((done) => setTimeout(() => {
        [context.fillText, context.fillRect, context.strokeRect] = kept;
        const { left, top, width, height } = u.bbox;
        const { data } = u.ctx.getImageData(left, top, width, height);
        const style = getComputedStyle(document.querySelector('.fg-timeline'));
        const colors = [0, 1, 2].map((n) => style.getPropertyValue(`--fg-c${n}`).trim().slice(1).match(/../g).map((part) => parseInt(part, 16)).join());
        const counts = [0, 0, 0];
        for (let at = 0; at < data.length; at += 4) {
            const n = colors.indexOf([data[at], data[at + 1], data[at + 2]].join());
            if (n >= 0) counts[n] += 1;
        }
        const rows = Math.round(18 * devicePixelRatio);
        done(counts.map((count) => count / rows / width));
    }, 50)); })()";

/// How much of a window each kind takes: what [`large_timeline`] draws, cut to it.
fn shares(from: i64, to: i64) -> [f64; 3] {
    let mut time = [0; 3];
    let mut add = |kind: usize, start: i64, length: i64| {
        time[kind] += ((start + length).min(to) - start.max(from)).max(0);
    };
    for start in (0..STEPS).map(|step| step * STEP) {
        (0..67).for_each(|n| add(0, start + n * 40_000, 40_000));
        (0..500).for_each(|n| add(1, start + 2_700_000 + n * 2_000, 1_000));
        (0..100).for_each(|n| add(2, start + n * 30_000, 3_000));
    }
    time.map(|time| time as f64 / (to - from) as f64)
}

fn check_areas(browser: &mut Browser, windows: &[(i64, i64)]) {
    for &(from, to) in windows {
        browser
            .evaluate(&format!("document.querySelector('figure.timeline').timeline.show({from}, {to})"))
            .unwrap();
        browser.wait_until_drawn().unwrap();
        let found = browser.evaluate(PIXELS).unwrap();
        for (kind, expected) in shares(from, to).into_iter().enumerate() {
            let found = found[kind].as_f64().unwrap();
            assert!(
                (found - expected).abs() < 0.003,
                "kind {kind} in {from}..{to}: {found} of the area, {expected} of the time"
            );
        }
    }
}

#[test]
fn the_area_of_a_kind_is_its_time_at_every_zoom() {
    let Some(mut browser) = opened_timeline("areas of the timeline", None) else { return };
    let middle = STEPS / 2 * STEP;
    // Everything, down to single kernels; before, the optimizer of such a step was drawn as a
    // product.
    let windows: Vec<(i64, i64)> =
        [STEPS * STEP, 20 * STEP, 3 * STEP, STEP, 1_500_000, 120_000, 9_000]
            .into_iter()
            .map(|length| {
                if length > middle { (0, length) } else { (middle + 2_650_000, middle + 2_650_000 + length) }
            })
            .collect();
    check_areas(&mut browser, &windows);
    let legend = browser.evaluate("document.querySelector('.fg-legend').textContent").unwrap();
    assert!(legend.as_str().unwrap().contains("optimizer"), "{legend}");
    assert_eq!(browser.problems(), Vec::<String>::new());
    assert_eq!(browser.axe().unwrap(), Vec::<String>::new());
}

#[test]
fn areas_stay_right_where_only_sums_are_kept() {
    let Some(mut browser) = opened_timeline("areas of sums", Some(100 * STEP)) else { return };
    // Whole steps, so that no span of sums is cut in the middle of a kind.
    check_areas(&mut browser, &[(0, STEPS * STEP), (0, 100 * STEP), (110 * STEP, 111 * STEP)]);
    let notes = browser.evaluate("document.querySelector('.fg-timeline').textContent").unwrap();
    assert!(notes.as_str().unwrap().contains("Single intervals are kept from 400 ms on"), "{notes}");
}

/// What is in sight.
fn sight(browser: &mut Browser) -> (f64, f64) {
    browser.wait_until_drawn().unwrap();
    let sight = browser.evaluate("(() => { const { min, max } = document.querySelector('figure.timeline').timeline.u.scales.x; return [min, max]; })()").unwrap();
    (sight[0].as_f64().unwrap(), sight[1].as_f64().unwrap())
}

fn center(browser: &mut Browser, selector: &str) -> (f64, f64) {
    let place = browser
        .evaluate(&format!("(() => {{ const box = document.querySelector('{selector}').getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"))
        .unwrap();
    (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
}

#[test]
fn the_timeline_takes_mouse_wheel_and_keys() {
    let Some(mut browser) = opened_timeline("moving the timeline", None) else { return };
    let whole = (0.0, (STEPS * STEP) as f64);
    let (x, y) = center(&mut browser, ".fg-lanes .u-over");
    browser.drag((x - 100.0, y), (x + 100.0, y)).unwrap();
    let part = sight(&mut browser);
    assert!(part.0 > 0.0 && part.1 < whole.1, "{part:?}");
    browser.wheel(x, y, -240.0, true).unwrap();
    let closer = sight(&mut browser);
    assert!(closer.1 - closer.0 < part.1 - part.0, "{closer:?}");
    browser.click(x, y, 2).unwrap();
    assert_eq!(sight(&mut browser), whole);

    browser.evaluate("document.querySelector('.fg-lanes').focus()").unwrap();
    browser.key("+").unwrap();
    browser.key("ArrowRight").unwrap();
    let moved = sight(&mut browser);
    assert!(moved.0 > whole.1 / 4.0, "{moved:?}");
    browser.key("0").unwrap();
    assert_eq!(sight(&mut browser), whole);
    browser.key(".").unwrap();
    browser.key(".").unwrap();
    browser.key("Enter").unwrap();
    let status = browser.evaluate("document.querySelector('.fg-status').textContent").unwrap();
    assert_eq!(status, "In sight: 200 µs from 0. kernel_0 · matmul · 40 µs · from 40 µs · stream 7");
    browser.shot("timeline-keys").unwrap();
}

#[test]
fn a_finger_moves_the_timeline_sideways_and_the_page_up_and_down() {
    let Some(mut browser) = opened_timeline("fingers on the timeline", None) else { return };
    browser.touch().unwrap();
    browser.resize(390, 740).unwrap();
    browser.evaluate("document.body.style.paddingBottom = '900px'").unwrap();
    let (x, y) = center(&mut browser, ".fg-lanes .u-over");
    let spread = |from: f64, to: f64| Swipe { from: (x + from, y), to: (x + to, y) };
    browser.fingers(&[spread(-20.0, -90.0), spread(20.0, 90.0)]).unwrap();
    let part = sight(&mut browser);
    assert!(part.1 - part.0 < 0.5 * (STEPS * STEP) as f64, "two fingers zoom: {part:?}");
    browser.fingers(&[spread(60.0, -60.0)]).unwrap();
    let moved = sight(&mut browser);
    assert!(moved.0 > part.0, "{moved:?}");
    browser.shot("timeline-phone").unwrap();
    browser.fingers(&[Swipe { from: (x, y), to: (x, y - 60.0) }]).unwrap();
    browser.wait_for("scrollY > 0").unwrap();
    assert_eq!(sight(&mut browser), moved);
    let sideways = browser.evaluate("document.documentElement.scrollWidth - innerWidth").unwrap();
    assert!(sideways.as_i64().unwrap() <= 0);
}

/// Zooms in and out over all of it and takes the time of every frame's own work, not of the screen.
#[test]
#[expect(clippy::print_stdout, reason = "a figure that the documentation quotes")]
fn a_hundred_thousand_intervals_stay_fluid() {
    let Some(mut browser) = opened_timeline("frames of the timeline", None) else { return };
    let script = format!(
        "new Promise(async (done) => {{ const {{ u, show }} = document.querySelector('figure.timeline').timeline; const times = [];
            for (let n = 0; n < 40; n += 1) {{
                const half = {} * 0.5 * 0.85 ** n;
                const start = performance.now();
                u.batch(() => show({1} - half, {1} + half));
                times.push(performance.now() - start);
                await new Promise(requestAnimationFrame);
            }}
            times.sort((a, b) => a - b); done([times[20], times[39]]); }})",
        STEPS * STEP,
        STEPS * STEP / 2
    );
    let times = browser.evaluate(&script).unwrap();
    println!("100,050 intervals: {times} ms a frame, median and most");
    // A frame of 60 a second is 16.7 ms; a busy machine gets some leave.
    assert!(times[0].as_f64().unwrap() < 16.7 && times[1].as_f64().unwrap() < 100.0, "{times}");
}
