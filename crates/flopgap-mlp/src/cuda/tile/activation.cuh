// Activations and their slopes, in 32 bits. The host writes an `Activation<number>` for each that
// comes before this, and says which two a network has: HIDDEN_ACTIVATION and OUTPUT_ACTIVATION.
#include "tile/number.cuh"

template <int ACTIVATION>
__device__ __forceinline__ float activate(float z) {
    return Activation<ACTIVATION>::value(z);
}

// Whether the slope follows from the output, so that the sum before the activation need not be
// kept.
template <int ACTIVATION>
__device__ constexpr bool slope_from_output() {
    return Activation<ACTIVATION>::SLOPE_FROM_OUTPUT;
}

// The derivative where the tape keeps `kept`: the output, or the sum before the activation.
template <int ACTIVATION>
__device__ __forceinline__ float slope_at_kept(float kept) {
    return Activation<ACTIVATION>::slope(kept);
}

// The derivative at z, where the sum before the activation is at hand.
template <int ACTIVATION>
__device__ __forceinline__ float slope(float z) {
    if constexpr (slope_from_output<ACTIVATION>()) return slope_at_kept<ACTIVATION>(activate<ACTIVATION>(z));
    else return slope_at_kept<ACTIVATION>(z);
}

// The derivative where the output is a.
template <int ACTIVATION>
__device__ __forceinline__ float slope_at_output(float a) {
    static_assert(slope_from_output<ACTIVATION>(), "the sum before the activation is needed");
    return slope_at_kept<ACTIVATION>(a);
}

#if STORAGE != STORAGE_F32
// Two sums become two outputs in one register.
template <int ACTIVATION>
__device__ __forceinline__ u32 activate2(float low, float high) {
    return narrow2(activate<ACTIVATION>(low), activate<ACTIVATION>(high));
}
template <int ACTIVATION>
__device__ __forceinline__ u32 activate2(u32 sums) {
    return activate2<ACTIVATION>(widen_low(sums), widen_high(sums));
}

// Two gradients by an activation become those by the sums before it.
template <int ACTIVATION>
__device__ __forceinline__ u32 times_slope(float low, float high, u32 kept) {
    return narrow2(low * slope_at_kept<ACTIVATION>(widen_low(kept)), high * slope_at_kept<ACTIVATION>(widen_high(kept)));
}
template <int ACTIVATION>
__device__ __forceinline__ u32 times_slope(u32 gradients, u32 kept) {
    return times_slope<ACTIVATION>(widen_low(gradients), widen_high(gradients), kept);
}
#endif

// The same for four neighbors, of which `kept` are on the tape.
template <int ACTIVATION>
__device__ __forceinline__ float4 slopes_of(float4 kept) {
    return make_float4(slope_at_kept<ACTIVATION>(kept.x), slope_at_kept<ACTIVATION>(kept.y), slope_at_kept<ACTIVATION>(kept.z),
                       slope_at_kept<ACTIVATION>(kept.w));
}

template <int ACTIVATION>
__device__ __forceinline__ float4 slopes(const Storage *from) {
    float4 kept;
    load4(from, kept);
    return slopes_of<ACTIVATION>(kept);
}

// Products, as they are stored.
__device__ __forceinline__ float4 times(float4 a, float4 b) {
    return make_float4(stored(a.x * b.x), stored(a.y * b.y), stored(a.z * b.z), stored(a.w * b.w));
}
