//! A value where traces have numbers, texts or nothing.

use super::Raw;
use super::decimal::Decimal;

/// A value where traces have numbers, texts or nothing. Some tools write numbers as texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scalar<'a> {
    #[default]
    None,
    Number(&'a [u8]),
    Text(Raw<'a>),
}

impl<'a> Scalar<'a> {
    fn digits(self) -> Option<&'a [u8]> {
        match self {
            Scalar::Number(digits) => Some(digits),
            Scalar::Text(text) => Some(text.bytes.trim_ascii()),
            Scalar::None => None,
        }
    }

    /// A time in microseconds as nanoseconds, rounded where it has more than three decimals.
    pub(crate) fn nanoseconds(self) -> Option<i64> {
        Decimal::of(self.digits()?)?.times_ten_to(3)
    }

    /// A whole number; a decimal one if it is whole.
    pub(crate) fn integer(self) -> Option<i64> {
        let digits = self.digits()?;
        let decimal = Decimal::of(digits)?;
        decimal.is_whole().then(|| decimal.times_ten_to(0))?
    }

    /// A count.
    pub(crate) fn count(self) -> Option<u64> {
        self.integer().and_then(|value| u64::try_from(value).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_texts() {
        let number = |text: &'static str| Scalar::Number(text.as_bytes());
        assert_eq!(number("4367846873975.115").nanoseconds(), Some(4_367_846_873_975_115));
        assert_eq!(number("12").integer(), Some(12));
        assert_eq!(number("12.0").count(), Some(12));
        assert_eq!(number("12.5").integer(), None);
        assert_eq!(number("-1").count(), None);
        assert_eq!(Scalar::None.integer(), None);
    }
}
