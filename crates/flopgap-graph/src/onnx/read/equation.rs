//! The shape that an `Einsum` gives.

use rustc_hash::FxHashMap;

/// Sizes of the result; `None` where the equation does not fit the operands.
pub(super) fn shape(equation: &str, operands: &[&[u64]]) -> Option<Vec<u64>> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, result) = match equation.split_once("->") {
        Some((inputs, result)) => (inputs, Some(result)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<&str> = inputs.split(',').collect();
    if terms.len() != operands.len() {
        return None;
    }
    let mut sizes: FxHashMap<char, u64> = FxHashMap::default();
    let mut hidden: Vec<u64> = Vec::new();
    for (term, shape) in terms.iter().zip(operands) {
        let (before, after) = term.split_once("...").unwrap_or((term, ""));
        let named = before.chars().count() + after.chars().count();
        let open = shape.len().checked_sub(named)?;
        if open > 0 && !term.contains("...") {
            return None;
        }
        let middle = before.chars().count();
        let (first, rest) = shape.split_at(middle);
        let (ellipsis, last) = rest.split_at(open);
        hidden = super::broadcast::broadcast(&[&hidden, ellipsis])?;
        for (letter, &size) in before.chars().zip(first).chain(after.chars().zip(last)) {
            let known = sizes.entry(letter).or_insert(size);
            if *known == 1 {
                *known = size;
            }
        }
    }
    let implicit = || {
        let mut letters: Vec<char> =
            sizes.keys().copied().filter(|letter| inputs.matches(*letter).count() == 1).collect();
        letters.sort_unstable();
        format!("...{}", letters.into_iter().collect::<String>())
    };
    let result = result.map_or_else(implicit, str::to_owned);
    let (before, after) = result.split_once("...").unwrap_or((&result, ""));
    let mut shape = Vec::new();
    for letter in before.chars() {
        shape.push(*sizes.get(&letter)?);
    }
    if result.contains("...") {
        shape.extend(&hidden);
    }
    for letter in after.chars() {
        shape.push(*sizes.get(&letter)?);
    }
    Some(shape)
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn results_are_named_by_letters() {
        assert_eq!(shape("bhqd, bhkd -> bhqk", &[&[2, 3, 5, 7], &[2, 3, 6, 7]]), Some(vec![2, 3, 5, 6]));
        assert_eq!(shape("...ij,...jk", &[&[9, 2, 3], &[3, 4]]), Some(vec![9, 2, 4]));
        assert_eq!(shape("ij->ji", &[&[2, 3]]), Some(vec![3, 2]));
        assert_eq!(shape("ij,jk->iz", &[&[2, 3], &[3, 4]]), None);
        assert_eq!(shape("ij,jk->ik", &[&[2, 3]]), None);
        assert_eq!(shape("ijk->i", &[&[2, 3]]), None);
    }
}
