//! What the links between the GPUs of a machine pass at most, by their data sheets.

/// The links of a GPU to others of its machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// What they are called: `NVLink 4`.
    pub name: &'static str,
    /// Bytes per second in each direction, all links of the GPU together: half of what data sheets
    /// give.
    pub bytes: f64,
    /// Whether switches between them can add up, as those of `NVLink` 4 and later can.
    pub switches_add: bool,
}

/// Names as drivers give them, without the maker; the links, and the GB/s of both directions by the
/// data sheet. Modules alone: whether a bridge connects cards, or a rack superchips, is not
/// recorded.
const LINKS: &[(&[&str], &str, f64)] = &[
    (&["B200"], "NVLink 5", 1800.0),
    (&["H200", "H100 80GB HBM3", "H20"], "NVLink 4", 900.0),
    (&["H800"], "NVLink 4", 400.0),
    (&["A100-SXM4-80GB", "A100-SXM4-40GB"], "NVLink 3", 600.0),
    (&["A800-SXM4-80GB"], "NVLink 3", 400.0),
    (&["V100-SXM2-16GB", "V100-SXM2-32GB"], "NVLink 2", 300.0),
];

impl Link {
    /// The links of a GPU by what the driver calls it; none where its name does not say that it has
    /// any.
    ///
    /// ```
    /// use flopgap_gap::Link;
    ///
    /// assert_eq!(Link::of("NVIDIA H200").unwrap().bytes, 450e9);
    /// assert!(Link::of("NVIDIA H100 PCIe").is_none());
    /// ```
    pub fn of(gpu: &str) -> Option<Link> {
        let name = gpu.strip_prefix("NVIDIA ").or_else(|| gpu.strip_prefix("Tesla ")).unwrap_or(gpu);
        let (_, link, both) = LINKS.iter().find(|(names, _, _)| names.contains(&name))?;
        let switches_add = matches!(*link, "NVLink 4" | "NVLink 5");
        Some(Link { name: link, bytes: both * 1e9 / 2.0, switches_add })
    }

    /// The largest bus bandwidth that a collective of some ranks can have, in bytes per second. An
    /// all-reduce whose sums are made in the switches sends its message once, where the bus
    /// bandwidth counts `2 (n - 1) / n` of it.
    ///
    /// ```
    /// use flopgap_gap::Link;
    ///
    /// let link = Link::of("NVIDIA H200").unwrap();
    /// assert_eq!(link.bus_bandwidth(false, 8), 450e9);
    /// assert_eq!(link.bus_bandwidth(true, 8), 787.5e9);
    /// ```
    pub fn bus_bandwidth(&self, is_all_reduce: bool, ranks: u64) -> f64 {
        let ranks = ranks.max(2) as f64;
        let counted = if is_all_reduce && self.switches_add { 2.0 * (ranks - 1.0) / ranks } else { 1.0 };
        self.bytes * counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peaks;

    #[test]
    fn each_gpu_with_links_has_a_data_sheet_and_no_card_has_any() {
        for name in LINKS.iter().flat_map(|(names, _, _)| *names) {
            assert!(Peaks::of(&format!("NVIDIA {name}")).is_some(), "{name}");
        }
        for card in ["NVIDIA A100 80GB PCIe", "NVIDIA H100 NVL", "NVIDIA L40S", "NVIDIA GH200 480GB"] {
            assert_eq!(Link::of(card), None, "{card}");
        }
    }
}
