//! Sums of products by an equation.

use rustc_hash::FxHashMap;

use crate::op::{Gemm, Op};

/// The product that an equation of two operands is, such as `bhqd,bhkd->bhqk`; `None` for other
/// numbers of operands, for repeated letters, and for sizes that contradict each other.
///
/// Letters of both operands and the result count products, those of one operand and the result its
/// rows, those of both operands alone the inner sum. A letter that only one operand has is summed
/// before.
pub(crate) fn einsum(equation: &str, operands: &[&[u64]], output: &[u64]) -> Option<Op> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, result) = match equation.split_once("->") {
        Some((inputs, result)) => (inputs, result.to_owned()),
        None => (equation.as_str(), implicit(&equation)),
    };
    let terms: Vec<&str> = inputs.split(',').collect();
    let ([a, b], [left, right]) = (terms.as_slice(), operands) else { return None };
    // An ellipsis stands for as many dimensions as are left, the same letters for all operands.
    let (a, b, result) = (expand(a, left.len())?, expand(b, right.len())?, expand(&result, output.len())?);
    let mut sizes: FxHashMap<char, u64> = FxHashMap::default();
    for (term, shape) in [(&a, *left), (&b, *right), (&result, output)] {
        if term.len() != shape.len() {
            return None;
        }
        for (index, (&letter, &size)) in term.iter().zip(shape).enumerate() {
            if term[..index].contains(&letter) {
                return None;
            }
            let known = sizes.entry(letter).or_insert(size);
            if *known == 1 {
                *known = size;
            } else if size != 1 && *known != size {
                return None;
            }
        }
    }
    let mut gemm = Gemm { batch: 1, m: 1, n: 1, k: 1 };
    for (letter, size) in sizes {
        let factor = match (a.contains(&letter), b.contains(&letter), result.contains(&letter)) {
            (true, true, true) => &mut gemm.batch,
            (true, true, false) => &mut gemm.k,
            (true, false, true) => &mut gemm.m,
            (false, true, true) => &mut gemm.n,
            (false, false, true) => return None,
            _ => continue,
        };
        *factor = factor.checked_mul(size)?;
    }
    Some(Op::Gemm(gemm))
}

/// The letters that occur once, in the order of the alphabet: what an equation without a result
/// means.
fn implicit(inputs: &str) -> String {
    let mut letters: Vec<char> = inputs.chars().filter(|c| c.is_alphabetic()).collect();
    letters.sort_unstable();
    let once = |letter: &&char| inputs.chars().filter(|c| c == *letter).count() == 1;
    letters.iter().filter(once).collect()
}

/// A letter for each dimension; those of an ellipsis are letters that no equation has.
fn expand(term: &str, rank: usize) -> Option<Vec<char>> {
    let Some((before, after)) = term.split_once("...") else { return Some(term.chars().collect()) };
    let named = before.chars().count() + after.chars().count();
    let open = u32::try_from(rank.checked_sub(named)?).ok().filter(|&open| open < 64)?;
    // Aligned at their ends, as broadcasting is.
    let hidden = (0..open).rev().filter_map(|index| char::from_u32(0xE000 + index));
    Some(before.chars().chain(hidden).chain(after.chars()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(equation: &str, operands: &[&[u64]], output: &[u64]) -> Option<[u64; 4]> {
        match einsum(equation, operands, output)? {
            Op::Gemm(gemm) => Some([gemm.batch, gemm.m, gemm.n, gemm.k]),
            _ => None,
        }
    }

    #[test]
    fn equations_are_products() {
        assert_eq!(sizes("ij,jk->ik", &[&[2, 3], &[3, 4]], &[2, 4]), Some([1, 2, 4, 3]));
        assert_eq!(
            sizes("bhqd, bhkd -> bhqk", &[&[2, 3, 5, 7], &[2, 3, 6, 7]], &[2, 3, 5, 6]),
            Some([6, 5, 6, 7])
        );
        assert_eq!(sizes("...ij,...jk", &[&[2, 3], &[3, 4]], &[2, 4]), Some([1, 2, 4, 3]));
        assert_eq!(sizes("...i,ji->...j", &[&[8, 9, 3], &[4, 3]], &[8, 9, 4]), Some([1, 72, 4, 3]));
        assert_eq!(sizes("i,j->ij", &[&[3], &[4]], &[3, 4]), Some([1, 3, 4, 1]), "an outer product");
    }

    #[test]
    fn only_products_are_counted() {
        assert_eq!(sizes("ii->i", &[&[3, 3]], &[3]), None);
        assert_eq!(sizes("ij,jk->ik", &[&[2, 3], &[5, 4]], &[2, 4]), None);
        assert_eq!(sizes("ij,jk,kl->il", &[&[2, 3], &[3, 4], &[4, 5]], &[2, 5]), None);
        assert_eq!(sizes("ij,jk->ikz", &[&[2, 3], &[3, 4]], &[2, 4, 1]), None);
        assert_eq!(sizes("->", &[&[], &[]], &[]), None);
    }
}
