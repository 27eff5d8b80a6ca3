//! What the findings of an expert rule mean, and what helps.

use flopgap_nsys::Rule;

/// What the rows that a rule found mean, and what to do about them.
pub fn advice(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::CudaMemcpyAsync => {
            "These asynchronous copies use pageable host memory, so the call waits for them; allocate the host side \
             pinned (cudaMallocHost, pin_memory=True)."
        }
        Rule::CudaMemcpySync => {
            "These copies hold the calling thread up until they are done; use cudaMemcpyAsync with pinned memory."
        }
        Rule::CudaMemsetSync => "These sets of host memory hold the calling thread up; use cudaMemsetAsync.",
        Rule::CudaApiSync => {
            "These calls wait for all work of a device or stream; wait for an event instead where only some of it is needed."
        }
        Rule::GpuGaps => {
            "The GPU did nothing for long here: look for work of the host that could run at the same time."
        }
        Rule::GpuTimeUtil => {
            "The GPU was busy for little of this time: the host may be too slow to launch, or waits too often."
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_advice() {
        for rule in Rule::ALL {
            assert!(advice(rule).is_some(), "{rule}");
        }
    }
}
