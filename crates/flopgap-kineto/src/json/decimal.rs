//! Decimal numbers, exactly: the microseconds since 1970 of a trace have more digits than a float.

/// Digits beyond which a number is no time or count.
const MOST_DIGITS: u32 = 36;

/// `digits * 10^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: i128,
    exponent: i32,
}

impl Decimal {
    /// A JSON number.
    pub(super) fn of(text: &[u8]) -> Option<Decimal> {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            text => (false, text),
        };
        let (mut digits, mut exponent, mut count) = (0_i128, 0_i32, 0_u32);
        let (mut point, mut some) = (false, false);
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            match byte {
                b'0'..=b'9' => {
                    some = true;
                    if count < MOST_DIGITS {
                        digits = digits * 10 + i128::from(byte - b'0');
                        count += u32::from(digits > 0);
                        exponent -= i32::from(point);
                    } else {
                        exponent += i32::from(!point);
                    }
                }
                b'.' if !point => point = true,
                b'e' | b'E' => break,
                _ => return None,
            }
            at += 1;
        }
        if at < text.len() {
            let written = std::str::from_utf8(&text[at + 1..]).ok()?;
            exponent = exponent.checked_add(written.parse::<i32>().ok()?)?;
        }
        some.then_some(Decimal { digits: if negative { -digits } else { digits }, exponent })
    }

    /// Whether it has no decimals other than zeros.
    pub(super) fn is_whole(self) -> bool {
        if self.exponent >= 0 || self.digits == 0 {
            return true;
        }
        let divisor = 10_i128.checked_pow(self.exponent.unsigned_abs());
        divisor.is_some_and(|divisor| self.digits % divisor == 0)
    }

    /// This number times a power of ten, rounded half away from zero; nothing when that is no 64
    /// bits.
    pub(super) fn times_ten_to(self, power: i32) -> Option<i64> {
        let exponent = self.exponent.checked_add(power)?;
        if self.digits == 0 {
            return Some(0);
        }
        let value = if let Ok(exponent) = u32::try_from(exponent) {
            self.digits.checked_mul(10_i128.checked_pow(exponent)?)?
        } else {
            match 10_i128.checked_pow(exponent.unsigned_abs()) {
                Some(divisor) => {
                    let half = divisor / 2 * self.digits.signum();
                    (self.digits + half) / divisor
                }
                None => 0,
            }
        };
        i64::try_from(value).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ns(text: &str) -> Option<i64> {
        Decimal::of(text.as_bytes())?.times_ten_to(3)
    }

    #[test]
    fn microseconds_become_exact_nanoseconds() {
        for (text, expected) in [
            ("1", 1_000),
            ("1.5", 1_500),
            ("0.001", 1),
            ("0.0004", 0),
            ("0.0005", 1),
            ("-0.0005", -1),
            ("1712195495505543.25", 1_712_195_495_505_543_250),
            ("1.712195495505543250e+15", 1_712_195_495_505_543_250),
            ("12e-1", 1_200),
            ("1e-40", 0),
            ("0e99", 0),
        ] {
            assert_eq!(ns(text), Some(expected), "{text}");
        }
        for text in ["", "-", "1.2.3", "1e", "nan", "1e400", "9223372036854776", "12a", "1_0"] {
            assert_eq!(ns(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_nanosecond_survives(time in any::<i64>()) {
            let text = format!("{}{}.{:03}", if time < 0 { "-" } else { "" }, time.unsigned_abs() / 1000, time.unsigned_abs() % 1000);
            prop_assert_eq!(ns(&text), Some(time));
        }

        #[test]
        fn nothing_panics(text in "[-+.eE0-9]{0,50}") {
            let _ = ns(&text);
            let _ = Decimal::of(text.as_bytes()).map(Decimal::is_whole);
        }
    }
}
