//! What a reader has opened, sorted and zoomed to stands in the page's address; skipped without a
//! Chromium.

use flopgap_report::chart::{Color, Fall, Timeline, Waterfall};
use flopgap_report::html::{Block, Document};
use flopgap_report::table::{Cell, Column, Table};
use flopgap_testing::browser::Browser;
use serde_json::{Value, json};

use crate::browser::large_page;

fn page() -> Document {
    let table = |rows: u64| {
        let columns = [Column::text("kernel", "kernel"), Column::number("n", "n")];
        let mut table = Table::new("Kernels", columns).unwrap();
        for n in 0..rows {
            table.push([Cell::text(format!("kernel_{n}")), Cell::from(n * 7 % rows)]).unwrap();
        }
        table
    };
    let part = |label: &str, at| Fall::new(label, at, Color::nth(1)).details(table(2));
    let falls = vec![
        Fall::new("a step", [0.0, 4.0], Color::NEUTRAL).strong(),
        part("idle", [3.0, 4.0]),
        part("exposed", [2.0, 3.0]),
        part("busy", [0.0, 2.0]),
    ];
    let mut timeline = Timeline::new("What ran", 0..1_000_000).unwrap();
    let row = timeline.row_of_work("GPU");
    let lane = timeline.lane(row, "stream 7");
    let name = timeline.name("gemm", Color::nth(0));
    timeline.kind("matmul", Color::nth(0));
    for start in (0..1_000_000).step_by(50_000) {
        timeline.push(lane, name, start..start + 20_000);
    }
    Document {
        title: "A step".to_owned(),
        blocks: vec![
            Block::Waterfall(Waterfall::new("A step", falls).unwrap()),
            Block::Timeline(timeline),
            // The tables of the parts come before it.
            Block::Table(table(20)),
        ],
        ..Document::default()
    }
}

/// Opens an address as from a link; a page that is already open would not be loaded again.
fn follow(browser: &mut Browser, address: &str) {
    browser.command("Page.navigate", &json!({ "url": "about:blank" })).unwrap();
    browser.command("Page.navigate", &json!({ "url": address })).unwrap();
    browser.wait_for("location.protocol === 'file:' && document.readyState === 'complete'").unwrap();
    browser.wait_until_drawn().unwrap();
}

const READY: &str = "document.querySelector('.fg-timeline').dataset.ready === 'true'";

/// The open parts, the range of the timeline in sight and what is chosen in it, the first rows in
/// sight of the last table and what it is sorted by.
fn state(browser: &mut Browser) -> Value {
    browser.wait_for(READY).unwrap();
    browser.wait_until_drawn().unwrap();
    let script = "(() => {
        const open = [...document.querySelectorAll('details.fall')].filter((part) => part.open).map((part) => part.querySelector('.label').textContent);
        const { min, max } = document.querySelector('figure.timeline').timeline.u.scales.x;
        const table = [...document.querySelectorAll('table.data')].at(-1);
        const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden).slice(0, 3).map((row) => row.cells[0].textContent);
        const sorted = [...table.tHead.rows[0].cells].map((cell) => cell.getAttribute('aria-sort'));
        const chosen = document.querySelector('.fg-status').textContent.split('. ')[1] ?? null;
        return { open, sight: [min, max], chosen, rows, sorted, filter: document.querySelector('input.filter').value };
    })()";
    browser.evaluate(script).unwrap()
}

fn address(browser: &mut Browser) -> String {
    browser.evaluate("location.href").unwrap().as_str().unwrap().to_owned()
}

#[test]
fn a_link_shows_what_its_sender_saw() {
    let Some(mut browser) = Browser::for_test("the address of a page").unwrap() else { return };
    let (_folder, [file]) = flopgap_testing::paths(["page.html"]);
    std::fs::write(&file, page().to_html().unwrap()).unwrap();
    browser.open(&file).unwrap();
    let plain = address(&mut browser);
    let untouched = state(&mut browser);
    assert!(!plain.contains('#') && untouched["open"] == json!([]), "{plain} {untouched}");
    assert_eq!(untouched["sight"], json!([0, 1_000_000]));

    let actions = "(() => {
        document.querySelectorAll('details.fall')[1].querySelector('summary').click();
        document.querySelectorAll('details.fall')[2].querySelector('summary').click();
        const table = [...document.querySelectorAll('table.data')].at(-1);
        const button = table.tHead.rows[0].cells[1].querySelector('button');
        button.click();
        button.click();
        const filter = document.querySelector('input.filter');
        filter.value = 'kernel_1';
        filter.dispatchEvent(new Event('input'));
        document.querySelector('figure.timeline').timeline.show(200000, 400000);
        document.querySelector('.fg-lanes').focus();
    })()";
    browser.evaluate(actions).unwrap();
    browser.key(".").unwrap();
    browser.key(".").unwrap();
    browser.wait_for("location.hash.includes('chosen0=0.5') && location.hash.includes('from0=')").unwrap();
    let seen = state(&mut browser);
    assert_eq!(seen["open"], json!(["exposed", "busy"]));
    assert_eq!(seen["sight"], json!([200_000, 400_000]));
    assert_eq!(seen["chosen"], "gemm · matmul · 20 µs · from 250 µs · stream 7");
    assert_eq!(seen["sorted"], json!([null, "descending"]));
    // Of 1 and 10 to 19, the largest of 7 n modulo 20: 17 → 19, 14 → 18, 11 → 17.
    assert_eq!(seen["rows"], json!(["kernel_17", "kernel_14", "kernel_11"]));
    let link = address(&mut browser);

    follow(&mut browser, &link);
    assert_eq!(state(&mut browser), seen, "{link}");
    // The address still says so after the page has shown it.
    browser.evaluate("new Promise((done) => setTimeout(done, 400))").unwrap();
    assert_eq!(address(&mut browser), link);
    browser.command("Page.reload", &json!({})).unwrap();
    browser.wait_until_drawn().unwrap();
    assert_eq!(state(&mut browser), seen);

    // Another fragment in the same page, and none: as it was at first.
    browser.evaluate("location.hash = 'open=0&sort3=0down'").unwrap();
    browser.wait_for("document.querySelectorAll('details.fall')[0].open").unwrap();
    let other = state(&mut browser);
    assert_eq!((&other["open"], &other["sorted"]), (&json!(["idle"]), &json!(["descending", null])));
    assert_eq!((&other["sight"], &other["chosen"]), (&json!([0, 1_000_000]), &Value::Null));
    browser.evaluate("location.hash = ''").unwrap();
    browser.wait_for("!document.querySelectorAll('details.fall')[0].open").unwrap();
    assert_eq!(state(&mut browser), untouched);

    // What no page has written shows nothing.
    for strange in ["open=9.x&sort3=7up&from0=5-1&chosen0=3.999999", "from0=%27&sort3=__proto__&open", "%"] {
        follow(&mut browser, &format!("{plain}#{strange}"));
        assert_eq!(state(&mut browser), untouched, "{strange}");
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn the_chosen_metric_and_selection_are_in_the_address() {
    let Some(mut browser) = Browser::for_test("the address of heatmaps").unwrap() else { return };
    let (_folder, [file]) = flopgap_testing::paths(["page.html"]);
    std::fs::write(&file, large_page().to_html().unwrap()).unwrap();
    browser.open(&file).unwrap();
    let choose = "(() => {
        const selects = [...document.querySelectorAll('.controls select')];
        [1, 3, 1].forEach((option, i) => { selects[i].value = option; selects[i].dispatchEvent(new Event('change')); });
    })()";
    browser.evaluate(choose).unwrap();
    browser.wait_for("location.hash === '#metric=1&choice0=3&choice1=1'").unwrap();
    let caption = "document.querySelector('#matrix caption').textContent";
    let seen = browser.evaluate(caption).unwrap();
    assert_eq!(seen, "work, layers n = 16, pass = backward");
    let link = address(&mut browser);
    follow(&mut browser, &link);
    assert_eq!(browser.evaluate(caption).unwrap(), seen);
    let chosen = "[...document.querySelectorAll('.controls select')].map((select) => Number(select.value))";
    assert_eq!(browser.evaluate(chosen).unwrap(), json!([1, 3, 1]));
    assert_eq!(browser.problems(), Vec::<String>::new());
}
