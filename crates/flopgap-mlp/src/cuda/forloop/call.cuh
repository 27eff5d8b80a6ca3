// One thread, its own sample. Layers lie in shared memory as [number][sample], so that every thread
// reads and writes its own column; weights come to shared memory a slab at a time, and all threads
// of a warp read the same 16 bytes of them at once. Sums stay in registers. Where layers are wide
// or samples few, GROUPS threads share a sample: each computes other outputs.
//
// The host gives THREADS, SAMPLES of a block, SLAB numbers of the inner sum at a time, and where
// things lie.
#include "tile/scalar.cuh"

constexpr int GROUPS = THREADS / SAMPLES, STAGES = 2;

// Outputs of a thread at a time.
__device__ constexpr int outputs_of(int width) { return width >= 16 * GROUPS ? 16 : width >= 8 * GROUPS ? 8 : 4; }

// Where the numbers of `layer` lie: those of the inputs and of every second layer, and the others.
__device__ __forceinline__ float *numbers_of(float *shared, int layer) { return shared + VALUES_AT + (layer % 2 == 0 ? 0 : VALUES_OF_ODD); }

struct Call {
    const Storage *parameters;
    u64 sample;    // of this thread
    u32 batch;
    float *shared;
    int column, group;
    __device__ __forceinline__ bool inside() const { return sample < batch; }
};

// Goes through the slabs of a product: `passes` of `slabs` each, the next one on its way while
// `use(slab, weights)` works on one.
template <int STAGE, typename Copy, typename Begin, typename Use, typename End>
__device__ __forceinline__ void for_each_slab(float *shared, int passes, int slabs, Copy copy, Begin begin, Use use, End end) {
    CopyRing<STAGES, BACKGROUND> ring;
    copy(shared, 0, 0);
    ring.filled();
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        begin(pass);
#pragma unroll 1
        for (int slab = 0; slab < slabs; ++slab) {
            const int step = pass * slabs + slab;
            ring.wait();
            if (step + 1 < passes * slabs) copy(shared + (step + 1) % STAGES * STAGE, slab + 1 < slabs ? pass : pass + 1, slab + 1 < slabs ? slab + 1 : 0);
            ring.filled();
            use(slab, shared + step % STAGES * STAGE);
        }
        end(pass);
    }
    // The slabs are read no more, and the numbers are there.
    __syncthreads();
}

// Four numbers to the thread's column.
__device__ __forceinline__ void put(float *to, float4 v) {
    to[0] = v.x, to[SAMPLES] = v.y, to[2 * SAMPLES] = v.z, to[3 * SAMPLES] = v.w;
}

// `count` numbers of a row in global memory to the thread's column; nothing beyond the batch.
template <int COUNT>
__device__ __forceinline__ void take(const Call &call, float *to, const Storage *row) {
#pragma unroll 4
    for (int i = call.group * 4; i < COUNT; i += GROUPS * 4) {
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (call.inside()) load4(row + i, v);
        put(to + i * SAMPLES, v);
    }
}

// The gradients before the last activation.
template <class Rules>
__device__ __forceinline__ void take_output_deltas(const Call &call, const Storage *dy, const Rules &rules) {
    float *const values = numbers_of(call.shared, LAYERS) + call.column;
    if (!call.inside()) return;
#pragma unroll 1
    for (int n = call.group * 4; n < OUTPUTS; n += GROUPS * 4) {
        float4 v;
        load4(dy + call.sample * OUTPUTS + n, v);
        put(values + n * SAMPLES, rules.outputs(call, n, v));
    }
}

__device__ __forceinline__ Call call_of(const Storage *parameters, u32 batch, u64 tile, float *shared) {
    const int column = threadIdx.x % SAMPLES;
    return Call{parameters, tile * SAMPLES + column, batch, shared, column, (int)threadIdx.x / SAMPLES};
}
