// What the kernels for sm_90a share: barriers in shared memory, the copy engine, operands of wgmma, and rows written from accumulators.
// The functions `wgmma` for the numbers of columns that occur come before it.
//
// Operands lie in shared memory as chunks of 64 columns: rows of 128 bytes, whose 16-byte units are permuted by the row's number modulo 8 (the
// swizzle of 128 bytes), so that neither the copy engine nor the tensor cores meet a bank conflict. What a chunk has beyond the last column is zero.

constexpr int CHUNK = 64;       // columns
constexpr int ROW_BYTES = 128;  // of a chunk

__device__ constexpr int chunks_of(int columns) { return (columns + CHUNK - 1) / CHUNK; }
// Products of 16 columns.
__device__ constexpr int steps_of(int columns) { return (columns + 15) / 16; }
// Of those, how many lie in a chunk.
__device__ constexpr int steps_in(int columns, int chunk) {
    return steps_of(columns) - 4 * chunk < 4 ? steps_of(columns) - 4 * chunk : 4;
}
// An accumulator has at most 256 columns; wider layers are computed in parts.
__device__ constexpr int parts_of(int columns) { return (columns + 255) / 256; }
__device__ constexpr int columns_of(int columns, int part) { return columns - 256 * part < 256 ? columns - 256 * part : 256; }

// The same number in all threads of a warp, which the compiler then knows.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(~0u, x, 0); }

// ---- Barriers

__device__ __forceinline__ u32 shared_address(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// What was initialised is there for the copy engine and for the cluster.
__device__ __forceinline__ void barriers_are_there() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// At the barrier of the same name in a block of the cluster. Only reads came before, which have ended: nothing must be made visible, and a release
// to the cluster would wait for all stores.
__device__ __forceinline__ void barrier_arrive_at(u32 barrier, u32 block) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(block) : "memory");
}
// Until the phase of this parity has ended.
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
    u32 done;
    do {
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
            : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}
// All threads of all blocks of the cluster.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// ---- The copy engine

struct __align__(128) TensorMap {
    u64 words[16];
};

// A box of the map, from this column and row on, to shared memory; what lies beyond the matrix is zero. Bytes are counted by the barrier.
__device__ __forceinline__ void copy_box(u32 to, const TensorMap &map, int column, int row, u32 barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"((u64)&map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}
// The same to the same place in every block of the cluster whose bit is set, each with its own barrier.
__device__ __forceinline__ void copy_box_to_all(u32 to, const TensorMap &map, int column, int row, u32 barrier, u16 blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
            to),
        "l"((u64)&map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
        : "memory");
}
// A box from shared memory to this column and row of the map; what lies beyond the matrix is left out. The thread commits what it has copied, and
// waits until all but so many commits have been read.
__device__ __forceinline__ void copy_box_back(const TensorMap &map, int column, int row, u32 from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"((u64)&map), "r"(column), "r"(row), "r"(from)
                 : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void copies_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
__device__ __forceinline__ void prefetch_map(const TensorMap &map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"((u64)&map) : "memory");
}
// What this thread wrote to shared memory is there for the copy engine and the tensor cores.
__device__ __forceinline__ void written_for_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- Tensor cores

// The chunk that begins at this address (a multiple of 1024) as an operand whose rows are columns of the product; `+ 2 * step` for a step.
__device__ __forceinline__ u64 operand(u32 address) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// The same memory as an operand whose rows are along the sum: chunks so many bytes apart; `+ 128 * step` for a step.
__device__ __forceinline__ u64 operand_across(u32 address, int chunk_bytes) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)(chunk_bytes >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Sums must not be read above the wait: the compiler does not know that it makes them.
template <int N>
__device__ __forceinline__ void sums_are_there(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// ---- Registers: the warpgroup that only has copies made leaves most of its own to the others.

template <int LEFT>
__device__ __forceinline__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LEFT)); }
template <int TAKEN>
__device__ __forceinline__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(TAKEN)); }

// 16 rows and 16 columns, as a warp's accumulator has them: the lane's address is of 8 columns of row `lane % 16`, the second 8 from lane 16 on.
__device__ __forceinline__ void load_words(u32 (&words)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(address) : "memory");
}
__device__ __forceinline__ void store_words(u32 address, const u32 (&words)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
}

// ---- Rows

// A thread of a warpgroup has, of every 8 columns of the 64 rows of its accumulator, two columns of the row `first` and of the row `first + 8`.
struct Rows {
    u32 first, batch;
    int quarter;  // which two of the 8 columns
};

// Four threads with four words each exchange them: afterwards the thread has its own quarter of every other's.
__device__ __forceinline__ uint4 transpose(u32 w0, u32 w1, u32 w2, u32 w3, int quarter) {
    const bool odd = quarter & 1, high = quarter & 2;
    u32 a = __shfl_xor_sync(~0u, odd ? w0 : w1, 1), b = __shfl_xor_sync(~0u, odd ? w2 : w3, 1);
    if (odd) w0 = a, w2 = b;
    else w1 = a, w3 = b;
    a = __shfl_xor_sync(~0u, high ? w0 : w2, 2), b = __shfl_xor_sync(~0u, high ? w1 : w3, 2);
    if (high) w0 = a, w1 = b;
    else w2 = a, w3 = b;
    return make_uint4(w0, w1, w2, w3);
}

__device__ __forceinline__ void store_unit(Storage *matrix, int stride, int column, u32 row, u32 batch, uint4 unit) {
    if (row < batch) *reinterpret_cast<uint4 *>(matrix + (u64)row * stride + column) = unit;
}

// Up to 32 columns of the thread's rows, from `column` on: words of two columns, of the first row and of the other by turns. All in 16 bytes.
template <int COLUMNS>
__device__ __forceinline__ void store_columns(const u32 *words, Storage *matrix, int stride, int column, Rows rows) {
    const int q = rows.quarter;
    if constexpr (COLUMNS == 32) {
        store_unit(matrix, stride, column + 8 * q, rows.first, rows.batch, transpose(words[0], words[2], words[4], words[6], q));
        store_unit(matrix, stride, column + 8 * q, rows.first + 8, rows.batch, transpose(words[1], words[3], words[5], words[7], q));
    } else if constexpr (COLUMNS == 16) {
        const uint4 unit = transpose(words[0], words[2], words[1], words[3], q);
        store_unit(matrix, stride, column + 8 * (q & 1), rows.first + 8 * (q >> 1), rows.batch, unit);
    } else if constexpr (COLUMNS == 8) {
        const uint4 unit = transpose(words[0], words[1], 0, 0, q);
        if (q < 2) store_unit(matrix, stride, column, rows.first + 8 * q, rows.batch, unit);
    } else {
        store_columns<16>(words, matrix, stride, column, rows);
        store_columns<8>(words + 4, matrix, stride, column + 16, rows);
    }
}

// The other way round: what a thread has of up to 32 columns, first as 16 bytes of one row, as they lie in memory.
template <int COLUMNS>
struct Units {
    uint4 units[COLUMNS <= 16 ? 1 : 2];

    __device__ __forceinline__ static uint4 load(const Storage *matrix, int stride, int column, u32 row, u32 batch) {
        return row < batch ? __ldg(reinterpret_cast<const uint4 *>(matrix + (u64)row * stride + column)) : make_uint4(0, 0, 0, 0);
    }
    __device__ __forceinline__ void load(const Storage *matrix, int stride, int column, Rows rows) {
        const int q = rows.quarter;
        if constexpr (COLUMNS == 32) {
            units[0] = load(matrix, stride, column + 8 * q, rows.first, rows.batch);
            units[1] = load(matrix, stride, column + 8 * q, rows.first + 8, rows.batch);
        }
        if constexpr (COLUMNS == 16 || COLUMNS == 24)
            units[0] = load(matrix, stride, column + 8 * (q & 1), rows.first + 8 * (q >> 1), rows.batch);
        if constexpr (COLUMNS == 8 || COLUMNS == 24)
            units[COLUMNS / 16] = load(matrix, stride, column + COLUMNS / 16 * 16, q < 2 ? rows.first + 8 * q : ~0u, rows.batch);
    }
    __device__ __forceinline__ static uint4 turn(uint4 unit, int quarter) { return transpose(unit.x, unit.y, unit.z, unit.w, quarter); }
    __device__ __forceinline__ void words(u32 *to, int quarter) const {
        const uint4 a = turn(units[0], quarter);
        if constexpr (COLUMNS == 32) {
            const uint4 b = turn(units[1], quarter);
            to[0] = a.x, to[2] = a.y, to[4] = a.z, to[6] = a.w, to[1] = b.x, to[3] = b.y, to[5] = b.z, to[7] = b.w;
        }
        if constexpr (COLUMNS == 16 || COLUMNS == 24) to[0] = a.x, to[2] = a.y, to[1] = a.z, to[3] = a.w;
        if constexpr (COLUMNS == 8) to[0] = a.x, to[1] = a.y;
        if constexpr (COLUMNS == 24) {
            const uint4 b = turn(units[1], quarter);
            to[4] = b.x, to[5] = b.y;
        }
    }
};

// Bias, activation: sums become words of two columns each, which are at once what the next product takes as its first operand. Outputs go to
// `outputs`, and what the tape keeps to `kept`, unless they are null. `biases` begin at the accumulator's first column, matrices and `column` at
// the layer's.
template <int ACTIVATION, int COLUMNS>
__device__ __forceinline__ void finish(const float (&d)[COLUMNS / 2], const Storage *biases, u32 *words, Storage *outputs, Storage *kept,
                                       int stride, int column, Rows rows) {
#pragma unroll
    for (int first = 0; first < COLUMNS; first += 32) {
        constexpr int REST = COLUMNS % 32;
        u32 sums[8];
#pragma unroll
        for (int c = first; c < first + 32 && c < COLUMNS; c += 8) {
            const u32 bias = *reinterpret_cast<const u32 *>(biases + c + 2 * rows.quarter);
            const float low = widen_low(bias), high = widen_high(bias);
            const float z0 = d[c / 2] + low, z1 = d[c / 2 + 1] + high, z2 = d[c / 2 + 2] + low, z3 = d[c / 2 + 3] + high;
            words[c / 4] = narrow2(activate<ACTIVATION>(z0), activate<ACTIVATION>(z1));
            words[c / 4 + 1] = narrow2(activate<ACTIVATION>(z2), activate<ACTIVATION>(z3));
            if constexpr (!slope_from_output<ACTIVATION>())
                sums[(c - first) / 4] = narrow2(z0, z1), sums[(c - first) / 4 + 1] = narrow2(z2, z3);
        }
        const u32 *keep = slope_from_output<ACTIVATION>() ? words + first / 4 : sums;
        if (first + 32 <= COLUMNS) {
            if (outputs) store_columns<32>(words + first / 4, outputs, stride, column + first, rows);
            if (kept) store_columns<32>(keep, kept, stride, column + first, rows);
        } else if constexpr (REST != 0) {
            if (outputs) store_columns<REST>(words + first / 4, outputs, stride, column + first, rows);
            if (kept) store_columns<REST>(keep, kept, stride, column + first, rows);
        }
    }
}

// All weights in shared memory: for each layer its chunks, with rows of zeros up to a multiple of 16.
__device__ constexpr int chunk_bytes(int layer) { return (width(layer + 1) + 15) / 16 * 16 * ROW_BYTES; }
__device__ constexpr int weights_before(int layer) {
    return layer == 0 ? 0 : weights_before(layer - 1) + chunks_of(width(layer - 1)) * chunk_bytes(layer - 1);
}

template <int THREADS, int LAYER = 0>
__device__ __forceinline__ void place_weights(const Storage *parameters, char *shared) {
    constexpr int K = width(LAYER), N = width(LAYER + 1), UNITS = chunks_of(K) * 8, ROWS = chunk_bytes(LAYER) / ROW_BYTES;
#pragma unroll 8
    for (int i = threadIdx.x; i < ROWS * UNITS; i += THREADS) {
        const int n = i / UNITS, unit = i % UNITS;
        uint4 weights = make_uint4(0, 0, 0, 0);
        if (8 * unit < K && n < N) weights = __ldg(reinterpret_cast<const uint4 *>(parameters + weights_at(LAYER) + n * K + 8 * unit));
        char *chunk = shared + weights_before(LAYER) + unit / 8 * chunk_bytes(LAYER);
        *reinterpret_cast<uint4 *>(chunk + n * ROW_BYTES + ((unit % 8 ^ n % 8) << 4)) = weights;
    }
    if constexpr (LAYER + 1 < LAYERS) place_weights<THREADS, LAYER + 1>(parameters, shared);
}

// Where the biases of a layer begin, one layer after the other.
__device__ constexpr int bias_of(int layer) { return tape_at(layer); }
constexpr int ALL_BIASES = tape_at(LAYERS);

template <int LAYER = 0>
__device__ __forceinline__ void place_biases(const Storage *parameters, Storage *biases) {
    for (int i = threadIdx.x; i < width(LAYER + 1); i += blockDim.x) biases[bias_of(LAYER) + i] = parameters[biases_at(LAYER) + i];
    if constexpr (LAYER + 1 < LAYERS) place_biases<LAYER + 1>(parameters, biases);
}

// Where results go.
struct Results {
    const Storage *biases;
    Storage *y, *tape;
};

// The part of a layer whose sums are `d`.
template <int LAYER, int PART>
__device__ __forceinline__ void finish_part(const float (&d)[columns_of(width(LAYER + 1), PART) / 2], u32 *words, const Results &results,
                                            Rows rows) {
    Storage *outputs = LAYER + 1 == LAYERS ? results.y : nullptr, *kept = nullptr;
    if constexpr (keeps(LAYER))
        if (results.tape) kept = results.tape + (u64)tape_at(LAYER) * rows.batch;
    finish<activation_of(LAYER), columns_of(width(LAYER + 1), PART)>(d, results.biases + bias_of(LAYER) + 256 * PART, words, outputs,
                                                                       kept, width(LAYER + 1), 256 * PART, rows);
}
