//! CUDA graphs.

use super::TableSpec;
use super::codes::GraphClass;
use super::placement::{Placement, placement};
use crate::row::Row;
use crate::rows::{Decoded, Select};
use crate::{Error, GraphExecId, GraphId, GraphNodeId, RowsOf, StringId, ThreadId, Trace};

pub(crate) const GRAPH: TableSpec =
    TableSpec::new("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUDA graphs traced as a whole");
const GRAPH_EVENTS: TableSpec = TableSpec::new("CUDA_GRAPH_EVENTS", "the creation of CUDA graphs");
const GRAPH_NODES: TableSpec =
    TableSpec::new("CUDA_GRAPH_NODE_EVENTS", "the creation of nodes of CUDA graphs");

/// A launch of a whole CUDA graph, as `--cuda-graph-trace=graph` records it: its kernels and copies
/// have no rows of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct GraphRun {
    /// When and where all of it ran.
    pub at: Placement,
    /// The graph.
    pub graph: GraphId,
    /// The instance of the graph that was launched.
    pub executable: GraphExecId,
}

/// The creation of a CUDA graph or of a node of one, by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct GraphCreation {
    /// When it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it was done.
    pub end: i64,
    /// What it was; absent where the export does not say it.
    pub class: Option<GraphClass>,
    /// The thread.
    pub thread: Option<ThreadId>,
    /// The function's name.
    pub name: StringId,
    /// What was created: a graph, an instance, or a node.
    pub what: GraphPart,
}

/// What a [`GraphCreation`] created. Ids are those of [`GraphRun`], and of
/// [`Kernel::graph_node`](crate::Kernel::graph_node).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum GraphPart {
    /// A graph, or an instance of it that can be launched.
    Graph {
        /// The graph; absent where only the instance is known.
        graph: Option<GraphId>,
        /// The graph that it was copied from.
        original: Option<GraphId>,
        /// The instance.
        executable: Option<GraphExecId>,
    },
    /// A node.
    Node {
        /// The node.
        node: GraphNodeId,
        /// The node that it was copied from.
        original: Option<GraphNodeId>,
    },
}

/// Decodes a creation, but for what was created.
fn creation(
    select: &mut Select<'_>,
) -> impl Fn(&Row<'_>, GraphPart) -> Option<GraphCreation> + Copy + Send + use<> {
    let (start, end) = (select.need("start"), select.need("end"));
    let (class, thread, name) = (select.want("eventClass"), select.want("globalTid"), select.need("nameId"));
    move |row, what| {
        Some(GraphCreation {
            start: row.int(start)?,
            end: row.int(end)?,
            class: row.int(class).map(GraphClass::of),
            thread: row.int(thread).map(ThreadId),
            name: StringId(row.int(name)?),
            what,
        })
    }
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

    /// The creation of every graph and node, in the order of the file.
    ///
    /// Exports before 2024 record nodes alone, in the table that is for graphs now.
    ///
    /// # Errors
    /// [`Error::NoTable`] when neither was recorded.
    pub fn graph_creations(&self) -> Result<RowsOf<GraphCreation>, Error> {
        let graphs = self.schema().has(GRAPH_EVENTS.name, "graphId");
        let graphs = graphs.then(|| self.graph_creations_of_graphs()).transpose()?;
        let tables: [&'static TableSpec; 2] = [&GRAPH_NODES, &GRAPH_EVENTS];
        let nodes = tables.into_iter().find(|table| self.schema().has(table.name, "graphNodeId"));
        let nodes = nodes.map(|table| self.graph_creations_of_nodes(table)).transpose()?;
        match (graphs, nodes) {
            (Some(graphs), Some(nodes)) => Ok(graphs.then(nodes)),
            (Some(found), None) | (None, Some(found)) => Ok(found),
            // The error says which table is not there.
            (None, None) => self.graph_creations_of_graphs(),
        }
    }

    fn graph_creations_of_graphs(&self) -> Result<RowsOf<GraphCreation>, Error> {
        let mut select = self.select(&GRAPH_EVENTS);
        let creation = creation(&mut select);
        let (graph, original) = (select.want("graphId"), select.want("originalGraphId"));
        let executable = select.want("graphExecId");
        let rows = select.rows(move |row| {
            let (graph, original) = (row.int(graph).map(GraphId), row.int(original).map(GraphId));
            let executable = row.int(executable).map(GraphExecId);
            creation(row, GraphPart::Graph { graph, original, executable })
        })?;
        Ok(RowsOf::new(self, rows))
    }

    fn graph_creations_of_nodes(&self, table: &'static TableSpec) -> Result<RowsOf<GraphCreation>, Error> {
        let mut select = self.select(table);
        let creation = creation(&mut select);
        let (node, original) = (select.need("graphNodeId"), select.want("originalGraphNodeId"));
        let rows = select.rows(move |row| {
            creation(
                row,
                GraphPart::Node {
                    node: GraphNodeId(row.int(node)?),
                    original: row.int(original).map(GraphNodeId),
                },
            )
        })?;
        Ok(RowsOf::new(self, rows))
    }
}
