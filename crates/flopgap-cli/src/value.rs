//! Values of options, and their defaults.

/// Reads a percentage, as a `value_parser` of clap: a number of at least 0, with or without `%`
/// after it.
///
/// # Errors
/// With what is wrong; clap says of which option.
///
/// ```
/// assert_eq!(flopgap_cli::percentage("2.5%"), Ok(2.5));
/// assert!(flopgap_cli::percentage("-1").is_err());
/// ```
pub fn percentage(text: &str) -> Result<f64, String> {
    let value: f64 =
        text.trim_end_matches('%').parse().map_err(|_| format!("`{text}` is not a percentage"))?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err("must be 0 or more".to_owned()) }
}

/// The current time in UTC, in the format of run directories: `20261121-034222`.
#[cfg(feature = "runs")]
pub fn time_stamp() -> String {
    let time = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let (date, clock) = time.split_once('T').unwrap_or((&time, ""));
    format!("{}-{}", digits(date), digits(clock))
}
