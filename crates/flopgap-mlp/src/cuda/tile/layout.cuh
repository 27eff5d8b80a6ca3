// Where the numbers of a layer lie: the one place that says so for device code. The host writes the
// functions of a layer's index that come before it: width(i), weights_at(i), biases_at(i).
//
// Parameters: for each layer its weights, `width(i + 1) x width(i)` by rows, then its biases.
//
// The tape, and all gradients before activations ("deltas"): layer after layer `batch x width(i +
// 1)` by rows.

// Numbers of one sample in the layers before this one: where the layer begins on the tape, times
// `batch`.
__device__ constexpr int tape_at(int layer) {
    int sum = 0;
    for (int before = 0; before < layer; ++before) sum += width(before + 1);
    return sum;
}

// Where a layer begins on a tape of `batch` samples.
template <class T>
__device__ __forceinline__ T *layer_of(T *tape, int layer, u32 batch) {
    return tape + (u64)(u32)tape_at(layer) * batch;
}

// The same for a layer that is known when it is compiled.
template <int LAYER, class T>
__device__ __forceinline__ T *layer_of(T *tape, u32 batch) {
    constexpr u64 BEFORE = tape_at(LAYER);
    return tape + BEFORE * batch;
}

// What the slope at the outputs follows from: the outputs, or the sums before them on the tape.
template <class T>
__device__ __forceinline__ T *kept_of_outputs(T *y, T *tape, u32 batch) {
    return slope_from_output<OUTPUT_ACTIVATION>() ? y : layer_of<LAYERS - 1>(tape, batch);
}

// The activation after a layer.
__device__ constexpr int activation_of(int layer) {
    return layer + 1 == LAYERS ? OUTPUT_ACTIVATION : HIDDEN_ACTIVATION;
}

// Whether the tape keeps something of a layer: outputs of hidden layers, and the sums before an
// activation whose slope does not follow from its output.
__device__ constexpr bool keeps(int layer) {
    return layer + 1 < LAYERS || !slope_from_output<OUTPUT_ACTIVATION>();
}
