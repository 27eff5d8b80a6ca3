//! Which piece of time counts for which cause, for drawings.

use std::collections::VecDeque;

use crate::{Cause, Place};

/// The pieces of the measured steps of one thread on one GPU, and of the time between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Which process on which GPU.
    pub place: Place,
    /// From when on all pieces are there, in nanoseconds since the recording began: there are more
    /// than were asked for, and the last ones are kept. Absent where all are.
    pub kept_from_ns: Option<i64>,
    /// By time; none of them overlap, and what counts for one cause without a break is one.
    pub pieces: Vec<Piece>,
}

/// A piece of time that counts for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// When it begins, in nanoseconds since the recording began.
    pub start_ns: i64,
    /// When it ends.
    pub end_ns: i64,
    /// What counts in it.
    pub cause: Cause,
}

/// The last pieces of those that are added in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Last {
    most: usize,
    pieces: VecDeque<Piece>,
    kept_from_ns: Option<i64>,
}

impl Last {
    pub(crate) fn new(most: usize) -> Last {
        Last { most, ..Last::default() }
    }

    pub(crate) fn add(&mut self, start_ns: i64, end_ns: i64, cause: Cause) {
        if self.most == 0 {
            return;
        }
        match self.pieces.back_mut() {
            Some(last) if (last.end_ns, last.cause) == (start_ns, cause) => last.end_ns = end_ns,
            _ => self.pieces.push_back(Piece { start_ns, end_ns, cause }),
        }
        if self.pieces.len() > self.most {
            self.kept_from_ns = self.pieces.pop_front().map(|piece| piece.end_ns);
        }
    }

    /// The pieces of a place; `None` without any.
    pub(crate) fn finish(self, place: Place) -> Option<Pieces> {
        let Last { pieces, kept_from_ns, .. } = self;
        (!pieces.is_empty()).then(|| Pieces { place, kept_from_ns, pieces: pieces.into() })
    }
}
