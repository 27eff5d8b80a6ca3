//! Floating-point numbers as C's `%g` prints them.

/// The number with this many significant digits, and with a `.0` where it would look like an
/// integer.
pub(super) fn general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if number.is_infinite() {
        return number.to_string();
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match usize::try_from(exponent) {
        Ok(exponent) if exponent < digits => decimal(number, digits - 1 - exponent),
        Err(_) if exponent >= -4 => decimal(number, digits - 1 + exponent.unsigned_abs() as usize),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trim(mantissa), exponent.unsigned_abs())
        }
    }
}

fn decimal(number: f64, places: usize) -> String {
    let text = format!("{number:.places$}");
    let text = trim(&text);
    if text.contains('.') { text.to_owned() } else { format!("{text}.0") }
}

/// Without zeros at the end of the places.
fn trim(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}
