//! Encodings of positions: every kernel against the 64-bit reference.

mod agreement;
mod device;
mod kernels;
mod training;

use flopgap_mlp::encoding::{Encoding, Frequency, HashGrid, HashGridSettings};

pub(crate) fn grid(settings: HashGridSettings) -> Encoding {
    HashGrid::new(settings).unwrap().into()
}

/// Every number of features and dimensions, of levels fewer than warps and more, rows of whole
/// words and not, and octaves up to the most.
pub(crate) fn encodings() -> Vec<Encoding> {
    let small = HashGridSettings {
        dimensions: 2,
        levels: 5,
        features: 1,
        log2_entries: 8,
        base_resolution: 4,
        growth: 1.7,
    };
    let flat = HashGridSettings { features: 2, levels: 8, base_resolution: 7, ..small };
    let deep = HashGridSettings { dimensions: 3, levels: 12, log2_entries: 12, growth: 1.5, ..flat };
    vec![
        Frequency::new(1, 24).unwrap().into(),
        Frequency::new(2, 8).unwrap().into(),
        Frequency::new(3, 5).unwrap().into(),
        grid(small),
        grid(flat),
        grid(deep),
        grid(HashGridSettings { features: 4, levels: 3, ..deep }),
        grid(HashGridSettings { features: 8, levels: 2, ..flat }),
        grid(HashGridSettings { features: 1, levels: 32, growth: 1.2, ..deep }),
        grid(HashGridSettings { features: 8, levels: 32, growth: 1.2, ..flat }),
        grid(HashGridSettings::default()),
    ]
}
