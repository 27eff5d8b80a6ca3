//! Progress on standard error, when somebody watches it.

use std::{
    fmt,
    io::{self, Write},
    time::Duration,
};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::numbers;

const TEMPLATE: &str = "[{bar:28}] {human_pos}/{human_len} {prefix}{pace}  {wide_msg}";

/// A bar with rate and time left on standard error.
///
/// When standard error is not a terminal nothing is drawn, and only warnings are written: logs stay
/// readable. Clones share one bar, and all methods may be called from any thread.
///
/// ```
/// use flopgap_report::progress::Progress;
///
/// let progress = Progress::new(3, "configurations");
/// for d in [256, 512, 1024] {
///     progress.note(format!("d = {d}"));
///     if d == 512 {
///         progress.warn("d = 512: the recording is cut off");
///     }
///     progress.advance(1);
/// }
/// assert_eq!(progress.done(), 3);
/// progress.finish();
/// ```
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar over `total` steps of `what`, a plural noun. Drawn only if standard error is a
    /// terminal.
    pub fn new(total: u64, what: &str) -> Self {
        Self::on(ProgressDrawTarget::stderr(), total, what)
    }

    /// A bar that is never drawn, for quiet runs. Warnings are still written.
    pub fn hidden(total: u64) -> Self {
        Self::on(ProgressDrawTarget::hidden(), total, "")
    }

    fn on(target: ProgressDrawTarget, total: u64, what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), target);
        // The template is constant; should it ever be wrong, indicatif's own style is the right
        // thing to fall back to.
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("=> ").with_key("pace", write_pace));
        }
        bar.set_prefix(what.to_owned());
        if !bar.is_hidden() {
            // One step may take minutes: the time left counts down in between.
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        Self { bar }
    }

    /// Marks `steps` more steps as done.
    pub fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// Shows what is being worked on, after the bar.
    pub fn note(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
    }

    /// Writes `warning: text` on a line of its own on standard error, above the bar if there is
    /// one.
    ///
    /// A standard error that cannot be written to is no reason to stop: the warning is dropped.
    pub fn warn(&self, text: &str) {
        self.bar.suspend(|| {
            let _ = write_warning(&mut io::stderr().lock(), text);
        });
    }

    /// Runs `write` while the bar is off the screen, for output that is not a warning.
    pub fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// Steps done so far.
    pub fn done(&self) -> u64 {
        self.bar.position()
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Rate and time left; nothing before the first step is done, when neither is known.
fn write_pace(state: &ProgressState, out: &mut dyn fmt::Write) {
    if state.pos() > 0 {
        // A bar has no use for the error: a cut-off line is drawn again a moment later.
        let _ = write!(out, ", {}, {:#} left", rate(state.per_sec()), HumanDuration(state.eta()));
    }
}

/// Steps per second, or per minute when one takes longer than a second.
fn rate(per_second: f64) -> String {
    let (value, unit) = if per_second < 1.0 { (per_second * 60.0, "min") } else { (per_second, "s") };
    let decimals = usize::from(value < 100.0);
    format!("{}/{unit}", numbers::float(value, decimals))
}

fn write_warning(out: &mut impl Write, text: &str) -> io::Result<()> {
    let mut lines = text.lines();
    writeln!(out, "warning: {}", lines.next().unwrap_or_default())?;
    lines.try_for_each(|line| writeln!(out, "         {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_without_a_terminal() {
        let progress = Progress::hidden(10);
        progress.advance(4);
        progress.clone().advance(2);
        assert_eq!(progress.done(), 6);
        assert_eq!(progress.suspend(|| 7), 7);
        progress.finish();
    }

    #[test]
    fn the_template_is_valid() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }

    #[test]
    fn slow_steps_are_counted_by_the_minute() {
        assert_eq!(rate(3.3277), "3.3/s");
        assert_eq!(rate(0.05), "3.0/min");
        assert_eq!(rate(12_345.6), "12,346/s");
    }

    #[test]
    fn further_lines_of_a_warning_are_indented() {
        let mut out = Vec::new();
        write_warning(&mut out, "a.csv is cut off\nthe last row has 3 of 7 fields").unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "warning: a.csv is cut off\n         the last row has 3 of 7 fields\n"
        );
    }
}
