//! The algorithm that cuBLASLt chose.

use cudarc::cublaslt::sys;
use sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;

/// The tiles of `cublasLtMatmulTile_t`, rows by columns, from number 1 on.
const TILES: &str = include_str!("tiles.txt");

/// The clusters of `cublasLtClusterShape_t`, from number 2 on; the third dimension is always 1.
const CLUSTERS: &str = "1x1 2x1 4x1 1x2 2x2 4x2 1x4 2x4 4x4 8x1 1x8 8x2 2x8 16x1 1x16 3x1 5x1 6x1 7x1 9x1 10x1 11x1 12x1 \
     13x1 14x1 15x1 3x2 5x2 6x2 7x2 1x3 2x3 3x3 4x3 5x3 3x4 1x5 2x5 3x5 1x6 2x6 1x7 2x7 1x9 1x10 1x11 1x12 1x13 1x14 1x15";

/// An algorithm of cuBLASLt with its configuration. What this version of the library does not tell
/// is absent.
///
/// The library sees the transposed product (its matrices are column-major): tile and cluster are
/// turned here, so that their rows are those of [`Product`](super::Product).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Choice {
    /// The number of the algorithm.
    pub id: Option<i32>,
    /// The library's number of the tile.
    pub tile_id: Option<u32>,
    /// Rows (of `m`) and columns (of `n`) of a block's part of the result; absent for a number that
    /// has no size here.
    pub tile: Option<[u32; 2]>,
    /// The library's number of the pipeline's stages.
    pub stages: Option<u32>,
    /// Parts that the inner sum is cut into; 0 and 1 both stand for none.
    pub split_k: Option<i32>,
    /// How the parts are added up: 0 there are none, 1 in place, 2 in the type of the sums, 4 in
    /// that of the result.
    pub reduction: Option<u32>,
    /// Whether blocks are renumbered for the cache.
    pub swizzle: Option<u32>,
    /// The library's own variant of the algorithm.
    pub custom: Option<u32>,
    /// The library's number of the instruction's shape.
    pub inner_shape: Option<u16>,
    /// Blocks of a cluster along `m` and `n`; absent where the library chooses at launch.
    pub cluster: Option<[u32; 2]>,
    /// Waves of blocks, as the heuristic estimates them.
    pub waves: f32,
    /// Bytes of workspace.
    pub workspace: usize,
}

impl Choice {
    /// Reads the configuration of what the heuristic returned.
    pub(super) fn new(found: &sys::cublasLtMatmulHeuristicResult_t) -> Self {
        let tile_id: Option<u32> = attribute(&found.algo, Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID);
        let cluster: Option<u16> = attribute(&found.algo, Attribute::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
        Choice {
            id: attribute(&found.algo, Attribute::CUBLASLT_ALGO_CONFIG_ID),
            tile_id,
            tile: tile_id.and_then(tile),
            stages: attribute(&found.algo, Attribute::CUBLASLT_ALGO_CONFIG_STAGES_ID),
            split_k: attribute(&found.algo, Attribute::CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
            reduction: attribute(&found.algo, Attribute::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
            swizzle: attribute(&found.algo, Attribute::CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
            custom: attribute(&found.algo, Attribute::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
            inner_shape: attribute(&found.algo, Attribute::CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
            cluster: cluster.and_then(|id| self::cluster(u32::from(id))),
            waves: found.wavesCount,
            workspace: found.workspaceSize,
        }
    }
}

/// Types for which any bits from the library are valid.
trait Number: Copy + Default {}
impl Number for i32 {}
impl Number for u32 {}
impl Number for u16 {}

/// An attribute, if this version has it with this size.
fn attribute<T: Number>(algorithm: &sys::cublasLtMatmulAlgo_t, attribute: Attribute) -> Option<T> {
    let (mut value, mut written) = (T::default(), 0_usize);
    // SAFETY: the algorithm came from the heuristic; the library writes at most the bytes that
    // it is given.
    let status = unsafe {
        sys::cublasLtMatmulAlgoConfigGetAttribute(
            algorithm,
            attribute,
            (&raw mut value).cast(),
            size_of::<T>(),
            &raw mut written,
        )
    };
    (status.result().is_ok() && written == size_of::<T>()).then_some(value)
}

/// The size of a tile, turned.
fn tile(id: u32) -> Option<[u32; 2]> {
    turned(TILES, id.checked_sub(1)?)
}

/// The size of a cluster, turned.
fn cluster(id: u32) -> Option<[u32; 2]> {
    turned(CLUSTERS, id.checked_sub(2)?)
}

fn turned(list: &str, index: u32) -> Option<[u32; 2]> {
    let (rows, columns) = list.split_whitespace().nth(usize::try_from(index).ok()?)?.split_once('x')?;
    Some([columns.parse().ok()?, rows.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_and_clusters_have_the_library_s_numbers() {
        use sys::cublasLtClusterShape_t as Cluster;
        use sys::cublasLtMatmulTile_t as Tile;
        assert_eq!(tile(Tile::CUBLASLT_MATMUL_TILE_UNDEFINED as u32), None);
        assert_eq!(tile(Tile::CUBLASLT_MATMUL_TILE_8x16 as u32), Some([16, 8]));
        assert_eq!(tile(Tile::CUBLASLT_MATMUL_TILE_128x256 as u32), Some([256, 128]));
        assert_eq!(tile(Tile::CUBLASLT_MATMUL_TILE_768x80 as u32), Some([80, 768]));
        assert_eq!(tile(10_000), None);
        assert_eq!(cluster(Cluster::CUBLASLT_CLUSTER_SHAPE_AUTO as u32), None);
        assert_eq!(cluster(Cluster::CUBLASLT_CLUSTER_SHAPE_2x1x1 as u32), Some([1, 2]));
        assert_eq!(cluster(Cluster::CUBLASLT_CLUSTER_SHAPE_16x1x1 as u32), Some([1, 16]));
        assert_eq!(cluster(Cluster::CUBLASLT_CLUSTER_SHAPE_1x15x1 as u32), Some([15, 1]));
        assert_eq!(cluster(Cluster::CUBLASLT_CLUSTER_SHAPE_END as u32), None);
        let all_known = TILES.split_whitespace().count();
        assert!((1..=all_known).all(|id| tile(u32::try_from(id).unwrap()).is_some()));
    }
}
