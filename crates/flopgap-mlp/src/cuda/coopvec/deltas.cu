// The gradients before every activation, from the last layer to the first, and those by the inputs.
// A warp's samples go through all layers in registers; every layer's gradients are also stored, for
// the gradients of the weights.
//
// ROWS, WARPS, BLOCKS, STAGES; RELOAD: whether a layer's gradients are read again rather than kept
// in registers, for wide layers.
#include "coopvec/weights.cuh"

// A step goes down a layer, from the last on: of the gradients behind it come those in front of it.
__device__ constexpr int layer_of_step(int step) { return LAYERS - 1 - step; }

template <bool INPUT_GRADIENTS>
struct BackwardSteps {
    static constexpr int STEPS = INPUT_GRADIENTS ? LAYERS : LAYERS - 1, RUNS_END = LAYERS - 1;
    const Storage *transposed;

    static constexpr __device__ int inputs(int step) { return width(layer_of_step(step) + 1); }
    static constexpr __device__ int outputs(int step) { return width(layer_of_step(step)); }
    static constexpr __device__ int cut(int) { return 32; }
    static constexpr __device__ int slab_elements(int step, int piece) { return elements(piece, inputs(step)); }
    template <int STEP, int P>
    __device__ __forceinline__ void fill(Storage *to, int of_run, int f) const {
        constexpr int LAYER = layer_of_step(STEP), K = inputs(STEP);
        ::fill<P, K, K>(to, transposed + weights_at(LAYER) - of_run * (width(LAYER) + 1) * K + f * K);
    }
};

// `outer` times the slope of an activation, where its output, or the sum before it, is `kept`.
template <int ACTIVATION, int P>
__device__ __forceinline__ void through(Pair *gradients, const float (*outer)[2], const Pair *kept) {
#pragma unroll
    for (int j = 0; j < P / 8; ++j) {
        const float a = low(kept[j]), b = high(kept[j]);
        gradients[j] = pack(outer[j][0] * slope_at_kept<ACTIVATION>(a), outer[j][1] * slope_at_kept<ACTIVATION>(b));
    }
}

template <bool INPUT_GRADIENTS>
struct BackwardPass {
    const Storage *x, *y, *dy, *tape;
    Storage *deltas, *outputs, *dx;
    u32 batch;
    Slabs<BackwardSteps<INPUT_GRADIENTS>> slabs;
    using Steps = Schedule<BackwardSteps<INPUT_GRADIENTS>>;

    // The gradients before the activation of LAYER, of `batch x width(LAYER + 1)`.
    template <int LAYER>
    __device__ __forceinline__ Storage *deltas_of() {
        return layer_of<LAYER>(deltas, batch);
    }

    // The gradients before the activation of the layer below LAYER, or of `of_run` layers further
    // down, with its widths.
    template <int LAYER>
    __device__ __forceinline__ void below(const Vectors<width(LAYER + 1)> &vectors, Vectors<width(LAYER)> &next, u32 first, int of_run) {
        constexpr int K = width(LAYER + 1), N = width(LAYER);
        const u64 at = (u64)(tape_at(LAYER - 1) - of_run * N) * batch;
        Storage *to = deltas + at;
        const Storage *kept = tape + at;
        const auto piece = [&](auto cut, int f) {
            constexpr int P = decltype(cut)::SIZE;
            Vectors<P> slopes, result;
            read_piece<P>(slopes, kept, N, f, first, batch);
            const Storage *weights = slabs.next(Steps::template place<layer_of_step(LAYER)>(of_run, f));
            Sums<P> sums = zeros<P>();
            multiply<K>(sums, vectors, weights);
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                float outer[P / 8][2];
#pragma unroll
                for (int j = 0; j < P / 8; ++j) outer[j][0] = low(sums.sum[r][j]), outer[j][1] = high(sums.sum[r][j]);
                through<activation_of(LAYER - 1), P>(result.pair[r], outer, slopes.pair[r]);
            }
            write_piece<P>(to, N, f, first, batch, result);
            // Where the tape has the sums, the gradients of the weights still need the outputs.
            if constexpr (!slope_from_output<HIDDEN_ACTIVATION>()) {
#pragma unroll
                for (int r = 0; r < ROWS; ++r)
#pragma unroll
                    for (int j = 0; j < P / 8; ++j) {
                        const Pair sums = slopes.pair[r][j];
                        slopes.pair[r][j] = pack(activate<HIDDEN_ACTIVATION>(low(sums)), activate<HIDDEN_ACTIVATION>(high(sums)));
                    }
                write_piece<P>(outputs + at, N, f, first, batch, slopes);
            }
            if constexpr (!RELOAD)
#pragma unroll
                for (int r = 0; r < ROWS; ++r)
#pragma unroll
                    for (int j = 0; j < P / 8; ++j) next.pair[r][f / 8 + j] = result.pair[r][j];
        };
        if constexpr (RELOAD) {
            each_piece<N>(piece);
            // Every lane reads what it wrote itself.
            if constexpr (LAYER > 1 || INPUT_GRADIENTS) read_back<N>(next, to, first, batch);
        } else
            pieces<N>(piece);
    }

    template <int LAYER>
    __device__ __forceinline__ void from(const Vectors<width(LAYER + 1)> &vectors, u32 first) {
        constexpr int K = width(LAYER + 1), N = width(LAYER);
        if constexpr (LAYER == 0) {
            if constexpr (INPUT_GRADIENTS) {
                const auto piece = [&](auto cut, int f) {
                    constexpr int P = decltype(cut)::SIZE;
                    const Storage *weights = slabs.next(Steps::template place<layer_of_step(0)>(0, f));
                    Sums<P> sums = zeros<P>();
                    multiply<K>(sums, vectors, weights);
                    write_piece<P>(dx, N, f, first, batch, activated<P, IDENTITY>(sums, 0));
                };
                each_piece<N>(piece);
            }
        } else {
            constexpr int END = layer_of_step(Steps::run_end(layer_of_step(LAYER)));
            Vectors<N> next;
            below<LAYER>(vectors, next, first, 0);
            if constexpr (END < LAYER - 1) {
#pragma unroll 1
                for (int of_run = 1; of_run < LAYER - END; ++of_run) {
                    const Vectors<N> present = next;
                    below<LAYER>(present, next, first, of_run);
                }
            }
            from<END>(next, first);
        }
    }
};

template <bool INPUT_GRADIENTS>
__device__ __forceinline__ void backward(const Storage *transposed, const Storage *x, const Storage *y, const Storage *dy, const Storage *tape,
                                         Storage *deltas, Storage *outputs, Storage *dx, u32 batch) {
    extern __shared__ uint4 shared[];
    wait_and_let_next_begin();
    BackwardPass<INPUT_GRADIENTS> pass{x, y, dy, tape, deltas, outputs, dx, batch, {(Storage *)shared, {transposed}}};
    const Tiles tiles(batch);
    pass.slabs.start(tiles.rounds());
    pass.slabs.finish();
#pragma unroll 1
    for (u32 tile = tiles.tile; tile < tiles.end; tile += tiles.stride) {
        const u32 first = tiles.first(tile);
        Vectors<OUTPUTS> outer;
        read_rows<OUTPUTS>(outer, dy, first, batch);
        // Without an activation, dy itself is what the gradients of the weights read.
        if constexpr (OUTPUT_ACTIVATION != IDENTITY) {
            const Storage *kept = kept_of_outputs(y, tape, batch);
            pieces<OUTPUTS>([&](auto cut, int f) {
                constexpr int P = decltype(cut)::SIZE;
                Vectors<P> slopes, result;
                read_piece<P>(slopes, kept, OUTPUTS, f, first, batch);
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    float wide[P / 8][2];
#pragma unroll
                    for (int j = 0; j < P / 8; ++j) {
                        Pair &pair = outer.pair[r][f / 8 + j];
                        wide[j][0] = low(pair), wide[j][1] = high(pair);
                    }
                    through<OUTPUT_ACTIVATION, P>(result.pair[r], wide, slopes.pair[r]);
#pragma unroll
                    for (int j = 0; j < P / 8; ++j) outer.pair[r][f / 8 + j] = result.pair[r][j];
                }
                write_piece<P>(pass.template deltas_of<LAYERS - 1>(), OUTPUTS, f, first, batch, result);
            });
        }
        pass.template from<LAYERS - 1>(outer, first);
    }
}

// As those of the forward pass, by KERNEL.
#if KERNEL == 0
#include "coopvec/transpose.cu"

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void coopvec_mlp_backward_deltas(const Storage *transposed, const Storage *x,
                                                                                          const Storage *y, const Storage *dy,
                                                                                          const Storage *tape, Storage *deltas, Storage *outputs, Storage *dx,
                                                                                          u32 batch) {
    backward<false>(transposed, x, y, dy, tape, deltas, outputs, dx, batch);
}
#else
extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void coopvec_mlp_backward_deltas_dx(const Storage *transposed, const Storage *x,
                                                                                             const Storage *y, const Storage *dy,
                                                                                             const Storage *tape, Storage *deltas, Storage *outputs, Storage *dx,
                                                                                             u32 batch) {
    backward<true>(transposed, x, y, dy, tape, deltas, outputs, dx, batch);
}
#endif
