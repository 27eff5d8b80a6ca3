#version 460
// The way back of `coopmat_forward.comp`: the gradients by the sums of each layer, and by the
// inputs.
#include "network.glsl"
#include "activation.glsl"
#include "tile.glsl"

layout(binding = 1, std430) readonly buffer Weights { Eight weights[]; };
layout(binding = 4, std430) readonly buffer Outputs { Eight outputs[]; };
layout(binding = 5, std430) readonly buffer Tape { Eight tape[]; };
layout(binding = 6, std430) readonly buffer OutputGradients { Eight output_gradients[]; };
layout(binding = 7, std430) writeonly buffer InputGradients { Eight input_gradients[]; };
layout(binding = 8, std430) writeonly buffer Deltas { Eight deltas[]; };

uint times_slope(uint gradients, uint kept) {
    const vec2 gradient = unpackHalf2x16(gradients);
    const vec2 at = unpackHalf2x16(kept);
    return packHalf2x16(vec2(gradient.x * slope(OUTPUT_ACTIVATION, at.x), gradient.y * slope(OUTPUT_ACTIVATION, at.y)));
}

void main() {
    const Layer top = layers[count - 1];
    const uint width = OUTPUTS / 8;
    for (uint i = gl_LocalInvocationID.x; i < SAMPLES * width; i += gl_WorkGroupSize.x) {
        const uint at = first() * width + i;
        const uint kept_at = top.before / 8 * rows + at;
        const Eight gradient = output_gradients[at];
        const Eight kept = keeps_sum(OUTPUT_ACTIVATION) ? tape[kept_at] : outputs[at];
        const Eight delta = Eight(times_slope(gradient.x, kept.x), times_slope(gradient.y, kept.y),
            times_slope(gradient.z, kept.z), times_slope(gradient.w, kept.w));
        tile[i / width * STRIDE + i % width] = delta;
        deltas[kept_at] = delta;
    }
    barrier();
    uint l = count - 1;
#define FROM OUTPUTS
#define TO HIDDEN
#define FIRST false
#include "coopmat_backward_layer.glsl"
    for (l = count - 2; l > 0; --l) {
#define FROM HIDDEN
#define TO HIDDEN
#define FIRST false
#include "coopmat_backward_layer.glsl"
    }
#define FROM HIDDEN
#define TO INPUTS
#define FIRST true
#include "coopmat_backward_layer.glsl"
}
