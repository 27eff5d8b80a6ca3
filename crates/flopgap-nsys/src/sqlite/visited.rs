//! Which pages were read.

use super::error::{Damage, Fault};

/// Which pages were read: none may be read twice, so that no damage makes a walk endless.
pub(crate) struct Visited {
    bits: Vec<u64>,
}

impl Visited {
    pub(crate) fn new(pages: u32) -> Visited {
        Visited { bits: vec![0; pages as usize / 64 + 1] }
    }

    /// Marks a page that is in the file; when it was marked before, `named_by` is reported as
    /// damaged.
    pub(crate) fn mark(&mut self, page: u32, named_by: u32) -> Result<(), Fault> {
        let (word, bit) = (page as usize / 64, 1 << (page % 64));
        match self.bits.get_mut(word) {
            Some(bits) if *bits & bit == 0 => {
                *bits |= bit;
                Ok(())
            }
            _ => Damage::PageTwice.on(named_by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_marked_once() {
        let mut visited = Visited::new(130);
        for page in [1, 63, 64, 130] {
            assert!(visited.mark(page, 1).is_ok());
            let again = visited.mark(page, 9);
            assert!(matches!(again, Err(Fault::Damaged { page: 9, damage: Damage::PageTwice })));
        }
        assert!(visited.mark(1000, 1).is_err(), "beyond the file");
    }
}
