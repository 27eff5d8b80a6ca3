//! CUDA graphs.

use super::TableSpec;
use super::placement::{Placement, placement};
use crate::rows::Decoded;
use crate::{Error, GraphExecId, GraphId, RowsOf, Trace};

pub(crate) const GRAPH: TableSpec =
    TableSpec::new("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUDA graphs traced as a whole");

/// A launch of a whole CUDA graph, as `--cuda-graph-trace=graph` records it: its kernels and copies
/// have no rows of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphRun {
    /// When and where all of it ran.
    pub at: Placement,
    /// The graph.
    pub graph: GraphId,
    /// The instance of the graph that was launched.
    pub executable: GraphExecId,
}

/// Every launch of a whole graph.
pub(crate) fn graph_runs(trace: &Trace) -> Result<impl Decoded<GraphRun> + use<>, Error> {
    let mut select = trace.select(&GRAPH);
    let at = placement(&mut select);
    let (graph, executable) = (select.need("graphId"), select.need("graphExecId"));
    select.rows(move |row| {
        Some(GraphRun {
            at: at(row)?,
            graph: GraphId(row.int(graph)?),
            executable: GraphExecId(row.int(executable)?),
        })
    })
}

impl Trace {
    /// Every launch of a whole graph, in the order of the file. nsys's own reports leave them out.
    ///
    /// # Errors
    /// As [`Trace::kernels`].
    pub fn graph_runs(&self) -> Result<RowsOf<GraphRun>, Error> {
        graph_runs(self).map(|rows| RowsOf::new(self, rows))
    }
}
