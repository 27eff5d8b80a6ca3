#version 460
// A tile of samples stays in shared memory through all layers.
#include "network.glsl"
#include "activation.glsl"
#include "tile.glsl"

layout(binding = 1, std430) readonly buffer Weights { Eight weights[]; };
layout(binding = 2, std430) readonly buffer Biases { float biases[]; };
layout(binding = 3, std430) readonly buffer Inputs { Eight inputs[]; };
layout(binding = 4, std430) writeonly buffer Outputs { Eight outputs[]; };
layout(binding = 5, std430) writeonly buffer Tape { Eight tape[]; };

void main() {
    const uint width = INPUTS / 8;
    for (uint i = gl_LocalInvocationID.x; i < SAMPLES * width; i += gl_WorkGroupSize.x) {
        tile[i / width * STRIDE + i % width] = inputs[first() * width + i];
    }
    barrier();
    uint l = 0;
#define FROM INPUTS
#define TO HIDDEN
#define LAST false
#define ACTIVATION HIDDEN_ACTIVATION
#include "coopmat_forward_layer.glsl"
    for (l = 1; l + 1 < count; ++l) {
#define FROM HIDDEN
#define TO HIDDEN
#define LAST false
#define ACTIVATION HIDDEN_ACTIVATION
#include "coopmat_forward_layer.glsl"
    }
#define FROM HIDDEN
#define TO OUTPUTS
#define LAST true
#define ACTIVATION OUTPUT_ACTIVATION
#include "coopmat_forward_layer.glsl"
}
