//! Interns the kinds of GPU work.

use rustc_hash::FxHashMap;

use crate::WorkKind;

/// The kinds of work: kernels and graphs by the id of their name, copies and memsets by bytes.
#[derive(Debug, Default)]
pub struct Kinds {
    places: FxHashMap<(WorkKind, Option<i64>), u32>,
    all: Vec<(WorkKind, Option<i64>)>,
    last: Option<((WorkKind, Option<i64>), u32)>,
}

impl Kinds {
    /// The index of a kind, which is added if new.
    ///
    /// # Panics
    /// With 2³² kinds, which no trace of less than 64 GB holds.
    #[inline]
    pub fn place(&mut self, kind: WorkKind, id: Option<i64>) -> u32 {
        let key = (kind, id);
        // Kernels of one name often follow each other.
        if let Some((_, place)) = self.last.filter(|(last, _)| *last == key) {
            return place;
        }
        let all = &mut self.all;
        let place = *self.places.entry(key).or_insert_with(|| {
            all.push(key);
            u32::try_from(all.len() - 1).expect("fewer than 2^32 distinct kernels")
        });
        self.last = Some((key, place));
        place
    }

    /// All kinds, by their places.
    #[inline]
    pub fn all(&self) -> &[(WorkKind, Option<i64>)] {
        &self.all
    }
}
