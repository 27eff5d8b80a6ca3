//! The order in which nodes can run.

use rten_onnx::onnx::NodeProto;
use rustc_hash::FxHashMap;

/// Places of the nodes, each after those whose results it reads: as in the file, where that is such
/// an order. Nodes that read each other in a circle stay as they are.
pub(super) fn order(nodes: &[NodeProto]) -> Vec<usize> {
    let mut writers: FxHashMap<&str, usize> = FxHashMap::default();
    for (index, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            writers.entry(output).or_insert(index);
        }
    }
    let mut order = Vec::with_capacity(nodes.len());
    let mut begun = vec![false; nodes.len()];
    let mut waiting: Vec<(usize, Vec<usize>)> = Vec::new();
    for start in 0..nodes.len() {
        let mut next = Some(start);
        loop {
            if let Some(index) = next.filter(|&index| !std::mem::replace(&mut begun[index], true)) {
                let mut needed = Vec::new();
                reads(&nodes[index], &mut |name| needed.extend(writers.get(name).copied()));
                needed.reverse();
                waiting.push((index, needed));
            }
            let Some((index, needed)) = waiting.last_mut() else { break };
            next = needed.pop();
            if next.is_none() {
                order.push(*index);
                waiting.pop();
            }
        }
    }
    order
}

/// All names that a node reads, and the graphs in it.
fn reads<'a>(node: &'a NodeProto, read: &mut impl FnMut(&'a str)) {
    let mut nodes = vec![node];
    while let Some(node) = nodes.pop() {
        node.input.iter().filter(|input| !input.is_empty()).for_each(|input| read(input));
        let graphs = node.attribute.iter().filter_map(|attribute| attribute.g.as_ref());
        nodes.extend(graphs.flat_map(|graph| &graph.node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(inputs: &[&str], output: &str) -> NodeProto {
        NodeProto {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..NodeProto::default()
        }
    }

    #[test]
    fn nodes_follow_what_they_read() {
        let sorted = [node(&["x"], "a"), node(&["a", ""], "b"), node(&["b", "a"], "c")];
        assert_eq!(order(&sorted), [0, 1, 2]);
        let mixed = [node(&["c"], "d"), node(&["x"], "a"), node(&["b", "a"], "c"), node(&["a"], "b")];
        assert_eq!(order(&mixed), [1, 3, 2, 0]);
        let circle = [node(&["b"], "a"), node(&["a"], "b")];
        assert_eq!(order(&circle).len(), 2);
        let graph = rten_onnx::onnx::GraphProto { node: vec![node(&["a"], "i")], ..Default::default() };
        let mut outer = node(&["x"], "r");
        outer.attribute = vec![rten_onnx::onnx::AttributeProto { g: Some(graph), ..Default::default() }];
        assert_eq!(order(&[outer, node(&["x"], "a")]), [1, 0], "read within a graph of the node");
    }
}
