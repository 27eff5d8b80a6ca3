// Matrix tiles in shared memory, and their products on tensor cores.

constexpr int THREADS = WARPS * 32;

extern __shared__ __align__(16) unsigned char shared[];

__device__ constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

// Elements from one row of a tile to the next: an odd number of 16-byte chunks, so that eight rows lie in different banks.
__device__ constexpr int pitch(int columns) { return round_up(columns, 16) + 8; }

__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// ---- Copies of 16 bytes into shared memory, zeros where there is nothing to copy. Before sm_80 there are none in the background.

__device__ __forceinline__ void copy16(u32 to, const void *from, bool there) {
#if ARCHITECTURE >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
#else
    const uint4 value = there ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w) : "memory");
#endif
}

__device__ __forceinline__ void commit_copies() {
#if ARCHITECTURE >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most so many groups of copies are under way.
template <int GROUPS>
__device__ __forceinline__ void wait_copies() {
#if ARCHITECTURE >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
#endif
}

// Copies `rows` rows of `columns` numbers, the first at `from`, `stride` numbers apart, into a tile `PITCH` wide whose columns are `PADDED`: zeros
// beyond `columns`, and in rows from `there` on.
template <int PADDED, int PITCH>
__device__ __forceinline__ void copy_part(u32 to, const Storage *from, int stride, int rows, int there, int columns) {
    constexpr int CHUNKS = PADDED / 8;
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * CHUNKS; i += THREADS) {
        const int row = i / CHUNKS, column = i % CHUNKS * 8;
        const bool valid = row < there && column < columns;
        copy16(to + (row * PITCH + column) * 2, valid ? from + (u64)row * stride + column : from, valid);
    }
}

// The same where ROWS and STRIDE are known. A whole tile takes an instruction for every copy: the addresses differ by constants.
template <int ROWS, int PADDED, int PITCH, int STRIDE>
__device__ __forceinline__ void copy_tile(u32 to, const Storage *from, int there, int columns) {
    constexpr int CHUNKS = PADDED / 8, AT_ONCE = THREADS / CHUNKS;
    if constexpr (THREADS % CHUNKS == 0 && ROWS % AT_ONCE == 0) {
        if (there >= ROWS && columns >= PADDED) {
            const int row = threadIdx.x / CHUNKS, column = threadIdx.x % CHUNKS * 8;
            const Storage *source = from + row * STRIDE + column;
            const u32 target = to + (row * PITCH + column) * 2;
#pragma unroll
            for (int i = 0; i < ROWS; i += AT_ONCE) copy16(target + i * PITCH * 2, source + i * STRIDE, true);
            return;
        }
    }
    copy_part<PADDED, PITCH>(to, from, STRIDE, ROWS, there, columns);
}

// ---- Fragments and products.

template <bool TRANSPOSED>
__device__ __forceinline__ void load_fragment(u32 (&r)[4], u32 address) {
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address)
                     : "memory");
}

// Sums of 16 rows and 8 columns: rows g and g + 8, columns 2t and 2t + 1 of lane 4g + t.
struct Sums32 {
    float value[4];
    __device__ __forceinline__ void set(int row, float low, float high) { value[2 * row] = low, value[2 * row + 1] = high; }
    __device__ __forceinline__ float low(int row) const { return value[2 * row]; }
    __device__ __forceinline__ float high(int row) const { return value[2 * row + 1]; }
};

#if STORAGE == STORAGE_BF16
#define TYPES "f32.bf16.bf16.f32"
#else
#define TYPES "f32.f16.f16.f32"
#endif

__device__ __forceinline__ void multiply(Sums32 &c, const u32 (&a)[4], u32 b0, u32 b1) {
#if ARCHITECTURE >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col." TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c.value[0]), "+f"(c.value[1]), "+f"(c.value[2]), "+f"(c.value[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c.value[0]), "+f"(c.value[1]), "+f"(c.value[2]), "+f"(c.value[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c.value[0]), "+f"(c.value[1]), "+f"(c.value[2]), "+f"(c.value[3])
                 : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

#if ACCUMULATE_F16
// The same sums in half precision, two to a register.
struct Sums16 {
    u32 pair[2];
    __device__ __forceinline__ void set(int row, float low, float high) { pair[row] = narrow2(low, high); }
    __device__ __forceinline__ float low(int row) const { return widen_low(pair[row]); }
    __device__ __forceinline__ float high(int row) const { return widen_high(pair[row]); }
};

__device__ __forceinline__ void multiply(Sums16 &c, const u32 (&a)[4], u32 b0, u32 b1) {
#if ARCHITECTURE >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(c.pair[0]), "+r"(c.pair[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
                 : "+r"(c.pair[0]), "+r"(c.pair[1])
                 : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
                 : "+r"(c.pair[0]), "+r"(c.pair[1])
                 : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}
typedef Sums16 Sums;
#else
typedef Sums32 Sums;
#endif

// What this lane adds to the address of a tile to load 16 x 16 of it. `ROWS_FIRST`: the second eight lanes take the next eight rows, as the left
// operand by rows and the right operand by columns are loaded; otherwise they take the next eight columns.
template <bool ROWS_FIRST>
__device__ __forceinline__ u32 lane_offset(int pitch_bytes) {
    const int lane = threadIdx.x & 31;
    return ROWS_FIRST ? (lane & 15) * pitch_bytes + (lane >> 4) * 16 : ((lane & 7) + (lane >> 4) * 8) * pitch_bytes + (lane >> 3 & 1) * 16;
}

// What a warp multiplies in one step of 16 along the inner dimension: 16 MT rows and 8 NT columns. The left operand lies by rows ([m][k]), transposed
// by columns ([k][m]); the right operand as weights do ([n][k]), transposed by rows ([k][n]). The addresses include `lane_offset`. `GUARDED`: only the
// first `pieces` times 16 columns are there.
template <int MT, int NT>
struct Fragments {
    u32 a[MT][4], b[NT / 2][4];

    template <bool LEFT_TRANSPOSED, bool RIGHT_TRANSPOSED, int LEFT_PITCH, int RIGHT_PITCH, bool GUARDED>
    __device__ __forceinline__ void load(u32 left, u32 right, int pieces) {
#pragma unroll
        for (int i = 0; i < MT; ++i) load_fragment<LEFT_TRANSPOSED>(a[i], left + (LEFT_TRANSPOSED ? i * 32 : i * 16 * LEFT_PITCH * 2));
#pragma unroll
        for (int j = 0; j < NT / 2; ++j)
            if (!GUARDED || j < pieces) load_fragment<RIGHT_TRANSPOSED>(b[j], right + (RIGHT_TRANSPOSED ? j * 32 : j * 16 * RIGHT_PITCH * 2));
    }

    template <bool GUARDED, class S>
    __device__ __forceinline__ void add_product(S (&sums)[MT][NT], int pieces) const {
#pragma unroll
        for (int j = 0; j < NT / 2; ++j)
            if (!GUARDED || j < pieces)
#pragma unroll
                for (int i = 0; i < MT; ++i) {
                    multiply(sums[i][2 * j], a[i], b[j][0], b[j][1]);
                    multiply(sums[i][2 * j + 1], a[i], b[j][2], b[j][3]);
                }
    }
};

// How many of the warps lie side by side along the columns of a product, the rest along its rows: so that least is read from shared memory.
__device__ constexpr int warps_along_columns(int rows, int columns) {
    int best = 0, least = 0;
    for (int along = 1; along <= WARPS; along *= 2) {
        if (rows % (16 * (WARPS / along)) != 0) continue;
        const int m = rows / (WARPS / along), n = round_up(columns, 16 * along) / along;
        const int cost = n * along * (m + n) * 1024 / (m * n);
        if (m * n <= 32 * 128 && (best == 0 || cost < least)) best = along, least = cost;
    }
    return best;
}

// ---- Rows of results to global memory.

// Of two neighbouring pieces of 8 columns this lane has columns 2t and 2t + 1. An exchange with the next lane gives it four columns of one, so
// that a row's 32 bytes are written together. `row` points to the first piece; `left` columns are left there.
__device__ __forceinline__ void store_row(Storage *row, u32 first, u32 second, int left, bool valid) {
    const int t = threadIdx.x & 3;
    const bool upper = t & 1;
    const u32 other = __shfl_xor_sync(~0u, upper ? first : second, 1);
    if (valid && left > (upper ? 8 : 0))
        *(uint2 *)(row + (upper ? 6 + 2 * t : 2 * t)) = upper ? make_uint2(other, second) : make_uint2(first, other);
}
