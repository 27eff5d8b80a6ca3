// What all shaders know: the network's layers, the call, and how numbers are stored.
//
// Arrays of a batch are row-major with a sample a row, in rows and widths that are padded with
// zeros. What is kept of each layer (`tape`, `deltas`) lies layer after layer, `before` numbers of
// each row before those of a layer.
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// Constants that the host sets when it makes a pipeline (`pipeline.rs`).
layout(constant_id = 0) const uint HIDDEN_ACTIVATION = 2;
layout(constant_id = 1) const uint OUTPUT_ACTIVATION = 0;
// The widest layer.
layout(constant_id = 2) const uint WIDEST = 64;
layout(local_size_x_id = 3) in;
// Whether the forward pass keeps what the backward pass needs: a constant, as matrices in
// conditions that the compiler cannot decide end up in local memory.
layout(constant_id = 4) const bool KEEP = false;

// As it is in `shape.rs`.
struct Layer {
    uint inputs;
    uint outputs;
    // Where its weights and its biases begin, in numbers; in bytes for cooperative vectors.
    uint weights;
    uint biases;
    // Numbers of a row in the layers before, of what is kept of each.
    uint before;
    // Where its gradients begin: weights `outputs x inputs`, then biases, with widths rounded up to
    // blocks.
    uint gradients;
    // Where the transposed weights of cooperative vectors begin, in bytes.
    uint transposed;
    uint padding;
};
layout(binding = 0, std140) uniform Layers { Layer layers[64]; };

layout(push_constant) uniform Call {
    // Layers of the network.
    uint count;
    // Samples, and rows of the arrays.
    uint samples;
    uint rows;
    // Of the shaders of gradients: the layer, parts that the rows are split into, all parameters.
    uint layer;
    uint parts;
    uint parameters;
};

// Outputs and inputs of a layer whose gradients a workgroup sums.
const uint BLOCK = 64;

uint in_blocks(uint width) {
    return (width + BLOCK - 1) / BLOCK * BLOCK;
}

#ifdef HALF
#define Number float16_t
#define Number4 f16vec4
#else
#define Number float
#define Number4 vec4
#endif

uint activation_of(uint of_layer) {
    return of_layer + 1 == count ? OUTPUT_ACTIVATION : HIDDEN_ACTIVATION;
}
