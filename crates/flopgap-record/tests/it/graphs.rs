//! Launches of CUDA graphs: by node or as a whole.

use flopgap_record::{Graphs, Options};

use crate::program::{Recorded, Rows};

fn recorded(graphs: Graphs, range: Option<&str>, mode: &str) -> Rows {
    let mut options = Options::default();
    options.graphs = graphs;
    options.range = range.map(str::to_owned);
    let recorded = Recorded::new(options);
    assert!(recorded.program(&[mode, "200"]).status().unwrap().success());
    recorded.export().1
}

/// Rows of whole graphs, and kernels of nodes.
fn rows(rows: &Rows) -> (i64, i64) {
    let count = |query: &str| rows.of::<i64>(query)[0];
    let has_graphs =
        count("SELECT count(*) FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_GRAPH_TRACE'");
    let whole =
        if has_graphs > 0 { count("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE") } else { 0 };
    let nodes = "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphNodeId IS NOT NULL";
    (whole, count(nodes))
}

#[test]
fn graphs_are_recorded_by_node_or_as_a_whole() {
    assert_eq!(rows(&recorded(Graphs::Nodes, None, "graphs")), (0, 200 * 3));
    assert_eq!(rows(&recorded(Graphs::Whole, None, "graphs")), (200, 0));
}

/// CUPTI crashes with graphs that were made before whole ones are recorded.
#[test]
fn a_recording_that_begins_later_has_no_whole_graphs() {
    for (graphs, problems) in [(Graphs::Nodes, 0), (Graphs::Whole, 1)] {
        let export = recorded(graphs, Some("even"), "graphs-later");
        assert_eq!(rows(&export), (0, 200 * 3), "{graphs:?}");
        assert_eq!(export.problems().len(), problems, "{:?}", export.problems());
    }
}
