//! The page of a summary as readers see it, in a headless Chromium; skipped where there is none.

use std::collections::BTreeMap;

use flopgap_testing::browser::Browser;

use crate::summary::{json, rows, section};
use crate::{run, trace};

/// On the recorded training, every kind of work has the share of the timeline that the tables give
/// it: 1,720 operations of two steps, of which the optimizer's were not to be seen before.
#[test]
fn the_timeline_shows_each_kind_of_work_as_the_tables_count_it() {
    let Some(mut browser) = Browser::for_test("the page of a summary").unwrap() else { return };
    let (folder, path) = trace("small_training_step");
    let page = folder.path().join("page.html");
    let done = run(&["summary", &path, "--output", page.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    browser.open(&page).unwrap();
    browser.wait_for("document.querySelector('.fg-timeline').dataset.ready === 'true'").unwrap();
    browser.wait_until_drawn().unwrap();

    let legend = browser
        .evaluate("[...document.querySelectorAll('.fg-legend li')].map((entry) => [entry.childNodes[1].textContent.trim(), entry.querySelector('.fg-value').textContent])")
        .unwrap();
    let drawn: BTreeMap<String, String> =
        serde_json::from_value::<Vec<(String, String)>>(legend).unwrap().into_iter().collect();
    let found = json(&[&path]);
    let counted = rows(section(&found, "GPU time by kind of work"), "Sums over all instances");
    assert_eq!(drawn.len(), counted.len(), "{drawn:?}");
    for row in counted {
        let share = format!(", {:.1}%", row["share"].as_f64().unwrap() * 100.0);
        let work = row["work"].as_str().unwrap();
        assert!(
            drawn[work].ends_with(&share),
            "{work}: {} in the timeline, {share} in the table",
            drawn[work]
        );
    }
    assert!(drawn["optimizer"].ends_with(", 5.6%"));

    assert_eq!(browser.problems(), Vec::<String>::new());
    assert_eq!(browser.axe().unwrap(), Vec::<String>::new());
    for width in [1440, 900, 360] {
        browser.resize(width, 900).unwrap();
        browser.evaluate("document.querySelector('figure.timeline').scrollIntoView({ block: 'start', behavior: 'instant' })").unwrap();
        browser.wait_until_drawn().unwrap();
        let sideways = browser.evaluate("document.documentElement.scrollWidth - innerWidth").unwrap();
        assert!(sideways.as_i64().unwrap() <= 0, "{sideways} pixels at {width}");
        browser.shot(&format!("summary-timeline-{width}")).unwrap();
    }
}
