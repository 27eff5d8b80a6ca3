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
    run(&["summary", &path, "--output", page.to_str().unwrap()]).expect(0, &[]);
    browser.open(&page).unwrap();
    browser.wait_for("document.querySelector('.fg-timeline').dataset.ready === 'true'").unwrap();
    browser.wait_until_drawn().unwrap();

    let legend = browser
        .evaluate("[...document.querySelectorAll('.fg-legend:not(.fg-parts) li')].map((entry) => [entry.childNodes[1].textContent.trim(), entry.querySelector('.fg-value').textContent])")
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
    let (_folder, [page]) = flopgap_testing::paths(["page.html"]);
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/advice/layer-timers.before.json.zst");
    let path = path.to_str().unwrap();
    run(&["summary", path, "--output", page.to_str().unwrap()]).expect(0, &[]);
    let gap = run(&["gap", path, "--format", "json"]).json();
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
        (
            "needed at the GPU's peaks",
            &*format!("{needed:.3} ms, {:.1}%", needed * 1e8 / gap["step_ns"].as_f64().unwrap())
        )
    );
    assert!(bars.iter().any(|bar| bar.0 == "floor unknown: element-wise operations"), "{bars:?}");

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

/// The page of some fixtures, open.
fn opened(browser: &mut Browser, command: &str, names: &[&str]) -> tempfile::TempDir {
    let (folder, [page]) = flopgap_testing::paths(["page.html"]);
    let paths = fixtures(names);
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    run(&[&[command][..], &paths, &["--output", page.to_str().unwrap()]].concat()).expect(0, &[]);
    browser.open(&page).unwrap();
    browser.wait_until_drawn().unwrap();
    folder
}

fn fixtures(names: &[&str]) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    names.iter().map(|name| folder.join(name).to_str().unwrap().to_owned()).collect()
}

/// What `gap` says of some fixtures in JSON.
fn gap(names: &[&str]) -> Value {
    let paths = fixtures(names);
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    run(&[&["gap"][..], &paths, &["--format", "json"]].concat()).json()
}

/// Of the rows of a figure: the label, where the bars begin and end, and the text.
fn rows_of(browser: &mut Browser, figure: &str) -> Vec<(String, Vec<[f64; 2]>, String)> {
    let script = format!(
        "[...{figure}.querySelectorAll('.fall')].map((fall) => [fall.querySelector('.label').textContent,
            [...fall.querySelectorAll('.bar rect')].map((bar) => {{ const box = bar.getBoundingClientRect(); return [box.left, box.right]; }}),
            fall.querySelector('.value').textContent])"
    );
    serde_json::from_value(browser.evaluate(&script).unwrap()).unwrap()
}

const WIDTHS: [u32; 3] = [1440, 900, 360];

/// Looks at a figure at several widths.
fn look(browser: &mut Browser, figure: &str, name: &str) {
    for width in WIDTHS {
        browser.resize(width, 900).unwrap();
        browser
            .evaluate(&format!("{figure}.scrollIntoView({{ block: 'start', behavior: 'instant' }})"))
            .unwrap();
        browser.wait_until_drawn().unwrap();
        let sideways = browser.evaluate("document.documentElement.scrollWidth - innerWidth").unwrap();
        assert!(sideways.as_i64().unwrap() <= 0, "{sideways} pixels at {width}");
        browser.shot(&format!("{name}-{width}")).unwrap();
    }
    assert_eq!(browser.problems(), Vec::<String>::new());
    assert_eq!(browser.axe().unwrap(), Vec::<String>::new());
}

/// A bar for each rank, on one scale: its pieces are as wide as the sums over the rank's steps.
#[test]
fn ranks_stand_below_each_other_on_one_scale() {
    let Some(mut browser) = Browser::for_test("the ranks of a page").unwrap() else { return };
    let names = ["kineto/ddp_rank0.json.gz", "kineto/ddp_rank1.json.gz"];
    let _folder = opened(&mut browser, "gap", &names);
    let found = gap(&names);
    let steps = || found["steps"].as_array().unwrap().iter().filter(|step| step["warm_up"] == false);
    let between = found["between"].as_array().unwrap().iter().filter(|step| step["warm_up"] == false);
    let all: Vec<&Value> = steps().chain(between).collect();
    let mean = |rank: u64, is: &dyn Fn(&Value) -> bool| {
        let own = all.iter().filter(|step| step["rank"] == rank);
        let parts = own.flat_map(|step| step["parts"].as_array().unwrap()).filter(|part| is(part));
        let count = steps().filter(|step| step["rank"] == rank).count();
        parts.map(|part| part["ns"].as_f64().unwrap()).sum::<f64>() / count as f64
    };
    let rows = rows_of(&mut browser, "document.querySelector('.stacks')");
    let labels: Vec<&str> = rows.iter().map(|row| row.0.as_str()).collect();
    assert_eq!(labels, ["rank 0, GPU 0", "rank 1, GPU 1"]);
    let longest = (0..2).map(|rank| mean(rank, &|_| true)).fold(0.0, f64::max);
    let wide =
        browser.evaluate("document.querySelector('.stacks .bar svg').getBoundingClientRect().width").unwrap();
    let scale = wide.as_f64().unwrap() / longest;
    for (rank, (_, bars, text)) in (0..).zip(&rows) {
        let whole = mean(rank, &|_| true);
        assert_eq!(*text, format!("{:.3} ms", whole / 1e6));
        let drawn = bars.last().unwrap()[1] - bars[0][0];
        assert!((drawn - whole * scale).abs() < 1.0, "rank {rank}: {drawn} of {}", whole * scale);
        // The GPU's own work is first.
        let own = mean(rank, &|part| part["limit"] == "gpu");
        let first = bars[0][1] - bars[0][0];
        assert!((first - own * scale).abs() < 1.0, "rank {rank}: {first} of {}", own * scale);
    }
    // Only the rank that waits has a piece of that, and the table below says how long.
    let said = browser
        .evaluate("[...document.querySelectorAll('.stacks title')].map((title) => title.textContent)")
        .unwrap();
    let said: Vec<String> = serde_json::from_value(said).unwrap();
    let late: Vec<&String> =
        said.iter().filter(|said| said.starts_with("skew: waiting for a late rank: ")).collect();
    let waited = mean(1, &|part| part["limit"] == "skew");
    let share = waited / mean(1, &|_| true) * 100.0;
    assert_eq!(late, [&format!("skew: waiting for a late rank: {:.3} ms ({share:.1}%)", waited / 1e6)]);
    let table = "[...document.querySelectorAll('.data')].find((table) => table.textContent.includes('rank 1, GPU 1'))";
    let cells = format!(
        "(() => {{ const at = [...{table}.tHead.rows[0].cells].findIndex((cell) => cell.textContent.startsWith('skew'));
            return [...{table}.tBodies[0].rows].map((row) => row.cells[at].textContent); }})()"
    );
    assert_eq!(browser.evaluate(&cells).unwrap(), json!(["0.000", format!("{:.3}", waited / 1e6)]));
    look(&mut browser, "document.querySelector('.stacks')", "ranks");
}

/// Two traces on one scale, and a bridge of causes from a step of one to a step of the other.
#[test]
fn two_traces_stand_on_one_scale_and_causes_lead_from_one_to_the_other() {
    let Some(mut browser) = Browser::for_test("two traces on a page").unwrap() else { return };
    let names = ["advice/layer-timers.before.json.zst", "advice/healthy-training.healthy.json.zst"];
    let _folder = opened(&mut browser, "gap", &names);
    let whole = names.map(|name| gap(&[name])["step_ns"].as_i64().unwrap());
    let steps = whole.map(|ns| ns as f64);
    let figure = |at: usize| format!("document.querySelectorAll('.waterfall')[{at}]");
    let [a, b] = [0, 1].map(|at| rows_of(&mut browser, &figure(at)));
    let wide = |rows: &[(String, Vec<[f64; 2]>, String)]| rows[0].1[0][1] - rows[0].1[0][0];
    assert!((wide(&b) / wide(&a) - steps[1] / steps[0]).abs() < 0.01, "{} {}", wide(&a), wide(&b));
    // Side by side.
    let top = |at: usize| format!("{}.getBoundingClientRect().top", figure(at));
    let tops = browser.evaluate(&format!("[{}, {}]", top(0), top(1))).unwrap();
    assert_eq!(tops[0], tops[1]);

    let rows = rows_of(&mut browser, &figure(2));
    let [first, causes @ .., last] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((first.0.as_str(), last.0.as_str()), ("A: a step", "B: a step"));
    let scale = (first.1[0][1] - first.1[0][0]) / steps[0];
    let mut until = first.1[0][1];
    for (label, bars, text) in causes {
        let [from, to] = bars[0];
        let (begin, end) = if text.starts_with('+') { (from, to) } else { (to, from) };
        assert!((begin - until).abs() < 1.0, "{label} begins at {begin}, not {until}");
        until = end;
    }
    assert!((until - last.1[0][1]).abs() < 1.0, "{until} {last:?}");
    assert!((last.1[0][1] - last.1[0][0] - steps[1] * scale).abs() < 1.0);

    // The texts are those of the JSON, and the rest adds up to the difference.
    let found = gap(&names);
    let all = found["causes"].as_array().unwrap();
    let ns = |cause: &Value| cause["difference_ns"].as_i64().unwrap();
    let most = |ns: i64| {
        if ns.abs() >= 1_000_000 {
            format!("{:+.3} ms", ns as f64 / 1e6)
        } else {
            format!("{:+.1} µs", ns as f64 / 1e3)
        }
    };
    for (cause, (_, _, text)) in all.iter().zip(&causes[..8]) {
        assert_eq!(*text, most(ns(cause)));
    }
    let changed = all.iter().filter(|cause| ns(cause) != 0).count();
    let rest = whole[1] - whole[0] - all[..8].iter().map(ns).sum::<i64>();
    assert_eq!(causes[8].0, format!("{} other causes", changed - 8));
    assert_eq!(causes[8].2, most(rest));
    look(&mut browser, &figure(0), "two-traces");
    // On a narrow screen one is below the other.
    let tops = browser.evaluate(&format!("[{}, {}]", top(0), top(1))).unwrap();
    assert!(tops[1].as_f64() > tops[0].as_f64(), "{tops}");
}

const READY: &str =
    "[...document.querySelectorAll('.fg-timeline')].every((root) => root.dataset.ready === 'true')";

/// What the status of a timeline says is marked in it.
fn marked(browser: &mut Browser, timeline: usize) -> String {
    browser.wait_until_drawn().unwrap();
    let status = format!("document.querySelectorAll('.fg-status')[{timeline}].textContent");
    let status = browser.evaluate(&status).unwrap();
    let status = status.as_str().unwrap().to_owned();
    status.find("Marked: ").map(|at| status[at..].to_owned()).unwrap_or_default()
}

/// A column of pixels of the first stream of the first timeline is as it was where the marked
/// cause counts all of the column's time, and pale where it counts none of it: the number of the
/// former, of the latter, and of those for which that is not so.
fn columns(browser: &mut Browser, cause: &str) -> [u64; 3] {
    let script = format!(
        "(() => {{
            const {{ u, lanes }} = document.querySelector('figure.timeline').timeline;
            const names = JSON.parse(document.querySelector('figure.timeline > script').textContent).names;
            const {{ left, top, width }} = u.bbox;
            const row = (lane) => u.ctx.getImageData(left, top + lane.top + 9, width, 1).data;
            const [parts, work] = ['parts', 'work'].map((kind) => lanes.find((lane) => lane.row.counted === kind));
            const {{ min, max }} = u.scales.x;
            const share = new Float64Array(width);
            for (let i = 0; i < parts.start.length; i += 1) {{
                if (names[parts.name[i]][0] !== '{cause}') continue;
                const [from, to] = [parts.start[i], parts.end[i]].map((time) => (time - min) * width / (max - min));
                for (let at = 0; at < width; at += 1) share[at] += Math.max(0, Math.min(to, at + 1) - Math.max(from, at));
            }}
            window.unmarked ??= row(work);
            const now = row(work);
            const same = (at) => [0, 1, 2].every((k) => now[4 * at + k] === window.unmarked[4 * at + k]);
            const found = [0, 0, 0];
            for (let at = 0; at < width; at += 1) {{
                if (share[at] > 1e-6 && share[at] < 1 - 1e-6) continue;
                const is = share[at] > 0.5;
                found[is ? 0 : 1] += 1;
                if (is !== same(at)) found[2] += 1;
            }}
            return found;
        }})()"
    );
    serde_json::from_value(browser.evaluate(&script).unwrap()).unwrap()
}

/// A click on a bar marks in the timeline when it counts, another one takes the marks away; keys do
/// the same, and a link shows them.
#[test]
fn an_open_bar_is_marked_in_the_timeline() {
    let Some(mut browser) = Browser::for_test("marks in a timeline").unwrap() else { return };
    let name = "advice/layer-timers.before.json.zst";
    let _folder = opened(&mut browser, "gap", &[name]);
    browser.wait_for(READY).unwrap();
    let cause = "idle: after a blocking call";
    let bar = format!(
        "[...document.querySelectorAll('details.fall')].find((fall) => fall.querySelector('.label').textContent === '{cause}')"
    );
    let plain = columns(&mut browser, cause);
    assert_eq!(marked(&mut browser, 0), "");

    // All of what the step counts for it is there: the timeline has all measured steps.
    let found = gap(&[name]);
    let part = found["parts"].as_array().unwrap().iter().find(|part| part["cause"] == "blocking-call");
    let ns = part.unwrap()["ns"].as_f64().unwrap();
    browser.evaluate(&format!("{bar}.querySelector('summary').click()")).unwrap();
    let said = marked(&mut browser, 0);
    let amount = said.strip_prefix(&format!("Marked: {cause} (")).unwrap_or_else(|| panic!("{said}"));
    let (count, time) = amount.strip_suffix(").").unwrap().split_once(" intervals, ").unwrap();
    // Four digits are shown.
    let shown: f64 = time.strip_suffix(" ms").unwrap().parse().unwrap();
    assert!((shown - ns / 1e6).abs() <= 0.0005, "{time} of {ns} ns");
    let note = browser.evaluate(&format!("{bar}.querySelector('.note').firstChild.textContent")).unwrap();
    assert_eq!(note, format!("Marked in the timeline: {count} intervals, {time}. "));
    let [all, others, wrong] = columns(&mut browser, cause);
    assert!(all > 10 && others > 10, "{all} {others}");
    assert_eq!(wrong, 0, "of {all} and {others}");
    browser.wait_for("location.hash.includes('open=')").unwrap();
    let link = browser.evaluate("location.href").unwrap();
    for scheme in ["light", "dark"] {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.command("Emulation.setEmulatedMedia", &media).unwrap();
        browser.wait_until_drawn().unwrap();
        assert_eq!(browser.axe().unwrap(), Vec::<String>::new(), "{scheme}");
        browser.shot(&format!("marked-{scheme}")).unwrap();
    }
    browser.command("Emulation.setEmulatedMedia", &json!({ "features": [] })).unwrap();

    // Enter on the bar closes it, and all is as it was.
    browser.evaluate(&format!("{bar}.querySelector('summary').focus()")).unwrap();
    browser.key("Enter").unwrap();
    assert_eq!(marked(&mut browser, 0), "");
    let [all, others, wrong] = columns(&mut browser, cause);
    assert_eq!(([all, others], wrong), ([plain[0], plain[1]], others), "nothing is pale");

    // The way from a bar to the timeline, and through its marked intervals alone.
    browser.key("Enter").unwrap();
    browser.evaluate(&format!("{bar}.querySelector('.note button').click()")).unwrap();
    assert_eq!(browser.evaluate("document.activeElement.className").unwrap(), "fg-lanes");
    for _ in 0..3 {
        browser.key(".").unwrap();
        let status = browser.evaluate("document.querySelector('.fg-status').textContent").unwrap();
        assert!(status.as_str().unwrap().contains(&format!(". {cause} · ")), "{status}");
    }

    // From the link in a new page.
    browser.evaluate("window.isOld = true").unwrap();
    browser.command("Page.navigate", &json!({ "url": "about:blank" })).unwrap();
    browser.command("Page.navigate", &json!({ "url": link })).unwrap();
    let is_marked = "document.querySelector('.fg-status')?.textContent.includes('Marked: ') === true";
    browser.wait_for(&format!("window.isOld === undefined && {is_marked}")).unwrap();
    assert_eq!(marked(&mut browser, 0), said);
    assert_eq!(browser.problems(), Vec::<String>::new());
}

/// A bar of one of two traces is marked in its own timeline, a cause of the difference in both.
#[test]
fn bars_of_two_traces_are_marked_in_their_own_timelines() {
    let Some(mut browser) = Browser::for_test("marks in two timelines").unwrap() else { return };
    let names = ["advice/layer-timers.before.json.zst", "advice/healthy-training.healthy.json.zst"];
    let _folder = opened(&mut browser, "gap", &names);
    browser.wait_for(READY).unwrap();
    for (figure, is_marked) in [(0, [true, false]), (1, [false, true]), (2, [true, true])] {
        let bar = format!(
            "document.querySelectorAll('.waterfall')[{figure}].querySelector('details.fall summary')"
        );
        browser.evaluate(&format!("{bar}.click()")).unwrap();
        let found = [0, 1].map(|timeline| !marked(&mut browser, timeline).is_empty());
        assert_eq!(found, is_marked, "figure {figure}");
        browser.evaluate(&format!("{bar}.click()")).unwrap();
    }
}
