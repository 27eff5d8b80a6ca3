//! Interns the kinds of GPU work.

use rustc_hash::FxHashMap;

use crate::tables::gpu::Kind;
use crate::trace::Tally;

/// The kinds of work: kernels and graphs by the id of their name, copies and memsets by bytes.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    places: FxHashMap<(Kind, Option<i64>), u32>,
    all: Vec<(Kind, Option<i64>)>,
    last: Option<((Kind, Option<i64>), u32)>,
    /// Kernels without a name.
    pub(crate) unnamed: Tally,
}

impl Kinds {
    /// The index of a kind, which is added if new.
    pub(crate) fn place(&mut self, kind: Kind, id: Option<i64>) -> u32 {
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
    pub(crate) fn all(&self) -> &[(Kind, Option<i64>)] {
        &self.all
    }
}
