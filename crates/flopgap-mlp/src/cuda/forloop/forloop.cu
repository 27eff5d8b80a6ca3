#include "forloop/layers.cuh"

struct Pass {
    Storage *y, *tape, *deltas;

    __device__ __forceinline__ float first(const Call &, Storage bias) const { return widen(bias); }

    template <bool LAST, class Layer>
    __device__ __forceinline__ float4 after(const Call &call, const Layer &layer, int n, float4 z) const {
        constexpr int ACTIVATION = LAST ? OUTPUT_ACTIVATION : HIDDEN_ACTIVATION;
        constexpr bool FROM_SUMS = !slope_from_output<ACTIVATION>();
        const float4 v = make_float4(stored(activate<ACTIVATION>(z.x)), stored(activate<ACTIVATION>(z.y)),
                                     stored(activate<ACTIVATION>(z.z)), stored(activate<ACTIVATION>(z.w)));
        if (call.inside()) {
            const u64 row = call.sample * layer.outputs + n;
            if (LAST) store4(y + row, v);
            if ((!LAST || FROM_SUMS) && tape) store4(tape + (u64)layer.tape * call.batch + row, FROM_SUMS ? z : v);
        }
        return v;
    }

    // The numbers from `n` on of a layer that begins `at` and is `N` wide.
    __device__ __forceinline__ float4 before(const Call &call, int at, int N, int n, float4 v) const {
        const u64 place = (u64)at * call.batch + call.sample * N + n;
        v = times(v, slopes<HIDDEN_ACTIVATION>(tape + place));
        store4(deltas + place, v);
        return v;
    }

    __device__ __forceinline__ float4 outputs(const Call &call, int n, float4 v) const {
        const u64 at = call.sample * OUTPUTS + n;
        v = times(v, slopes<OUTPUT_ACTIVATION>(kept_of_outputs(y, tape, call.batch) + at));
        store4(layer_of<LAYERS - 1>(deltas, call.batch) + at, v);
        return v;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    forloop_mlp_forward(const Storage *parameters, const Storage *x, Storage *y, Storage *tape, u32 batch) {
    extern __shared__ __align__(16) float shared[];
    forward(parameters, x, batch, shared, Pass{y, tape, nullptr});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    forloop_mlp_backward(const Storage *parameters, Storage *y, const Storage *dy, Storage *tape, Storage *dx, Storage *deltas, u32 batch) {
    extern __shared__ __align__(16) float shared[];
    backward(parameters, dy, dx, batch, shared, Pass{y, tape, deltas});
}
