//! A step taken apart, or two against each other, on one screen of a terminal: at most 40 lines of
//! 100 columns.

mod difference;

use std::cmp::Reverse;
use std::path::PathBuf;

pub use difference::difference;
use flopgap_gap::{Gap, Part, Share};
use flopgap_report::numbers;
use flopgap_report::text::printable;

use crate::sentences::caveats::caveats;
use crate::sentences::floor::work;
use crate::sentences::gap::{ADVICES, before_advice, evidence, near, steps, verdict, what};
use crate::sentences::{shown, time};

/// Columns of text.
const WIDTH: usize = 98;
/// Columns of a bar of the whole step.
const BAR: usize = 36;
/// Causes of one part that have a line of their own; the rest have one together.
const CAUSES: usize = 6;
/// Lines of a screen; where they do not suffice, fewer causes have one.
const LINES: usize = 40;

/// How a piece of a screen is to be shown, where there are colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// As all text.
    Plain,
    /// Stands out.
    Strong,
    /// A bar of what the GPU computes.
    Busy,
    /// A bar of what is exposed.
    Exposed,
    /// A bar of what the GPU idles.
    Idle,
    /// A bar of what takes longer than before.
    Longer,
    /// A bar of what takes less.
    Shorter,
}

/// A screen: lines of pieces.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    lines: Vec<Vec<(Ink, String)>>,
}

impl Screen {
    /// The screen without colors.
    pub fn to_text(&self) -> String {
        self.styled(|_, text| text.to_owned())
    }

    /// The screen with each piece as `style` shows it. Its text has no control characters: names
    /// come from files.
    pub fn styled(&self, style: impl Fn(Ink, &str) -> String) -> String {
        let line = |line: &Vec<(Ink, String)>| {
            let pieces = line.iter().filter(|(_, text)| !text.is_empty());
            pieces.map(|(ink, text)| style(*ink, &printable(text))).chain(["\n".to_owned()]).collect()
        };
        self.lines.iter().map(line).collect::<Vec<String>>().concat()
    }

    fn line(&mut self, ink: Ink, text: impl Into<String>) {
        self.lines.push(vec![(ink, text.into())]);
    }

    /// Adds a text in lines of at most [`WIDTH`] columns.
    fn wrapped(&mut self, ink: Ink, words: &str, first: &str, indent: &str) {
        let mut line = first.to_owned();
        let mut is_empty = true;
        for word in words.split_whitespace() {
            // Names may be longer than a line.
            let word = shortened(word, WIDTH - indent.len());
            if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.line(ink, line.trim_end());
                indent.clone_into(&mut line);
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(&word);
            is_empty = false;
        }
        self.line(ink, line);
    }

    /// Adds the first of some lines with commands that fits.
    fn command(&mut self, lines: impl IntoIterator<Item = String>) {
        let line = lines.into_iter().find(|line| line.chars().count() <= WIDTH);
        self.lines.extend(line.map(|line| vec![(Ink::Plain, line)]));
    }

    /// Adds what to change first, with what shows it.
    fn advice(&mut self, found: &Gap) {
        for (at, advice) in found.advice.iter().take(ADVICES).enumerate() {
            let bound = format!("{} ({})", time(advice.bound_ns as f64), numbers::percent(advice.share, 1));
            let said = format!("{bound}: {}.", what(advice.kind, &found.gpus));
            self.wrapped(Ink::Plain, &said, &format!("{}. ", at + 1), "   ");
            let seen = evidence(advice);
            if !seen.is_empty() {
                self.wrapped(Ink::Plain, &seen, "   ", "   ");
            }
        }
    }

    fn caveats(&mut self, found: &Gap) {
        for caveat in caveats(found) {
            self.wrapped(Ink::Plain, &caveat, "", "");
        }
    }

    /// Adds where to go on; `called` is what commands call the traces.
    fn more(&mut self, called: &[String]) {
        let page = |called: &str| format!("flopgap gap {called} -o page.html");
        let lines = called.iter().flat_map(|called| {
            let page = page(called);
            [format!("More: flopgap --all {called}; as a page: {page}"), format!("More: {page}")]
        });
        self.command(lines);
    }

    /// Adds a part or a cause with its bar.
    fn row(&mut self, found: &Gap, part: Part, name: &str, ns: i64) {
        let share = found.share(ns);
        let (ink, mark) = match part {
            Part::Busy => (Ink::Busy, '█'),
            Part::Exposed => (Ink::Exposed, '▒'),
            Part::Idle => (Ink::Idle, '░'),
        };
        let text = format!(
            "{:<38}{:>12} {:>6}  ",
            shortened(name, 37),
            time(found.each(ns)),
            numbers::percent(share, 1)
        );
        let bar = std::iter::repeat_n(mark, filled(share, BAR)).collect();
        self.lines.push(vec![(Ink::Plain, text), (ink, bar)]);
    }
}

/// The largest screen with fewer and fewer causes of a part that fits.
fn fitting(of: impl Fn(usize) -> Screen) -> Screen {
    let fits = |screen: &Screen| screen.lines.len() <= LINES;
    (1..=CAUSES).rev().map(&of).find(fits).unwrap_or_else(|| of(1))
}

/// The screen of a trace, or of those of all ranks of one job.
pub fn screen(name: &str, traces: &[PathBuf], found: &Gap) -> Screen {
    fitting(|causes| with_causes(name, traces, found, causes))
}

/// The screen with a line for each of some causes of a part.
fn with_causes(name: &str, traces: &[PathBuf], found: &Gap, causes: usize) -> Screen {
    let mut screen = Screen::default();
    screen.line(Ink::Plain, on_gpus(name, found));
    screen.line(Ink::Plain, "");
    let verdict: Vec<String> = [Some(verdict(found)), near(found)].into_iter().flatten().collect();
    screen.wrapped(Ink::Strong, &verdict.join(" "), "", "");
    let said: Vec<String> = std::iter::once(steps(found)).chain(work(found)).collect();
    screen.wrapped(Ink::Plain, &said.join(" "), "", "");
    screen.line(Ink::Plain, "");
    for part in [Part::Busy, Part::Exposed, Part::Idle] {
        let mut own: Vec<&Share> = found.parts.iter().filter(|share| share.part == part).collect();
        if own.is_empty() {
            continue;
        }
        own.sort_by_key(|share| Reverse(share.ns));
        screen.row(found, part, part.as_str(), own.iter().map(|share| share.ns).sum());
        let shown = shown(own.len(), causes);
        for share in &own[..shown] {
            screen.row(found, part, &format!("  {}", share.cause.in_words()), share.ns);
        }
        if shown < own.len() {
            let rest = own[shown..].iter().map(|share| share.ns).sum();
            screen.row(found, part, &format!("  {} other causes", own.len() - shown), rest);
        }
    }
    screen.line(Ink::Plain, "");
    screen.line(Ink::Plain, before_advice(found));
    screen.advice(found);
    let called = in_commands(traces);
    if !found.advice.is_empty() {
        let verify = "flopgap nsys diff";
        if traces.len() > 1 {
            // Each of its two traces is one path.
            let said = "Verify with a new recording, the ranks of each in a directory";
            screen.command([format!("{said}: {verify} BEFORE AFTER")]);
        } else {
            let with = |called: &String| format!("Verify with a new recording: {verify} {called} AFTER");
            screen.command(called.iter().map(with));
        }
    }
    screen.caveats(found);
    screen.more(&called);
    screen
}

/// A trace and what its GPUs are called.
fn on_gpus(name: &str, found: &Gap) -> String {
    let gpus = if found.gpus.is_empty() { String::new() } else { format!(" on {}", found.gpus.join(", ")) };
    format!("{name}{gpus}")
}

/// What commands call some traces, best first: their paths, unless a shell would read them as
/// something else, and a word that stands for them.
fn in_commands(traces: &[PathBuf]) -> Vec<String> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,=@%".contains(c);
    let is_word = |path: &str| !path.is_empty() && !path.starts_with('-') && path.chars().all(is_plain);
    let paths: Vec<_> = traces.iter().map(|path| path.to_string_lossy()).collect();
    let called = paths.iter().all(|path| is_word(path)).then(|| paths.join(" "));
    let stands_for = if traces.len() > 1 { "TRACE…" } else { "TRACE" };
    called.into_iter().chain([stands_for.to_owned()]).collect()
}

/// How many columns of a bar of `all` a share fills; what is there at all fills one.
fn filled(share: f64, all: usize) -> usize {
    if share <= 0.0 {
        return 0;
    }
    let columns = (share * all as f64).round();
    // A share is at most 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to all")]
    let columns = columns as usize;
    columns.clamp(1, all)
}

fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Part as Scope, ask, open};

    fn found(name: &str) -> Gap {
        let path = format!("{}/../../fixtures/advice/{name}.json.zst", env!("CARGO_MANIFEST_DIR"));
        ask::gap(&open::open(path).unwrap(), &Scope::default()).unwrap().data
    }

    #[test]
    fn pieces_have_their_style_and_no_control_characters() {
        let screen = screen("a\u{1b}[2Jb", &["a".into()], &found("layer-timers.before"));
        let styled = screen.styled(|ink, text| match ink {
            Ink::Plain => text.to_owned(),
            ink => format!("<{ink:?}>{text}</>"),
        });
        assert!(styled.starts_with("a\u{FFFD}[2Jb on NVIDIA H100 80GB HBM3\n\n<Strong>Waiting "), "{styled}");
        for bar in ["65.0%  <Busy>███", "0.1%  <Exposed>▒</>", "34.9%  <Idle>░░"] {
            assert!(styled.contains(bar), "{bar}: {styled}");
        }
        assert_eq!(screen.to_text(), screen.styled(|_, text| text.to_owned()));
    }

    #[test]
    fn commands_have_the_path_where_it_fits_and_a_shell_reads_it_so() {
        let gap = found("layer-timers.before");
        let of = |path: &str| screen("a", &[path.into()], &gap).to_text();
        let verify = "\nVerify with a new recording: flopgap nsys diff";
        for (path, called) in [
            ("runs/a.json.gz", "runs/a.json.gz"),
            ("my runs/a.json", "TRACE"),
            ("-a.json", "TRACE"),
            ("$HOME", "TRACE"),
        ] {
            let text = of(path);
            assert!(text.contains(&format!("{verify} {called} AFTER\n")), "{text}");
            let page =
                format!("\nMore: flopgap --all {called}; as a page: flopgap gap {called} -o page.html\n");
            assert!(text.ends_with(&page), "{text}");
        }
        let (long, longer) = ("a".repeat(40), "a".repeat(80));
        let page = format!("\nMore: flopgap gap {long} -o page.html\n");
        assert!(of(&long).contains(&format!("{verify} {long} AFTER\n")) && of(&long).ends_with(&page));
        assert!(of(&longer).contains(&format!("{verify} TRACE AFTER\n")));
        assert!(of(&longer).contains("\nMore: flopgap --all TRACE; "));
        assert!(
            !screen("a", &["a".into()], &found("healthy-inference.healthy")).to_text().contains("Verify")
        );
    }
}
