// The gradients of the parameters: for each layer, the gradients before its activation times its
// inputs, summed over the samples. A block has a tile of the weights and a range of the samples;
// what it finds is added to the other ranges' in a second kernel, in a fixed order, or by atomic
// additions.
#include "coopmat/mma/sums.cuh"

// ---- Tiles of a layer's weights: up to 2 x 4 warps of up to PIECE x PIECE. What warps are left
// take samples in turn.

__device__ constexpr int pieces_of(int length, int warps) {
    int tiles = (length + PIECE * warps - 1) / (PIECE * warps);
    return round_up((length + tiles * warps - 1) / (tiles * warps), 16);
}
__device__ constexpr int warps_for(int length, int most) {
    int warps = 1;
    while (warps < most && warps * PIECE < length) warps *= 2;
    return warps;
}

template <int IN, int OUT>
struct Shape {
    static constexpr int INPUTS = IN, OUTPUTS = OUT;
    static constexpr int ALONG_OUT = warps_for(OUT, 2), ALONG_IN = warps_for(IN, WARPS / 2), ALONG_SAMPLES = WARPS / ALONG_OUT / ALONG_IN;
    static constexpr int M = pieces_of(OUT, ALONG_OUT), N = pieces_of(IN, ALONG_IN);
    static constexpr int TILE_OUT = M * ALONG_OUT, TILE_IN = N * ALONG_IN;
    static constexpr int TILES_OUT = (OUT + TILE_OUT - 1) / TILE_OUT, TILES_IN = (IN + TILE_IN - 1) / TILE_IN;
    static constexpr int SAMPLES = SLAB * ALONG_SAMPLES;
    static constexpr int STAGE = SAMPLES * (pitch(TILE_OUT) + pitch(TILE_IN));
};

// One tile of one layer over the samples from `begin` to `end`. `sums`: where the layer's weights
// and then its biases go.
template <int IN, int OUT>
__device__ __forceinline__ void tile(const Storage *inputs, const Storage *deltas, int tile_index, u32 begin, u32 end, float *sums) {
    using S = Shape<IN, OUT>;
    constexpr int OUT_PITCH = pitch(S::TILE_OUT), IN_PITCH = pitch(S::TILE_IN), MT = S::M / 16, NT = S::N / 8;
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int in_warp = warp % S::ALONG_IN, out_warp = warp / S::ALONG_IN % S::ALONG_OUT, turn = warp / (S::ALONG_IN * S::ALONG_OUT);
    const int out0 = tile_index / S::TILES_IN * S::TILE_OUT, in0 = tile_index % S::TILES_IN * S::TILE_IN;
    const u32 base = shared_address(shared);

    CopyRing<STAGES> ring;
    const auto copy = [&](u32 sample) {
        const u32 to = base + ring.to_fill * S::STAGE * 2;
        const int there = sample < end ? (int)(end - sample) : 0;
        // The address of what is not there is not used.
        const u64 at = sample < end ? sample : begin;
        copy_tile<S::SAMPLES, S::TILE_OUT, OUT_PITCH, OUT>(to, deltas + at * OUT + out0, there, OUT - out0);
        copy_tile<S::SAMPLES, S::TILE_IN, IN_PITCH, IN>(to + S::SAMPLES * OUT_PITCH * 2, inputs + at * IN + in0, there, IN - in0);
        ring.filled();
    };

    // A warp sums every so-manieth 16 rows for the biases: those that share rows with it have the
    // others.
    constexpr int BIASES = biases_of<S>();
    Sums32 acc[MT][NT], bias[BIASES];
    clear(bias), clear(acc);
    const bool with_bias = in0 == 0;
    for (int stage = 0; stage < STAGES - 1; ++stage) copy(begin + stage * S::SAMPLES);
    const u32 left = base + (turn * 16 * OUT_PITCH + out_warp * S::M) * 2 + lane_offset<false>(OUT_PITCH * 2);
    const u32 right = base + (S::SAMPLES * OUT_PITCH + turn * 16 * IN_PITCH + in_warp * S::N) * 2 + lane_offset<true>(IN_PITCH * 2);
    // The operands of the next step are loaded while this one's are multiplied.
    Fragments<MT, NT> fragments[2];
    const auto load = [&](Fragments<MT, NT> &to, int k) {
        const int rows = k * 16 * S::ALONG_SAMPLES;
        to.template load<true, true, OUT_PITCH, IN_PITCH, false>(left + (ring.to_use * S::STAGE + rows * OUT_PITCH) * 2,
                                                                 right + (ring.to_use * S::STAGE + rows * IN_PITCH) * 2, 0);
    };
    const auto next_stage = [&](u32 sample) {
        ring.wait();
        copy(sample + (STAGES - 1) * S::SAMPLES);
    };
    // Steps of a warp on a stage: an even number, so that the two sets of operands take turns.
    constexpr int STEPS = SLAB / 16;
    if (begin < end) {
        next_stage(begin);
        load(fragments[0], 0);
    }
#pragma unroll 1
    for (u32 sample = begin; sample < end; sample += S::SAMPLES) {
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            if (k + 1 < STEPS) {
                load(fragments[(k + 1) & 1], k + 1);
            } else if (sample + S::SAMPLES < end) {
                ring.used();
                next_stage(sample + S::SAMPLES);
                load(fragments[0], 0);
            }
            add_gradients<S>(acc, bias, fragments[k & 1], in_warp, with_bias);
        }
    }
    wait_copies<0>();
    __syncthreads();

    flush<S>(acc, bias, in_warp, out_warp, turn, out0, in0, sums);
}

// The first layer of the same widths.
__device__ constexpr int same_as(int layer) {
    int first = 0;
    while (width(first) != width(layer) || width(first + 1) != width(layer + 1)) ++first;
    return first;
}

template <int LAYER>
__device__ __forceinline__ void dispatch(int layer, const Storage *inputs, const Storage *deltas, int tile_index, u32 begin, u32 end, float *sums) {
    if constexpr (same_as(LAYER) == LAYER)
        if (width(layer) == width(LAYER) && width(layer + 1) == width(LAYER + 1))
            return tile<width(LAYER), width(LAYER + 1)>(inputs, deltas, tile_index, begin, end, sums);
    if constexpr (LAYER + 1 < LAYERS) dispatch<LAYER + 1>(layer, inputs, deltas, tile_index, begin, end, sums);
}

// Blocks: for each layer `first_block(layer)` on, its tiles times the ranges of samples, of which
// no more than `most_ranges` are used. `found`: for each layer and range the sums, or, atomically,
// the gradients themselves.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    coopmat_mlp_backward_mma_gradients(const Storage *x, const Storage *activations, const Storage *deltas, float *found, u32 batch, u32 most_ranges) {
    int layer = 0;
    while (layer + 1 < LAYERS && (int)blockIdx.x >= first_block(layer + 1)) ++layer;
    const u32 block = blockIdx.x - first_block(layer), ranges = min((u32)ranges_of(layer), most_ranges);
    const u32 range = block % ranges_of(layer), tile_index = block / ranges_of(layer);
    if (range >= ranges) return;
    const u32 each = ((batch + ranges - 1) / ranges + SLAB - 1) / SLAB * SLAB;
    const u32 begin = min(range * each, batch), end = min(begin + each, batch);
    const Storage *inputs = layer == 0 ? x : layer_of(activations, layer - 1, batch);
    float *sums = found + (ATOMIC ? (u64)weights_at(layer) : sums_at(layer) + range * stride_of(layer));
    dispatch<0>(layer, inputs, layer_of(deltas, layer, batch), tile_index, begin, end, sums);
}
