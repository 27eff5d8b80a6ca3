//! The page of a summary as readers see it, in a headless Chromium; skipped where there is none.

use std::collections::BTreeMap;
use std::path::Path;

use flopgap_testing::browser::Browser;
use serde_json::{Value, json};

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

/// The page begins with the verdict and the waterfall, whose bars lie below each other without a
/// gap from the step to what it needs at least, and open what they consist of.
#[test]
fn a_waterfall_leads_from_the_step_to_its_parts() {
    let Some(mut browser) = Browser::for_test("the waterfall of a page").unwrap() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/advice/layer-timers.before.json.gz");
    let path = path.to_str().unwrap();
    let done = run(&["summary", path, "--output", page.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let gap: Value = serde_json::from_str(&run(&["gap", path, "--format", "json"]).stdout).unwrap();
    browser.open(&page).unwrap();
    browser.wait_until_drawn().unwrap();

    let first = browser.evaluate("document.querySelector('main > *').textContent").unwrap();
    assert_eq!(first.as_str().unwrap(), gap["sentences"][0].as_str().unwrap().replace('`', ""));
    let bars = "[...document.querySelectorAll('.fall')].map((fall) => { const box = fall.querySelector('rect').getBoundingClientRect();
        return [fall.querySelector('.label').textContent, box.left, box.right, fall.querySelector('.value').textContent]; })";
    let bars: Vec<(String, f64, f64, String)> =
        serde_json::from_value(browser.evaluate(bars).unwrap()).unwrap();
    let is_sum = |label: &str| ["what the GPU computes", "needed at the GPU's peaks"].contains(&label);
    assert_eq!(bars[0].0, "a step");
    assert_eq!(bars[0].3, "12.376 ms, 100.0%");
    let left = bars[0].1;
    let mut until = bars[0].2;
    for (label, from, to, _) in &bars[1..] {
        assert!((to - until).abs() < 0.5, "{label} ends at {to}, not {until}");
        if is_sum(label) {
            assert!((from - left).abs() < 0.5, "{label} begins at {from}, not {left}");
        } else {
            until = *from;
        }
    }
    // The last bar is the floor, in nanoseconds of two steps.
    let floors =
        gap["floor"]["parts"].as_array().unwrap().iter().map(|part| part["floor_ns"].as_i64().unwrap());
    let needed = floors.sum::<i64>() as f64 / 2e6;
    let last = bars.last().unwrap();
    assert_eq!(
        (last.0.as_str(), last.3.as_str()),
        ("needed at the GPU's peaks", &*format!("{needed:.3} ms, 50.9%"))
    );
    assert!(bars.iter().any(|bar| bar.0 == "floor unknown: optimizer"), "{bars:?}");

    // A click on a bar opens its table, another one closes it.
    let waiting = "[...document.querySelectorAll('details.fall')].find((fall) => fall.textContent.includes('after a blocking call'))";
    let click = format!("{waiting}.querySelector('.bar svg').parentElement.click()");
    browser.evaluate(&click).unwrap();
    assert_eq!(browser.evaluate(&format!("{waiting}.open")).unwrap(), true);
    let cell = browser.evaluate(&format!("{waiting}.querySelector('tbody td').textContent")).unwrap();
    assert_eq!(cell, "cudaDeviceSynchronize");

    for scheme in ["light", "dark"] {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.command("Emulation.setEmulatedMedia", &media).unwrap();
        browser.wait_until_drawn().unwrap();
        assert_eq!(browser.axe().unwrap(), Vec::<String>::new(), "{scheme}");
        browser.shot(&format!("waterfall-{scheme}")).unwrap();
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
    for width in [900, 360] {
        browser.resize(width, 900).unwrap();
        let sideways = browser.evaluate("document.documentElement.scrollWidth - innerWidth").unwrap();
        assert!(sideways.as_i64().unwrap() <= 0, "{sideways} pixels at {width}");
        browser.shot(&format!("waterfall-{width}")).unwrap();
    }
}
