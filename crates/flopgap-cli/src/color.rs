//! The colors of messages and help, where standard error is a terminal, and not with `NO_COLOR`.

use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Style};

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default();

/// The colors of clap.
pub(crate) const HELP: Styles = Styles::styled()
    .header(Style::new().bold())
    .usage(Style::new().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(Style::new())
    .error(ERROR)
    .valid(AnsiColor::Cyan.on_default())
    .invalid(WARNING);
