//! Which columns of a table are shown in a width, and how wide each is.

/// Columns of the terminal between two columns of a table.
pub(super) const GAP: usize = 2;

/// What a column needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    /// The width without line breaks and without `…`.
    pub(super) whole: usize,
    /// The width below which it is left out rather than made narrower.
    pub(super) least: usize,
    /// Whether its values can be shortened or wrapped; otherwise only its heading.
    pub(super) is_text: bool,
    /// Columns of a higher rank are left out first, those of rank 0 never.
    pub(super) rank: u8,
}

/// The layout of a table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// The columns that are shown, each with its width.
    pub(super) shown: Vec<(usize, usize)>,
    /// The columns that are not.
    pub(super) left_out: Vec<usize>,
}

/// The width of a line with these columns.
pub(super) fn line(widths: impl IntoIterator<Item = usize>) -> usize {
    widths.into_iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Leaves out columns until the rest fits, and gives the room that is left to those that it serves.
pub(super) fn fit(needs: &[Need], width: Option<usize>) -> Fit {
    let mut columns: Vec<usize> = (0..needs.len()).collect();
    let whole = |columns: &[usize]| line(columns.iter().map(|&at| needs[at].whole));
    let Some(width) = width.filter(|width| whole(&columns) > *width) else {
        let shown = columns.into_iter().map(|at| (at, needs[at].whole)).collect();
        return Fit { shown, left_out: Vec::new() };
    };
    let least = |columns: &[usize]| line(columns.iter().map(|&at| needs[at].least));
    let mut left_out = Vec::new();
    while least(&columns) > width {
        // The last of those that are needed least; `max_by_key` returns the last of equals.
        let Some(at) = (0..columns.len())
            .filter(|&at| needs[columns[at]].rank > 0)
            .max_by_key(|&at| needs[columns[at]].rank)
        else {
            break;
        };
        left_out.push(columns.remove(at));
    }
    left_out.sort_unstable();
    let mut shown: Vec<(usize, usize)> = columns.iter().map(|&at| (at, needs[at].least)).collect();
    narrow(&mut shown, needs, width);
    widen(&mut shown, needs, width);
    Fit { shown, left_out }
}

/// Where even the columns that are always shown do not fit: makes the widest text narrower, to a
/// few letters.
fn narrow(shown: &mut [(usize, usize)], needs: &[Need], width: usize) {
    const FEWEST: usize = 8;
    while line(shown.iter().map(|column| column.1)) > width {
        let texts = shown.iter_mut().filter(|column| needs[column.0].is_text && column.1 > FEWEST);
        let Some(widest) = texts.max_by_key(|column| column.1) else { return };
        widest.1 -= 1;
    }
}

/// Spreads the room that is left: first over text that was made narrower, the narrowest first, then
/// over headings.
fn widen(shown: &mut [(usize, usize)], needs: &[Need], width: usize) {
    for is_text in [true, false] {
        while line(shown.iter().map(|column| column.1)) < width {
            let wanting = shown
                .iter_mut()
                .filter(|column| needs[column.0].is_text == is_text && column.1 < needs[column.0].whole);
            let Some(narrowest) = wanting.min_by_key(|column| column.1) else { break };
            narrowest.1 += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(whole: usize, least: usize, rank: u8) -> Need {
        Need { whole, least, is_text: true, rank }
    }

    fn number(width: usize, rank: u8) -> Need {
        Need { whole: width, least: width, is_text: false, rank }
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let needs = [text(40, 28, 0), number(10, 1)];
        for width in [None, Some(52), Some(200)] {
            assert_eq!(fit(&needs, width), Fit { shown: vec![(0, 40), (1, 10)], left_out: vec![] });
        }
    }

    #[test]
    fn names_are_shortened_before_a_column_is_left_out() {
        let needs = [text(60, 28, 0), number(10, 1), number(12, 1)];
        assert_eq!(fit(&needs, Some(60)), Fit { shown: vec![(0, 34), (1, 10), (2, 12)], left_out: vec![] });
        assert_eq!(fit(&needs, Some(50)), Fit { shown: vec![(0, 38), (1, 10)], left_out: vec![2] });
    }

    #[test]
    fn the_highest_rank_leaves_first_then_the_last() {
        let needs = [text(20, 20, 0), number(10, 2), number(10, 1), number(10, 1)];
        assert_eq!(fit(&needs, Some(45)).left_out, [1]);
        assert_eq!(fit(&needs, Some(32)).left_out, [1, 3]);
        assert_eq!(fit(&needs, Some(20)).left_out, [1, 2, 3]);
        // What is always shown is cut as far as that goes.
        assert_eq!(fit(&needs, Some(10)).shown, [(0, 10)]);
        assert_eq!(fit(&needs, Some(3)).shown, [(0, 8)]);
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_lost_and_no_line_is_too_long(
            sizes in proptest::collection::vec((1_usize..60, 1_usize..60, proptest::bool::ANY, 0_u8..4), 1..12),
            width in 1_usize..200,
        ) {
            let needs: Vec<Need> = sizes
                .into_iter()
                .map(|(a, b, is_text, rank)| Need { whole: a.max(b), least: a.min(b), is_text, rank })
                .collect();
            let found = fit(&needs, Some(width));
            let mut all: Vec<usize> =
                found.shown.iter().map(|column| column.0).chain(found.left_out.clone()).collect();
            all.sort_unstable();
            proptest::prop_assert_eq!(all, (0..needs.len()).collect::<Vec<_>>());
            for (at, width) in &found.shown {
                let need = needs[*at];
                proptest::prop_assert!(*width <= need.whole && *width >= need.least.min(8), "{:?}", found);
                proptest::prop_assert!(need.is_text || *width >= need.least, "{:?}", found);
            }
            // Too long only where all that may be left out was.
            if line(found.shown.iter().map(|column| column.1)) > width {
                proptest::prop_assert!(found.shown.iter().all(|column| needs[column.0].rank == 0), "{:?}", found);
            }
        }
    }
}
