//! The pieces of a step, for drawings.

use std::collections::BTreeMap;

use flopgap_gap::{Gap, Options, Pieces, gap};

use crate::{fixture, open};

fn with_pieces(name: &str, pieces: usize) -> Gap {
    let opened = open(&fixture(name));
    gap(opened.trace.as_ref(), &Options { pieces, ..Options::default() }).unwrap()
}

const TRACES: [&str; 4] = [
    "advice/layer-timers.before.json.zst",
    "nsys/small_training_step.sqlite.zst",
    "nsys/two_ranks_nccl.sqlite.zst",
    "kineto/graph.json.gz",
];

#[test]
fn pieces_add_up_to_the_parts_and_do_not_overlap() {
    for name in TRACES {
        let found = with_pieces(name, 1_000_000);
        let mut sums: BTreeMap<_, i64> = BTreeMap::new();
        for Pieces { pieces, kept_from_ns, .. } in &found.pieces {
            assert_eq!(*kept_from_ns, None, "{name}");
            for piece in pieces {
                assert!(piece.start_ns < piece.end_ns, "{name}: {piece:?}");
                *sums.entry(piece.cause).or_default() += piece.end_ns - piece.start_ns;
            }
            for pair in pieces.windows(2) {
                assert!(pair[0].end_ns <= pair[1].start_ns, "{name}: {pair:?}");
                assert!(pair[0].end_ns < pair[1].start_ns || pair[0].cause != pair[1].cause, "{name}");
            }
        }
        let parts: BTreeMap<_, i64> = found.parts.iter().map(|part| (part.cause, part.ns)).collect();
        assert_eq!(sums, parts, "{name}");
    }
}

#[test]
fn the_last_pieces_are_kept_where_there_are_more_and_none_unless_asked_for() {
    let name = TRACES[0];
    let all = with_pieces(name, 1_000_000);
    let [all] = &all.pieces[..] else { panic!("{all:?}") };
    let some = with_pieces(name, 10);
    let [some] = &some.pieces[..] else { panic!("{some:?}") };
    let (left, kept) = all.pieces.split_at(all.pieces.len() - 10);
    assert_eq!(some.pieces, kept);
    assert_eq!(some.kept_from_ns, left.last().map(|piece| piece.end_ns));
    assert!(with_pieces(name, 0).pieces.is_empty());
    // What serde writes does not grow with them.
    let written = serde_json::to_value(with_pieces(name, 10)).unwrap();
    assert!(written.get("pieces").is_none());
}
