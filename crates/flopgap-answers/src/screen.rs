//! A step taken apart, on one screen of a terminal: at most 40 lines of 100 columns.

use std::fmt::Write as _;

use flopgap_gap::{Gap, Part, Share};
use flopgap_report::numbers;

use crate::sentences::gap::{ADVICES, caveats, evidence, steps, verdict, what};
use crate::sentences::time;

/// Columns of text.
const WIDTH: usize = 98;
/// Columns of a bar of the whole step.
const BAR: usize = 36;
/// Causes of one part that have a line of their own; the rest have one together.
const CAUSES: usize = 6;

/// The screen of a trace.
pub fn screen(name: &str, found: &Gap) -> String {
    let mut text = String::new();
    let gpus = if found.gpus.is_empty() { String::new() } else { format!(" on {}", found.gpus.join(", ")) };
    let _ = writeln!(text, "{name}{gpus}\n");
    wrapped(&mut text, &verdict(found), "", "");
    wrapped(&mut text, &steps(found), "", "");
    text.push('\n');
    let row = |text: &mut String, name: &str, ns: i64, mark: char| {
        let share = found.share(ns);
        let bar: String = std::iter::repeat_n(mark, filled(share)).collect();
        let _ = writeln!(
            text,
            "{:<38}{:>12} {:>6}  {bar}",
            shortened(name, 37),
            time(found.each(ns)),
            numbers::percent(share, 1)
        );
    };
    for (part, mark) in [(Part::Busy, '█'), (Part::Exposed, '▒'), (Part::Idle, '░')] {
        let mut own: Vec<&Share> = found.parts.iter().filter(|share| share.part == part).collect();
        if own.is_empty() {
            continue;
        }
        own.sort_by_key(|share| std::cmp::Reverse(share.ns));
        row(&mut text, part.as_str(), own.iter().map(|share| share.ns).sum(), mark);
        let shown = if own.len() > CAUSES + 1 { CAUSES } else { own.len() };
        for share in &own[..shown] {
            row(&mut text, &format!("  {}", share.cause.in_words()), share.ns, mark);
        }
        if shown < own.len() {
            let rest = own[shown..].iter().map(|share| share.ns).sum();
            row(&mut text, &format!("  {} other causes", own.len() - shown), rest, mark);
        }
    }
    text.push('\n');
    if found.advice.is_empty() {
        text.push_str("Nothing to change was found that would shorten a step by 5 % or more.\n");
    } else {
        text.push_str("What to change first, and by how much a step becomes shorter at most:\n");
    }
    for (at, advice) in found.advice.iter().take(ADVICES).enumerate() {
        let bound = format!("{} ({})", time(advice.bound_ns as f64), numbers::percent(advice.share, 1));
        wrapped(&mut text, &format!("{bound}: {}.", what(advice.kind)), &format!("{}. ", at + 1), "   ");
        let seen = evidence(advice);
        if !seen.is_empty() {
            wrapped(&mut text, &seen, "   ", "   ");
        }
    }
    for caveat in caveats(found) {
        wrapped(&mut text, &caveat, "", "");
    }
    text
}

/// How many columns of a bar a share fills; what is there at all fills one.
fn filled(share: f64) -> usize {
    if share <= 0.0 {
        return 0;
    }
    let columns = (share * BAR as f64).round();
    // A share is at most 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to BAR")]
    let columns = columns as usize;
    columns.clamp(1, BAR)
}

fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most - 1).chain(['…']).collect()
}

/// Adds a text in lines of at most [`WIDTH`] columns.
fn wrapped(text: &mut String, words: &str, first: &str, indent: &str) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            indent.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    text.push_str(&line);
    text.push('\n');
}
