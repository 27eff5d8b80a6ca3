//! Checked sums and products: each is exact, or an error names what overflowed.

use crate::FlopError;

/// Product of all factors; 0 when any of them is 0, whatever the others are.
pub(crate) fn product(quantity: &'static str, factors: &[u64]) -> Result<u64, FlopError> {
    if factors.contains(&0) {
        return Ok(0);
    }
    // All factors are at least 1, so a partial product overflows only when the whole product does.
    factors
        .iter()
        .try_fold(1_u64, |product, &factor| product.checked_mul(factor))
        .ok_or_else(|| FlopError::overflow(quantity))
}

/// Sum of all terms.
pub(crate) fn sum(quantity: &'static str, terms: &[u64]) -> Result<u64, FlopError> {
    terms
        .iter()
        .try_fold(0_u64, |sum, &term| sum.checked_add(term))
        .ok_or_else(|| FlopError::overflow(quantity))
}

/// Refuses the first size that is 0.
pub(crate) fn positive(sizes: &[(&'static str, u64)]) -> Result<(), FlopError> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some(&(name, _)) => Err(FlopError::ZeroSize { name: name.into() }),
        None => Ok(()),
    }
}

/// Finds a value by its name, for `FromStr` implementations.
pub(crate) fn by_name<T: Copy>(
    what: &'static str,
    text: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, FlopError> {
    all.iter().copied().find(|&value| name(value) == text).ok_or_else(|| FlopError::UnknownName {
        what,
        found: text.to_owned(),
        expected: all.iter().map(|&value| name(value)).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_sums_are_exact_or_named() {
        assert_eq!(product("x", &[]), Ok(1));
        assert_eq!(product("x", &[3, 5, 7]), Ok(105));
        assert_eq!(product("x", &[1 << 32, (1 << 32) - 1]), Ok(u64::MAX - u64::from(u32::MAX)));
        assert_eq!(product("area", &[1 << 32, 1 << 32]), Err(FlopError::overflow("area")));
        assert_eq!(product("x", &[u64::MAX, u64::MAX, 0]), Ok(0));
        assert_eq!(sum("x", &[u64::MAX - 1, 1]), Ok(u64::MAX));
        assert_eq!(sum("length", &[u64::MAX, 1]), Err(FlopError::overflow("length")));
    }

    #[test]
    fn the_first_zero_is_named() {
        assert_eq!(positive(&[("a", 1), ("b", 2)]), Ok(()));
        assert_eq!(positive(&[("a", 1), ("b", 0), ("c", 0)]), Err(FlopError::ZeroSize { name: "b".into() }));
    }
}
