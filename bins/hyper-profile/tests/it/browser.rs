//! The report of a recorded run as readers see it, in a headless Chromium; skipped where there is
//! none.

use flopgap_testing::browser::Browser;

use crate::{analyze, recorded_run};

#[test]
fn the_report_of_a_run_opens_filters_and_survives_a_resize() {
    let Some(mut browser) = Browser::for_test("the report of a run").unwrap() else { return };
    let target = tempfile::tempdir().unwrap();
    analyze(&recorded_run(), &["--output", target.path().to_str().unwrap()]).expect(0, &[]);
    let metrics = std::fs::read_to_string(target.path().join("processed/metrics.csv")).unwrap();
    browser.open(&target.path().join("report.html")).unwrap();
    assert_eq!(browser.problems(), Vec::<String>::new());
    assert_eq!(browser.axe().unwrap(), Vec::<String>::new());

    // The rows of d = 2,048, however they are requested, are those of the file.
    let expected = metrics.lines().filter(|line| line.split(',').nth(1) == Some("2048")).count();
    assert!(expected > 0);
    for words in ["d=2048", "2048 d=2,048"] {
        let script = format!(
            "(() => {{ const input = [...document.querySelectorAll('input.filter')].pop(); input.value = '{words}'; input.dispatchEvent(new Event('input'));
                return [...[...document.querySelectorAll('table.data')].pop().tBodies[0].rows].filter((row) => !row.hidden).length; }})()"
        );
        assert_eq!(browser.evaluate(&script).unwrap(), expected, "{words}");
    }
    // The overheads are what the page is about: at 1,440 pixels they were beyond the right edge.
    let right = browser
        .evaluate(
            "(() => { const table = [...document.querySelectorAll('table.data')].pop();
                const omega = [...table.tHead.rows[0].cells].find((cell) => cell.textContent === 'omega'); return omega.getBoundingClientRect().right; })()",
        )
        .unwrap();
    assert!(right.as_f64().unwrap() <= 1440.0, "omega ends at {right}");
    for width in [600, 1440, 360, 1440] {
        browser.resize(width, 900).unwrap();
        let sideways = browser.evaluate("document.documentElement.scrollWidth - innerWidth").unwrap();
        assert!(sideways.as_i64().unwrap() <= 0, "{sideways} pixels at {width}");
        browser.evaluate("scrollTo(0, 0)").unwrap();
        browser.shot(&format!("run-report-{width}")).unwrap();
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
}
