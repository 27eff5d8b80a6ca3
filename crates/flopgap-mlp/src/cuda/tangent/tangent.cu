// Both passes and how they change along a direction of the inputs: forward over reverse. Rows come
// in pairs, a sample's numbers and their tangents, which columns of the loops compute side by side:
// products are linear, so a tangent is one more sample without biases. Only activations need both
// of a pair, which neighboring lanes have.
//
// The tape has the numbers of hidden layers; `slopes`, of every layer, the slopes of activations in
// the first row of a pair and how they change in the second.
#include "forloop/layers.cuh"
#include "padding/rows.cuh"

static_assert(SAMPLES % 2 == 0, "both of a pair are in one block");

struct Tangent {
    Storage *y, *tape, *slopes, *deltas;

    static __device__ __forceinline__ bool moves(const Call &call) { return call.column % 2 == 1; }

    // What the other of a pair has. Pairs may have come here at different times.
    static __device__ __forceinline__ float other(float own) { return __shfl_xor_sync(3u << (threadIdx.x % 32 & 30), own, 1); }
    static __device__ __forceinline__ float4 other(float4 own) { return make_float4(other(own.x), other(own.y), other(own.z), other(own.w)); }

    __device__ __forceinline__ float first(const Call &call, Storage bias) const { return moves(call) ? 0.0f : widen(bias); }

    // An output, and what is kept of the slope.
    template <int ACTIVATION>
    static __device__ __forceinline__ float2 activated(bool moves, float own, float other) {
        const float z = moves ? other : own, slope_ = slope<ACTIVATION>(z);
        return moves ? make_float2(stored(slope_ * own), stored(Activation<ACTIVATION>::curvature(z) * own))
                     : make_float2(stored(activate<ACTIVATION>(z)), stored(slope_));
    }

    template <bool LAST, class Layer>
    __device__ __forceinline__ float4 after(const Call &call, const Layer &layer, int n, float4 z) const {
        constexpr int ACTIVATION = LAST ? OUTPUT_ACTIVATION : HIDDEN_ACTIVATION;
        const bool second = moves(call);
        const float4 pair = other(z);
        const float2 a = activated<ACTIVATION>(second, z.x, pair.x), b = activated<ACTIVATION>(second, z.y, pair.y);
        const float2 c = activated<ACTIVATION>(second, z.z, pair.z), d = activated<ACTIVATION>(second, z.w, pair.w);
        const float4 v = make_float4(a.x, b.x, c.x, d.x);
        if (call.inside()) {
            const u64 row = call.sample * layer.outputs + n, place = (u64)layer.tape * call.batch + row;
            store4(LAST ? y + row : tape + place, v);
            store4(slopes + place, make_float4(a.y, b.y, c.y, d.y));
        }
        return v;
    }

    // Deltas of a pair change places: a gradient by weights is then the sum over rows of what was
    // below times a delta, once with the tangent of this, once of that.
    __device__ __forceinline__ float4 before(const Call &call, int at, int N, int n, float4 v) const {
        const u64 place = (u64)at * call.batch + call.sample * N + n;
        float4 own;
        load4(slopes + place, own);
        const float4 slope_ = other(own), delta = other(v);
        v = moves(call) ? make_float4(stored(fmaf(v.x, slope_.x, delta.x * own.x)), stored(fmaf(v.y, slope_.y, delta.y * own.y)),
                                      stored(fmaf(v.z, slope_.z, delta.z * own.z)), stored(fmaf(v.w, slope_.w, delta.w * own.w)))
                        : times(v, own);
        store4(moves(call) ? deltas + place - N : deltas + place + N, v);
        return v;
    }

    __device__ __forceinline__ float4 outputs(const Call &call, int n, float4 v) const {
        return before(call, tape_at(LAYERS - 1), OUTPUTS, n, v);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tangent_mlp_forward(const Storage *parameters, const Storage *x, Storage *y, Storage *tape, Storage *slopes, u32 rows) {
    extern __shared__ __align__(16) float shared[];
    forward(parameters, x, rows, shared, Tangent{y, tape, slopes, nullptr});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tangent_mlp_backward(const Storage *parameters, const Storage *dy, Storage *slopes, Storage *dx, Storage *deltas, u32 rows) {
    extern __shared__ __align__(16) float shared[];
    backward(parameters, dy, dx, rows, shared, Tangent{nullptr, nullptr, slopes, deltas});
}

// Every second row, from the caller's rows and to them. Those of an array that is not there are
// zeros.
extern "C" __global__ void mlp_copy_to_pairs_of_inputs(const Storage *from, Storage *to, u32 rows) {
    pad_rows<OWN_INPUTS, INPUTS, 2>(from, to, rows);
}

extern "C" __global__ void mlp_copy_to_pairs_of_outputs(const Storage *from, Storage *to, u32 rows) {
    pad_rows<OWN_OUTPUTS, OUTPUTS, 2>(from, to, rows);
}

extern "C" __global__ void mlp_copy_from_pairs_of_inputs(const Storage *from, Storage *to, u32 rows) {
    cut_rows<OWN_INPUTS, INPUTS, 2>(from, to, rows);
}

extern "C" __global__ void mlp_copy_from_pairs_of_outputs(const Storage *from, Storage *to, u32 rows) {
    cut_rows<OWN_OUTPUTS, OUTPUTS, 2>(from, to, rows);
}
