// Vectors of a warp: every lane holds a part of `ROWS * 8` samples, and the result of a product has
// the layout of its operand, so that it is the next product's operand without shuffles or shared
// memory.
//
// A width is cut into pieces of 32 features, then at most one of 16 and one of 8. Lane (g, t) =
// (lane / 4, lane % 4) holds, of each of the samples g, g + 8, ..., the features [P/4 * t, P/4 *
// (t + 1)) of a piece of P: contiguous, so that they load and store as 16, 8 or 4 bytes of half
// precision. Eight features that one mma.m16n8 makes are a tile: column 2t + e of tile j in a
// piece is feature P/4 * t + 2j + e.
//
// ROWS (samples a lane), THREADS and ROLLED come before this. ROLLED: 0 unrolls everything; 1 has a
// loop over the pieces of a hidden layer, which then lies in local memory, and one over layers of
// equal widths; 2 has loops over the pieces of every operand, too. The compiler needs the less
// time.

#include "tile/number.cuh"
#include "tile/activation.cuh"
#include "tile/ptx/memory.cuh"
#include "tile/ptx/mma.cuh"

template <int P>
struct Piece {
    static constexpr int SIZE = P;
};

// All pieces of a width: f(Piece<P>, first feature). Unrolled, so that registers are indexed by
// constants, unless that is too much code.
template <int W, class F>
__device__ __forceinline__ void pieces(F f) {
    if constexpr (ROLLED == 2 && W >= 64) {
#pragma unroll 1
        for (int i = 0; i < W / 32; ++i) f(Piece<32>{}, 32 * i);
    } else {
#pragma unroll
        for (int i = 0; i < W / 32; ++i) f(Piece<32>{}, 32 * i);
    }
    if constexpr ((W & 16) != 0) f(Piece<16>{}, W / 32 * 32);
    if constexpr ((W & 8) != 0) f(Piece<8>{}, W / 16 * 16);
}

__device__ __forceinline__ int lane() { return threadIdx.x % 32; }
__device__ __forceinline__ int group() { return lane() / 4; }
__device__ __forceinline__ int quarter() { return lane() % 4; }

// The samples of a warp.
constexpr int SAMPLES = 8 * ROWS;

// Two consecutive features of a sample, as an operand of the next product.
#if STORAGE == STORAGE_F32
struct Pair {
    float low, high;
};
__device__ __forceinline__ Pair pack(float low, float high) { return {low, high}; }
__device__ __forceinline__ float low(Pair pair) { return pair.low; }
__device__ __forceinline__ float high(Pair pair) { return pair.high; }
#else
typedef u32 Pair;
__device__ __forceinline__ Pair pack(float low, float high) { return narrow2(low, high); }
__device__ __forceinline__ float low(Pair pair) { return widen_low(pair); }
__device__ __forceinline__ float high(Pair pair) { return widen_high(pair); }
#endif

// Operands: for each sample of the lane, its pairs of W features, tile by tile.
// Of no features where all inputs wait in shared memory.
template <int W>
struct Vectors {
    Pair pair[ROWS][W > 0 ? W / 8 : 1];
};

// Sums: the same in the type that is summed in.
#if ACCUMULATE_F16
struct Sum {
    u32 both;
};
__device__ __forceinline__ Sum sum_of(float low, float high) { return {narrow2(low, high)}; }
__device__ __forceinline__ float low(Sum sum) { return widen_low(sum.both); }
__device__ __forceinline__ float high(Sum sum) { return widen_high(sum.both); }
#else
struct Sum {
    float first, second;
};
__device__ __forceinline__ Sum sum_of(float low, float high) { return {low, high}; }
__device__ __forceinline__ float low(Sum sum) { return sum.first; }
__device__ __forceinline__ float high(Sum sum) { return sum.second; }
#endif

template <int W>
struct Sums {
    Sum sum[ROWS][W / 8];
};

// ---- Memory. `feature` is the address of the lane's first feature of the piece.

// The lane's features of a piece of a row whose piece begins at `begin`.
template <int P, class T>
__device__ __forceinline__ T *own(T *begin) {
    return begin + P / 4 * quarter();
}

// P/8 pairs, in order.
template <int P, bool ONCE>
__device__ __forceinline__ void read(Pair *pairs, const Storage *from) {
    constexpr int WORDS = P / 4 * (int)sizeof(Storage) / 4;
    u32 words[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS / 4; ++i) {
        uint4 four;
        if constexpr (ONCE) four = load_once((const uint4 *)from + i);
        else four = ((const uint4 *)from)[i];
        words[4 * i] = four.x, words[4 * i + 1] = four.y, words[4 * i + 2] = four.z, words[4 * i + 3] = four.w;
    }
    if constexpr (WORDS == 2) {
        const uint2 two = *(const uint2 *)from;
        words[0] = two.x, words[1] = two.y;
    }
    if constexpr (WORDS == 1) words[0] = *(const u32 *)from;
#pragma unroll
    for (int j = 0; j < P / 8; ++j) {
#if STORAGE == STORAGE_F32
        pairs[j] = {__uint_as_float(words[2 * j]), __uint_as_float(words[2 * j + 1])};
#else
        pairs[j] = words[j];
#endif
    }
}

template <int P>
__device__ __forceinline__ void write(Storage *to, const Pair *pairs) {
    constexpr int WORDS = P / 4 * (int)sizeof(Storage) / 4;
    u32 words[WORDS];
#pragma unroll
    for (int j = 0; j < P / 8; ++j) {
#if STORAGE == STORAGE_F32
        words[2 * j] = __float_as_uint(pairs[j].low), words[2 * j + 1] = __float_as_uint(pairs[j].high);
#else
        words[j] = pairs[j];
#endif
    }
#pragma unroll
    for (int i = 0; i < WORDS / 4; ++i)
        ((uint4 *)to)[i] = make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    if constexpr (WORDS == 2) *(uint2 *)to = make_uint2(words[0], words[1]);
    if constexpr (WORDS == 1) *(u32 *)to = words[0];
}

// W features of the samples of the warp, from row `first` on of `batch x WIDTH`. Beyond the batch
// the last sample stands in: its results are not stored.
template <int WIDTH, int W>
__device__ __forceinline__ void read_rows(Vectors<W> &vectors, const Storage *from, u32 first, u32 batch) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const u32 row = min(first + 8 * r + group(), batch - 1);
        const Storage *begin = from + (u64)row * WIDTH;
        pieces<W>([&](auto cut, int f) {
            constexpr int P = decltype(cut)::SIZE;
            read<P, true>(&vectors.pair[r][f / 8], own<P>(begin + f));
        });
    }
}

// Features [f, f + P) of the samples of the warp, of rows of `width`.
template <int P>
__device__ __forceinline__ void read_piece(Vectors<P> &piece, const Storage *from, int width, int f, u32 first, u32 batch) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const u32 row = min(first + 8 * r + group(), batch - 1);
        read<P, true>(piece.pair[r], own<P>(from + (u64)row * width + f));
    }
}

// What the same lanes wrote before in this kernel.
template <int W>
__device__ __forceinline__ void read_back(Vectors<W> &vectors, const Storage *from, u32 first, u32 batch) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const u32 row = min(first + 8 * r + group(), batch - 1);
        const Storage *begin = from + (u64)row * W;
        pieces<W>([&](auto cut, int f) {
            constexpr int P = decltype(cut)::SIZE;
            read<P, false>(&vectors.pair[r][f / 8], own<P>(begin + f));
        });
    }
}

// A piece of the samples of the warp, into features [f, f + P) of rows of `width`.
template <int P>
__device__ __forceinline__ void write_piece(Storage *to, int width, int f, u32 first, u32 batch, const Vectors<P> &piece) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const u32 row = first + 8 * r + group();
        if (row < batch) write<P>(own<P>(to + (u64)row * width + f), piece.pair[r]);
    }
}

// ---- Products.

#if STORAGE == STORAGE_F32
// Weights of a piece of P outputs over K inputs lie as rows of K + 4, row 4i + t for the i-th
// output of lane quarter t: the four rows that are read together lie in different banks.
constexpr int ROW_PADDING = 4;

// sums += W vectors: the lane's outputs for the lane's samples, over the W inputs from `from` on of
// the K that the weights are for. The inputs of a sample come from the four lanes that hold it.
template <int K, int W, int N>
__device__ __forceinline__ void multiply(Sums<N> &sums, const Vectors<W> &vectors, const Storage *weights, int from = 0) {
    pieces<W>([&](auto cut, int k) {
        constexpr int PK = decltype(cut)::SIZE;
#pragma unroll
        for (int step = 0; step < PK; step += 4) {
            float inputs[ROWS][4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int holder = (step + e) / (PK / 4), index = (step + e) % (PK / 4);
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    const Pair pair = vectors.pair[r][k / 8 + index / 2];
                    inputs[r][e] = __shfl_sync(~0u, index % 2 ? pair.high : pair.low, holder, 4);
                }
            }
            pieces<N>([&](auto cut, int n) {
                constexpr int PN = decltype(cut)::SIZE;
#pragma unroll
                for (int i = 0; i < PN / 4; ++i) {
                    const float4 w = *(const float4 *)(weights + (n + 4 * i + quarter()) * (K + ROW_PADDING) + from + k + step);
#pragma unroll
                    for (int r = 0; r < ROWS; ++r) {
                        Sum &sum = sums.sum[r][n / 8 + i / 2];
                        float &total = i % 2 ? sum.second : sum.first;
                        total = fmaf(w.x, inputs[r][0], total);
                        total = fmaf(w.y, inputs[r][1], total);
                        total = fmaf(w.z, inputs[r][2], total);
                        total = fmaf(w.w, inputs[r][3], total);
                    }
                }
            });
        }
    });
}
#else
constexpr int ROW_PADDING = 0;

// Products of the tensor cores, of rows 2m and 2m + 1 of the lane.
#if ACCUMULATE_F16
__device__ __forceinline__ void multiply_add(Sum &above, Sum &below, Pair a0, Pair a1, u32 b0) {
    mma_k8(above.both, below.both, a0, a1, b0);
}
__device__ __forceinline__ void multiply_add(Sum &above, Sum &below, Pair a0, Pair a1, Pair a2, Pair a3, u32 b0, u32 b1) {
    mma_k16(above.both, below.both, a0, a1, a2, a3, b0, b1);
}
#else
__device__ __forceinline__ void multiply_add(Sum &above, Sum &below, Pair a0, Pair a1, u32 b0) {
    mma_k8(above.first, above.second, below.first, below.second, a0, a1, b0);
}
__device__ __forceinline__ void multiply_add(Sum &above, Sum &below, Pair a0, Pair a1, Pair a2, Pair a3, u32 b0, u32 b1) {
    mma_k16(above.first, above.second, below.first, below.second, a0, a1, a2, a3, b0, b1);
}
#endif

// Tile `tile` of `sums` += W vectors over a piece of inputs from k on. `words` are the lane's P/4
// weights of the piece for output g of the tile.
template <int P, int K, int N>
__device__ __forceinline__ void multiply_tile(Sums<N> &sums, int tile, const Vectors<K> &vectors, int k, const u32 *words) {
#pragma unroll
    for (int m = 0; m < ROWS; m += 2) {
        Sum &above = sums.sum[m][tile], &below = sums.sum[m + 1][tile];
        const Pair *a0 = &vectors.pair[m][k / 8], *a1 = &vectors.pair[m + 1][k / 8];
#pragma unroll
        for (int s = 0; s < P / 16; ++s)
            multiply_add(above, below, a0[2 * s], a1[2 * s], a0[2 * s + 1], a1[2 * s + 1], words[2 * s], words[2 * s + 1]);
        if constexpr (P == 8) multiply_add(above, below, a0[0], a1[0], words[0]);
    }
}

// sums += W vectors, over the W inputs from `from` on (whole pieces before them) of the K that the
// weights are for. The weights of a tile of 8 outputs lie piece by piece of the K inputs, and in a
// piece lane by lane: every read is of consecutive addresses.
template <int K, int W, int N>
__device__ __forceinline__ void multiply(Sums<N> &sums, const Vectors<W> &vectors, const Storage *weights, int from = 0) {
    pieces<W>([&](auto cut, int k) {
        constexpr int P = decltype(cut)::SIZE;
#pragma unroll(ROLLED == 2 && N > 32 ? 4 : N / 8)
        for (int tile = 0; tile < N / 8; ++tile) {
            u32 words[P / 8];
            read<P, false>(words, weights + tile * 8 * K + (from + k) * 8 + lane() * (P / 4));
            multiply_tile<P>(sums, tile, vectors, k, words);
        }
    });
}
#endif

// ---- What goes before and after a product.

template <int W>
__device__ __forceinline__ Sums<W> zeros() {
    Sums<W> sums;
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int j = 0; j < W / 8; ++j) sums.sum[r][j] = sum_of(0.0f, 0.0f);
    return sums;
}

// Sums that begin with the biases of a piece: `biases` are 32-bit floats.
template <int P>
__device__ __forceinline__ void begin_with(Sum *sums, const float *biases) {
    float values[P / 4];
    if constexpr (P == 8) {
        const float2 two = *(const float2 *)own<P>(biases);
        values[0] = two.x, values[1] = two.y;
    } else {
#pragma unroll
        for (int i = 0; i < P / 16; ++i) {
            const float4 four = ((const float4 *)own<P>(biases))[i];
            values[4 * i] = four.x, values[4 * i + 1] = four.y, values[4 * i + 2] = four.z, values[4 * i + 3] = four.w;
        }
    }
#pragma unroll
    for (int j = 0; j < P / 8; ++j) sums[j] = sum_of(values[2 * j], values[2 * j + 1]);
}

template <int W>
__device__ __forceinline__ void begin_with(Sums<W> &sums, const float *biases) {
    pieces<W>([&](auto cut, int f) {
        constexpr int P = decltype(cut)::SIZE;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) begin_with<P>(&sums.sum[r][f / 8], biases + f);
    });
}

// P features of `sums` from f on, after the activation, as operands.
template <int P, int ACTIVATION, int W>
__device__ __forceinline__ Vectors<P> activated(const Sums<W> &sums, int f) {
    Vectors<P> result;
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int j = 0; j < P / 8; ++j) {
            const Sum sum = sums.sum[r][f / 8 + j];
            result.pair[r][j] = pack(activate<ACTIVATION>(low(sum)), activate<ACTIVATION>(high(sum)));
        }
    return result;
}
