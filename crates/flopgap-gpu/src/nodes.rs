//! The kernels of a graph: which ones a library launches, and how.

use cudarc::driver::sys;

use crate::device::copy_c_string;
use crate::error::{During as _, GpuError};
use crate::graph::Graph;

/// A kernel in a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelNode {
    /// Its name as it was compiled: mangled, where it is of C++.
    pub name: String,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Registers of a thread, where the driver reports it.
    pub registers: Option<u32>,
    /// Blocks that a multiprocessor holds at once, where the driver reports it.
    pub resident: Option<u32>,
}

impl KernelNode {
    /// Blocks.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&size| u64::from(size)).product()
    }

    /// How often a GPU with so many multiprocessors has to be filled until all blocks have run.
    pub fn waves(&self, multiprocessors: u32) -> Option<f64> {
        let at_once = u64::from(self.resident?) * u64::from(multiprocessors);
        (at_once > 0).then(|| self.blocks() as f64 / at_once as f64)
    }
}

impl Graph {
    /// The kernels of the graph, in the driver's order: that in which they were captured, on one
    /// stream.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn kernels(&self) -> Result<Vec<KernelNode>, GpuError> {
        let action = "list the kernels of a graph";
        let graph = self.cuda().cu_graph();
        let mut count = self.nodes();
        let mut nodes: Vec<sys::CUgraphNode> = vec![std::ptr::null_mut(); count];
        // SAFETY: the graph is alive, and there is room for so many nodes.
        unsafe { sys::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count) }.result().during(action)?;
        nodes.truncate(count);
        let mut kernels = Vec::with_capacity(count);
        for node in nodes {
            let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            // SAFETY: the node belongs to the graph. The driver is asked with a type of a version
            // that it knows.
            unsafe { sys::cuGraphNodeGetType(node, &raw mut kind) }.result().during(action)?;
            if kind == sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL {
                kernels.push(kernel(node).during(action)?);
            }
        }
        Ok(kernels)
    }
}

/// Reads a node that is a kernel.
fn kernel(node: sys::CUgraphNode) -> Result<KernelNode, cudarc::driver::DriverError> {
    let mut found = std::mem::MaybeUninit::<sys::CUDA_KERNEL_NODE_PARAMS>::zeroed();
    // SAFETY: the node is a kernel; all fields are numbers or pointers, of which zero is a value.
    let found = unsafe {
        sys::cuGraphKernelNodeGetParams_v2(node, found.as_mut_ptr()).result()?;
        found.assume_init()
    };
    let mut function = found.func;
    if function.is_null() {
        // A kernel of a library that is not tied to a context.
        // SAFETY: the pointer is valid for the call, the kernel that of the node.
        unsafe { sys::cuKernelGetFunction(&raw mut function, found.kern) }.result()?;
    }
    let mut name = std::ptr::null();
    // SAFETY: the function is loaded; the driver owns the name.
    let name = unsafe {
        sys::cuFuncGetName(&raw mut name, function).result()?;
        copy_c_string(name).unwrap_or_default()
    };
    let threads = found.blockDimX * found.blockDimY * found.blockDimZ;
    let (mut registers, mut resident) = (0, 0);
    // SAFETY: as above; both pointers are valid for the calls.
    let (has_registers, has_resident) = unsafe {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
        let registers = sys::cuFuncGetAttribute(&raw mut registers, attribute, function);
        let block = i32::try_from(threads).unwrap_or(i32::MAX);
        let shared = found.sharedMemBytes as usize;
        let resident =
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut resident, function, block, shared);
        (registers.result().is_ok(), resident.result().is_ok())
    };
    let reported = |has: bool, value: i32| u32::try_from(value).ok().filter(|_| has);
    Ok(KernelNode {
        name,
        grid: [found.gridDimX, found.gridDimY, found.gridDimZ],
        threads,
        shared: found.sharedMemBytes,
        registers: reported(has_registers, registers),
        resident: reported(has_resident, resident),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_count_how_often_the_gpu_is_filled() {
        let node = KernelNode {
            name: "k".to_owned(),
            grid: [33, 4, 2],
            threads: 128,
            shared: 0,
            registers: Some(32),
            resident: Some(2),
        };
        assert_eq!(node.blocks(), 264);
        assert_eq!(node.waves(132), Some(1.0));
        assert_eq!(KernelNode { resident: None, ..node }.waves(132), None);
    }
}
