#version 460
// A sample a thread: plain loops over weights, eight outputs at a time.
#include "network.glsl"
#include "activation.glsl"

layout(binding = 1, std430) readonly buffer Weights { Number4 weights[]; };
layout(binding = 2, std430) readonly buffer Biases { vec4 biases[]; };
layout(binding = 3, std430) readonly buffer Inputs { Number4 inputs[]; };
layout(binding = 4, std430) writeonly buffer Outputs { Number4 outputs[]; };
layout(binding = 5, std430) writeonly buffer Tape { Number4 tape[]; };

void main() {
    const uint row = gl_GlobalInvocationID.x;
    if (row >= rows) return;
    vec4 from[WIDEST / 4];
    vec4 to[WIDEST / 4];
    for (uint i = 0; i < layers[0].inputs / 4; ++i) from[i] = vec4(inputs[row * (layers[0].inputs / 4) + i]);
    for (uint l = 0; l < count; ++l) {
        const Layer layer_ = layers[l];
        const uint activation = activation_of(l);
        const uint length = layer_.inputs / 4;
        const uint kept = layer_.before / 4 * rows + row * (layer_.outputs / 4);
        for (uint n = 0; n < layer_.outputs; n += 8) {
            vec4 low = biases[(layer_.biases + n) / 4];
            vec4 high = biases[(layer_.biases + n) / 4 + 1];
            const uint first = layer_.weights / 4 + n * length;
            for (uint k = 0; k < length; ++k) {
                const vec4 a = from[k];
                const uint at = first + k;
                low.x += dot(vec4(weights[at]), a);
                low.y += dot(vec4(weights[at + length]), a);
                low.z += dot(vec4(weights[at + 2 * length]), a);
                low.w += dot(vec4(weights[at + 3 * length]), a);
                high.x += dot(vec4(weights[at + 4 * length]), a);
                high.y += dot(vec4(weights[at + 5 * length]), a);
                high.z += dot(vec4(weights[at + 6 * length]), a);
                high.w += dot(vec4(weights[at + 7 * length]), a);
            }
            const Number4 stored_low = Number4(activate(activation, low));
            const Number4 stored_high = Number4(activate(activation, high));
            if (KEEP) {
                if (keeps_sum(activation)) {
                    tape[kept + n / 4] = Number4(low);
                    tape[kept + n / 4 + 1] = Number4(high);
                } else if (l + 1 < count) {
                    tape[kept + n / 4] = stored_low;
                    tape[kept + n / 4 + 1] = stored_high;
                }
            }
            to[n / 4] = vec4(stored_low);
            to[n / 4 + 1] = vec4(stored_high);
        }
        for (uint i = 0; i < layer_.outputs / 4; ++i) from[i] = to[i];
    }
    const uint width = layers[count - 1].outputs / 4;
    for (uint i = 0; i < width; ++i) outputs[row * width + i] = Number4(from[i]);
}
