//! Nodes of CUDA graphs, and the calls that were captured as them.

use flopgap_timings::without_version;
use flopgap_trace::WorkKind;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::host::{Host, NONE};
use crate::operation::{Kind, Lane, Op};

/// What is known of the nodes of CUDA graphs that ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graphs {
    /// How many ran.
    pub(crate) nodes: u64,
    /// Those whose captured calls are known.
    pub(crate) named: u64,
    /// Captured calls that have the same operators in graphs of other sizes.
    sizes_differ: FxHashSet<u32>,
}

impl Graphs {
    /// Whether the sizes of a node's operator are known.
    pub(crate) fn is_sized(&self, op: &Op) -> bool {
        !self.sizes_differ.contains(&op.captured)
    }
}

/// What a call does to a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Begin,
    End,
    /// It launches a kernel, or requests a copy or memset.
    Node(WorkKind),
    /// It makes a stream wait for another: nodes may have an order of their own.
    Wait,
    Other,
}

impl Role {
    fn of(call: &str) -> Role {
        let name = without_version(call);
        let is_async = name.contains("Async");
        if name.contains("BeginCapture") {
            Role::Begin
        } else if name.contains("EndCapture") {
            Role::End
        } else if name.contains("StreamWaitEvent") {
            Role::Wait
        } else if name.contains("LaunchKernel") || name.contains("LaunchCooperativeKernel") {
            Role::Node(WorkKind::Kernel)
        } else if is_async && name.contains("Memcpy") {
            Role::Node(WorkKind::Copy)
        } else if is_async && name.contains("Memset") {
            Role::Node(WorkKind::Set)
        } else {
            Role::Other
        }
    }
}

/// The calls that were captured as the nodes of one graph, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Capture {
    nodes: Vec<(u32, WorkKind)>,
    /// Streams waited for each other.
    branches: bool,
}

/// All captures of a recording whose replays are in it.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    all: Vec<Capture>,
    /// Which names of calls launch a graph.
    launches_graph: Vec<bool>,
}

impl Captures {
    /// What each thread requested between the beginning and the end of a capture and never ran.
    /// Where no beginning is recorded, as on AMD's GPUs, all that a thread requested and never ran.
    pub(crate) fn find(host: &Host, lanes: &[Lane]) -> Captures {
        let launches_graph = host.calls_named(|name| name.contains("GraphLaunch"));
        if !launches_graph.contains(&true) {
            return Captures::default();
        }
        let roles: Vec<Role> = host.call_names.iter().map(|(_, name)| Role::of(name)).collect();
        let marked = roles.contains(&Role::Begin);
        let mut ran = vec![false; host.calls.len()];
        for op in lanes.iter().flat_map(|lane| &lane.operations).filter(|op| op.call != NONE) {
            ran[op.call as usize] = true;
        }
        let mut all: Vec<Capture> = Vec::new();
        for calls in host.outer_calls() {
            let mut open = (!marked).then(Capture::default);
            for &call in calls {
                match (roles[host.calls[call as usize].name.index()], &mut open) {
                    (Role::Begin, _) => open = Some(Capture::default()),
                    (Role::End, _) => all.extend(open.take()),
                    (Role::Wait, Some(open)) => open.branches = marked,
                    (Role::Node(kind), Some(open)) if !ran[call as usize] => open.nodes.push((call, kind)),
                    _ => {}
                }
            }
            all.extend(open.filter(|_| !marked));
        }
        all.retain(|capture| !capture.nodes.is_empty() && !capture.branches);
        Captures { all, launches_graph }
    }

    /// Gives the nodes of each replay the calls that were captured as them: where they ran in one
    /// stream, as many as one capture has, or several that agree in their operators.
    pub(crate) fn assign(&self, host: &Host, lanes: &mut [Lane], kinds: &[Kind]) -> Graphs {
        let mut graphs = Graphs::default();
        if self.launches_graph.is_empty() {
            return graphs;
        }
        let mut known: FxHashMap<usize, Option<&Capture>> = FxHashMap::default();
        for lane in lanes {
            let mut replays: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
            for (at, op) in (0_u32..).zip(&lane.operations).filter(|(_, op)| op.call != NONE) {
                if self.launches_graph[host.calls[op.call as usize].name.index()] {
                    replays.entry(op.call).or_default().push(at);
                    graphs.nodes += 1;
                }
            }
            for nodes in replays.into_values() {
                let capture =
                    *known.entry(nodes.len()).or_insert_with(|| self.of(nodes.len(), host, &mut graphs));
                let Some(capture) = capture else { continue };
                let op = |at: u32| &lane.operations[at as usize];
                let in_one_stream = nodes.iter().all(|at| op(*at).stream() == op(nodes[0]).stream());
                // A copy or memset may run as a kernel.
                let is_kernel = |at: u32| kinds[op(at).kind as usize].info.is_some();
                let agrees =
                    |(at, (_, kind)): (&u32, &(u32, WorkKind))| *kind != WorkKind::Kernel || is_kernel(*at);
                if in_one_stream && nodes.iter().zip(&capture.nodes).all(agrees) {
                    graphs.named += nodes.len() as u64;
                    for (at, (call, _)) in nodes.iter().zip(&capture.nodes) {
                        lane.operations[*at as usize].captured = *call;
                    }
                }
            }
        }
        graphs
    }

    /// The capture with so many nodes; none where several differ in what launched their nodes.
    fn of(&self, nodes: usize, host: &Host, graphs: &mut Graphs) -> Option<&Capture> {
        let mut all = self.all.iter().filter(|capture| capture.nodes.len() == nodes);
        let first = all.next()?;
        let range = |call: u32| host.range_of(call, None);
        let name = |call: u32| host.name_of_range(host.responsible(range(call)));
        let work = |call: u32| host.works.get(host.operator_of(range(call)) as usize).map(|(_, work)| work);
        for other in all {
            for ((one, kind), (same, kind_of_same)) in first.nodes.iter().zip(&other.nodes) {
                if kind != kind_of_same || name(*one) != name(*same) {
                    return None;
                }
                if work(*one) != work(*same) {
                    graphs.sizes_differ.insert(*one);
                }
            }
        }
        Some(first)
    }
}
