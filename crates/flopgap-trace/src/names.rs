//! Strings, each kept once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// A string of a [`Names`], or a name of a [`RangeNames`](crate::RangeNames).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(u32);

impl Name {
    /// The name at a place.
    ///
    /// # Panics
    /// From 2³² on, which no trace of less than 64 GB holds.
    pub fn at(place: usize) -> Name {
        Name(u32::try_from(place).expect("fewer than 2^32 distinct strings"))
    }

    /// Its place among the names of its collection, in the order in which they were kept.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The distinct strings of a trace that were requested, so that rows compare and group by number.
#[derive(Clone, Debug, Default)]
pub struct Names {
    by_text: FxHashMap<Arc<str>, Name>,
    texts: Vec<Arc<str>>,
}

impl Names {
    /// The name of `text`, which is kept when it is new.
    ///
    /// # Panics
    /// With more than 2³² distinct strings, which no trace of less than 64 GB can hold.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(&name) = self.by_text.get(text) {
            return name;
        }
        let name = Name::at(self.texts.len());
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        self.by_text.insert(text, name);
        name
    }

    /// The name of `text`, when it is kept.
    pub fn get(&self, text: &str) -> Option<Name> {
        self.by_text.get(text).copied()
    }

    /// All names, in the order in which they were kept.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Name, &Arc<str>)> {
        self.texts.iter().enumerate().map(|(at, text)| (Name::at(at), text))
    }

    /// The text of a name of this collection.
    pub fn text(&self, name: Name) -> &Arc<str> {
        &self.texts[name.0 as usize]
    }
}
