//! CUDA graphs.

use super::operation::{MORE, Placement, placed, placement};
use crate::row::Row;
use crate::tables::{Column, GRAPH, GRAPH_EVENTS, GRAPH_NODES, TableSpec, need, want};
use crate::{Error, GlobalId, RowsOf, Trace};

/// A launch of a whole CUDA graph, as `--cuda-graph-trace=graph` records it: its kernels and copies have no rows of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphRun {
    /// When and where all of it ran.
    pub at: Placement,
    /// The graph.
    pub graph: i64,
    /// The instance of the graph that was launched.
    pub executable: i64,
}

/// The making of a CUDA graph or of a node of one, by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphCreation {
    /// When it began, in nanoseconds since the recording began.
    pub start: i64,
    /// When it was done.
    pub end: i64,
    /// What it was: 77 a node, 94 an executable instance, 95 a graph, 96 a copy of a graph.
    pub class: i64,
    /// The thread.
    pub thread: Option<GlobalId>,
    /// The function's name, for [`Trace::string`].
    pub name: i64,
    /// What was made: a graph, an instance, or a node.
    pub what: GraphPart,
}

/// What a [`GraphCreation`] made. Ids are those of [`GraphRun`], and of [`Kernel::graph_node`](crate::Kernel::graph_node).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphPart {
    /// A graph, or an instance of it that can be launched.
    Graph {
        /// The graph; absent where only the instance is known.
        graph: Option<i64>,
        /// The graph that it was copied from.
        original: Option<i64>,
        /// The instance.
        executable: Option<i64>,
    },
    /// A node.
    Node {
        /// The node.
        node: i64,
        /// The node that it was copied from.
        original: Option<i64>,
    },
}

const CREATION: [Column; 5] =
    [need("start"), need("end"), want("eventClass"), want("globalTid"), need("nameId")];

fn creation(row: &Row<'_>, what: GraphPart) -> Option<GraphCreation> {
    Some(GraphCreation {
        start: row.int(0)?,
        end: row.int(1)?,
        class: row.int(2).unwrap_or_default(),
        thread: row.int(3).map(GlobalId),
        name: row.int(4)?,
        what,
    })
}

impl GraphRun {
    /// The columns that [`GraphRun::of`] reads.
    fn columns() -> Vec<Column> {
        placed([need("graphId"), need("graphExecId")])
    }

    fn of(row: &Row<'_>) -> Option<GraphRun> {
        Some(GraphRun { at: placement(row)?, graph: row.int(MORE)?, executable: row.int(MORE + 1)? })
    }
}

impl Trace {
    /// Calls `visit` with every launch of a whole graph, in the order of the file. nsys's own reports leave them out.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn graph_runs(&self, mut visit: impl FnMut(GraphRun)) -> Result<(), Error> {
        self.scan(&GRAPH, &GraphRun::columns(), |row| {
            visit(GraphRun::of(row)?);
            Some(())
        })
    }

    /// Every launch of a whole graph, in the order of the file, one when it is asked for.
    ///
    /// # Errors
    /// As [`Trace::kernel_rows`].
    pub fn graph_run_rows(&self) -> Result<RowsOf<GraphRun>, Error> {
        self.rows_of(&GRAPH, &GraphRun::columns(), GraphRun::of)
    }

    /// Calls `visit` with the making of every graph and node, in the order of the file.
    ///
    /// Exports before 2024 record nodes alone, in the table that is for graphs now.
    ///
    /// # Errors
    /// [`Error::NoTable`] when neither was recorded.
    pub fn graph_creations(&self, mut visit: impl FnMut(GraphCreation)) -> Result<(), Error> {
        let mut found = false;
        if self.schema().has(GRAPH_EVENTS.name, "graphId") {
            let more = [want("graphId"), want("originalGraphId"), want("graphExecId")];
            let columns: Vec<Column> = CREATION.into_iter().chain(more).collect();
            self.scan(&GRAPH_EVENTS, &columns, |row| {
                let (graph, original, executable) = (row.int(5), row.int(6), row.int(7));
                visit(creation(row, GraphPart::Graph { graph, original, executable })?);
                Some(())
            })?;
            found = true;
        }
        let nodes: [&TableSpec; 2] = [&GRAPH_NODES, &GRAPH_EVENTS];
        if let Some(table) = nodes.into_iter().find(|table| self.schema().has(table.name, "graphNodeId")) {
            let columns: Vec<Column> =
                CREATION.into_iter().chain([need("graphNodeId"), want("originalGraphNodeId")]).collect();
            self.scan(table, &columns, |row| {
                visit(creation(row, GraphPart::Node { node: row.int(5)?, original: row.int(6) })?);
                Some(())
            })?;
            found = true;
        }
        if found { Ok(()) } else { self.require(&GRAPH_EVENTS).map(drop) }
    }
}
