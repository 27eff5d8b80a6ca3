use crate::numbers;

/// One value of a table, unformatted.
///
/// Reading formats (terminal, Markdown, HTML) print it with grouped digits and the chosen decimals.
/// Data formats (CSV, JSON) get the raw value: no grouping, no rounding, percentages as fractions.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Cell {
    /// Words.
    Text(String),
    /// A count.
    Unsigned(u128),
    /// An integer that may be negative.
    Signed(i128),
    /// A number that is a name, such as that of a process: it has no thousands.
    Id(i64),
    /// A measured or derived real number.
    Float {
        /// The value, in the unit of the column.
        value: f64,
        /// Digits after the point when printed for a reader.
        decimals: usize,
    },
    /// A fraction that readers see as a percentage.
    Percent {
        /// The value: 0.05 is 5%.
        fraction: f64,
        /// Digits after the point when printed for a reader.
        decimals: usize,
        /// Whether a positive value carries a `+`.
        plus: bool,
    },
    /// Not measured: `-` for readers, an empty field in CSV, `null` in JSON. Never zero.
    Absent,
}

impl Cell {
    /// Words.
    pub fn text(value: impl Into<String>) -> Self {
        Self::Text(value.into())
    }

    /// A float with `decimals` digits for readers. Not-a-number becomes [`Cell::Absent`].
    pub fn float(value: f64, decimals: usize) -> Self {
        if value.is_nan() { Self::Absent } else { Self::Float { value, decimals } }
    }

    /// A fraction shown as a percentage, `1.23%`. Not-a-number becomes [`Cell::Absent`].
    pub fn percent(fraction: f64, decimals: usize) -> Self {
        if fraction.is_nan() { Self::Absent } else { Self::Percent { fraction, decimals, plus: false } }
    }

    /// A fraction shown as a percentage with its sign, `+1.23%`. Not-a-number becomes
    /// [`Cell::Absent`].
    pub fn signed_percent(fraction: f64, decimals: usize) -> Self {
        if fraction.is_nan() { Self::Absent } else { Self::Percent { fraction, decimals, plus: true } }
    }

    /// The cell of a value that may not have been measured: `None` is [`Cell::Absent`].
    ///
    /// ```
    /// use flopgap_report::table::Cell;
    /// let seconds: Option<f64> = None;
    /// assert_eq!(Cell::optional(seconds, |s| Cell::float(s, 3)), Cell::Absent);
    /// ```
    pub fn optional<T>(value: Option<T>, cell: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Absent, cell)
    }

    /// What a reader sees.
    pub fn display(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Unsigned(value) => numbers::group_thousands(value),
            Self::Signed(value) => numbers::group_thousands(value),
            Self::Id(value) => value.to_string(),
            Self::Float { value, decimals } => numbers::float(*value, *decimals),
            Self::Percent { fraction, decimals, plus: true } => numbers::signed_percent(*fraction, *decimals),
            Self::Percent { fraction, decimals, plus: false } => numbers::percent(*fraction, *decimals),
            Self::Absent => "-".to_owned(),
        }
    }

    /// What a CSV field holds: the raw value, empty when absent. Floats have the fewest digits that
    /// read back to the same `f64`; infinities are `inf` and `-inf`.
    pub fn raw(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Unsigned(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::Id(value) => value.to_string(),
            Self::Float { value, .. } => raw_float(*value),
            Self::Percent { fraction, .. } => raw_float(*fraction),
            Self::Absent => String::new(),
        }
    }
}

fn raw_float(value: f64) -> String {
    // A variant built by hand may hold a NaN: it was not measured either.
    if value.is_nan() {
        return String::new();
    }
    // Debug switches to an exponent for extreme values where Display would write hundreds of zeros.
    let text = format!("{value:?}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

impl serde::Serialize for Cell {
    /// The raw JSON value. JSON has no infinity: infinite values are `null`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Unsigned(value) => match u64::try_from(*value) {
                Ok(small) => serializer.serialize_u64(small),
                Err(_) => serializer.serialize_u128(*value),
            },
            Self::Signed(value) => match i64::try_from(*value) {
                Ok(small) => serializer.serialize_i64(small),
                Err(_) => serializer.serialize_i128(*value),
            },
            Self::Id(value) => serializer.serialize_i64(*value),
            Self::Float { value, .. } | Self::Percent { fraction: value, .. } if value.is_finite() => {
                serializer.serialize_f64(*value)
            }
            Self::Float { .. } | Self::Percent { .. } | Self::Absent => serializer.serialize_none(),
        }
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

macro_rules! from_integers {
    ($variant:ident: $($integer:ty),+) => {
        $(impl From<$integer> for Cell {
            fn from(value: $integer) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

from_integers!(Unsigned: u8, u16, u32, u64, u128);
from_integers!(Signed: i8, i16, i32, i64, i128);

impl From<usize> for Cell {
    fn from(value: usize) -> Self {
        Self::Unsigned(value as u128)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_is_never_zero() {
        for cell in [Cell::Absent, Cell::float(f64::NAN, 2), Cell::percent(f64::NAN, 2), None::<u64>.into()] {
            assert_eq!(cell.display(), "-");
            assert_eq!(cell.raw(), "");
            assert_eq!(serde_json::to_string(&cell).unwrap(), "null");
        }
        let by_hand = Cell::Float { value: f64::NAN, decimals: 1 };
        assert_eq!(
            (by_hand.raw(), serde_json::to_string(&by_hand).unwrap()),
            (String::new(), "null".to_owned())
        );
    }

    #[test]
    fn readers_see_rounded_machines_get_exact() {
        let cell = Cell::float(1_234.567_890_123, 2);
        assert_eq!((cell.display().as_str(), cell.raw().as_str()), ("1,234.57", "1234.567890123"));
        let cell = Cell::signed_percent(0.012_345, 1);
        assert_eq!((cell.display().as_str(), cell.raw().as_str()), ("+1.2%", "0.012345"));
        let cell = Cell::from(u128::MAX);
        assert_eq!(cell.raw(), "340282366920938463463374607431768211455");
        assert_eq!(serde_json::to_string(&cell).unwrap(), cell.raw());
        assert_eq!(Cell::float(2.0, 3).raw(), "2");
        assert_eq!(Cell::float(1e300, 0).raw(), "1e300");
        assert_eq!(Cell::float(f64::INFINITY, 1).raw(), "inf");
        assert_eq!(serde_json::to_string(&Cell::float(f64::INFINITY, 1)).unwrap(), "null");
    }

    proptest::proptest! {
        #[test]
        fn raw_floats_read_back_exactly(bits: u64) {
            let value = f64::from_bits(bits);
            proptest::prop_assume!(!value.is_nan());
            let cell = Cell::float(value, 2);
            proptest::prop_assert_eq!(cell.raw().parse::<f64>().unwrap().to_bits(), bits);
        }
    }
}
