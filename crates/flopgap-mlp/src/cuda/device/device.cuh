// A network that a kernel calls, a vector a thread: `Mlp`. This file is the whole interface; what
// it includes may change.
//
// Storage             the type of the parameters: float, or 16 bits (`narrow` and `widen` convert)
// MLP_THREADS         threads of a block, along x
// MLP_INPUTS          numbers that a thread gives
// MLP_OUTPUTS         numbers that it gets
// MLP_SHARED_BYTES    shared memory of a block for the weights and the vectors on their way
//
// All other names at global scope belong to the network, too: put your own into a namespace where
// they clash.
#include "coopvec/forward.cu"

constexpr int MLP_THREADS = THREADS, MLP_INPUTS = OWN_INPUTS, MLP_OUTPUTS = OWN_OUTPUTS;
constexpr int MLP_SHARED_BYTES = SHARED_BYTES;

class Mlp {
    ForwardPass<false> pass;
    Storage *inputs, *outputs;  // of the 32 vectors of this warp

    // Biases, weights, then for each warp its inputs and outputs.
    static __device__ __forceinline__ Storage *weights(void *shared) { return (Storage *)((float *)shared + BIASES); }
    static __device__ __forceinline__ Storage *staging(void *shared) {
        return weights(shared) + WEIGHTS + threadIdx.x / 32 * 32 * (INPUTS + OUTPUTS);
    }

  public:
    // Copies the weights to `shared`: MLP_SHARED_BYTES at a multiple of 16, such as dynamic shared
    // memory. All threads of the block take part. `parameters` are in global memory, at a multiple
    // of 16.
    __device__ __forceinline__ Mlp(void *shared, const Storage *parameters)
        : pass{nullptr, nullptr, 32, (const float *)shared, nullptr, {weights(shared), {parameters}}},
          inputs(staging(shared)), outputs(staging(shared) + 32 * INPUTS) {
        pass.y = outputs;
        pass.slabs.start(1);
        float *biases = (float *)shared;
#pragma unroll
        for (int layer = 0; layer < LAYERS; ++layer)
            for (int i = threadIdx.x; i < width(layer + 1); i += THREADS)
                biases[tape_at(layer) + i] = widen(parameters[biases_at(layer) + i]);
        pass.slabs.finish();
        __syncthreads();
    }

    // y = network(x). All 32 threads of a warp call it together, each with a vector of its own; a
    // thread without one gives any.
    __device__ __forceinline__ void operator()(const float (&x)[OWN_INPUTS], float (&y)[OWN_OUTPUTS]) {
        Storage *to = inputs + lane() * INPUTS;
#pragma unroll
        for (int i = 0; i < INPUTS; ++i) to[i] = narrow(i < OWN_INPUTS ? x[i < OWN_INPUTS ? i : 0] : 0.0f);
        __syncwarp();
#pragma unroll 1
        for (u32 first = 0; first < 32; first += SAMPLES) {
            Vectors<INPUTS> vectors;
            read_back(vectors, inputs, first, 32);
            pass.template from<0>(vectors, first);
        }
        __syncwarp();
        const Storage *from = outputs + lane() * OUTPUTS;
#pragma unroll
        for (int i = 0; i < OWN_OUTPUTS; ++i) y[i] = widen(from[i]);
        __syncwarp();
    }
};
