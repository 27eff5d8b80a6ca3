//! Layers added up by the modules that they are in.

use std::collections::{BTreeSet, HashMap};

use flopgap_flops::{FlopError, Work};
use flopgap_graph::{Graph, Op};
use serde_json::{Value, json};

/// One row for each module, with all that it contains
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Module {
    /// Dots between the parts; empty for the model itself.
    pub(super) path: String,
    /// Layers in it, views included.
    pub(super) layers: u64,
    /// Those of them that no total has.
    pub(super) unknown: u64,
    /// Elements of the parameters that they read; one that several read counts once.
    pub(super) parameters: u64,
    pub(super) macs: u64,
    pub(super) work: Work,
}

impl Module {
    /// 0 for the model itself.
    pub(super) fn depth(&self) -> u64 {
        if self.path.is_empty() { 0 } else { 1 + self.path.matches('.').count() as u64 }
    }

    pub(super) fn in_json(&self) -> Value {
        json!({
            "module": self.path,
            "layers": self.layers,
            "unknown": self.unknown,
            "parameters": self.parameters,
            "macs": self.macs,
            "work": self.work,
        })
    }
}

/// All modules, the model first, each before what it contains, otherwise in the order in which they
/// run.
pub(super) fn of(graph: &Graph) -> Result<Vec<Module>, FlopError> {
    let mut modules: Vec<Module> = vec![Module::default()];
    let mut children: Vec<Vec<usize>> = vec![Vec::new()];
    let mut by_path: HashMap<String, usize> = HashMap::from([(String::new(), 0)]);
    let mut counted: Vec<BTreeSet<usize>> = vec![BTreeSet::new()];
    let overflow = || FlopError::Overflow { quantity: "module totals".into() };
    for layer in &graph.layers {
        let macs = layer.op.as_ref().map_or(Ok(0), Op::multiply_adds)?;
        // The model, and each module on the way to the layer's.
        let ends = layer.module.match_indices('.').map(|(end, _)| end).chain([layer.module.len()]);
        let mut inside = vec![0];
        for end in ends.filter(|&end| end > 0) {
            let path = &layer.module[..end];
            let index = *by_path.entry(path.to_owned()).or_insert_with(|| {
                modules.push(Module { path: path.to_owned(), ..Module::default() });
                counted.push(BTreeSet::new());
                children.push(Vec::new());
                let index = modules.len() - 1;
                if let Some(&parent) = inside.last() {
                    children[parent].push(index);
                }
                index
            });
            inside.push(index);
        }
        for index in inside {
            let module = &mut modules[index];
            module.layers += 1;
            module.unknown += u64::from(layer.work.is_none());
            module.macs = module.macs.checked_add(macs).ok_or_else(overflow)?;
            module.work = module.work.checked_add(&layer.work.unwrap_or_default())?;
            for &tensor in layer.inputs.iter().filter(|&&tensor| graph.tensors[tensor].parameter) {
                if counted[index].insert(tensor) {
                    let elements = graph.tensors[tensor].elements()?;
                    module.parameters = module.parameters.checked_add(elements).ok_or_else(overflow)?;
                }
            }
        }
    }
    let mut order = Vec::new();
    let mut open = vec![0];
    while let Some(index) = open.pop() {
        order.push(modules[index].clone());
        open.extend(children[index].iter().rev());
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use flopgap_graph::{ResnetSpec, Workload};

    use super::*;

    #[test]
    fn modules_contain_their_parts() {
        let graph = Workload::Resnet(ResnetSpec { depth: 18, batch: 1, image: 224 }).graph().unwrap();
        let modules = of(&graph).unwrap();
        let find = |path: &str| modules.iter().find(|module| module.path == path).unwrap();
        assert_eq!(modules[0].path, "");
        assert_eq!((modules[0].macs, modules[0].work), (1_814_073_344, graph.work().unwrap()));
        assert_eq!(modules[0].parameters, graph.parameters().unwrap());
        let parts: u64 = modules.iter().filter(|module| module.depth() == 1).map(|module| module.macs).sum();
        assert_eq!(parts, modules[0].macs);
        assert_eq!(find("layer1").macs, find("layer1.0").macs + find("layer1.1").macs);
        let paths: Vec<&str> = modules.iter().map(|module| module.path.as_str()).collect();
        let at = |path: &str| paths.iter().position(|found| *found == path).unwrap();
        assert!(at("layer1") < at("layer1.0") && at("layer1.0.conv1") < at("layer1.1"));
        assert!(at("layer1.1") < at("layer2"));
    }
}
