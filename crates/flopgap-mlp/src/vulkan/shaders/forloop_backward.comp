#version 460
// A sample a thread: the gradients by the sums of each layer, and by the inputs.
#include "network.glsl"
#include "activation.glsl"

layout(binding = 1, std430) readonly buffer Weights { Number4 weights[]; };
layout(binding = 4, std430) readonly buffer Outputs { Number4 outputs[]; };
layout(binding = 5, std430) readonly buffer Tape { Number4 tape[]; };
layout(binding = 6, std430) readonly buffer OutputGradients { Number4 output_gradients[]; };
layout(binding = 7, std430) writeonly buffer InputGradients { Number4 input_gradients[]; };
layout(binding = 8, std430) writeonly buffer Deltas { Number4 deltas[]; };

void main() {
    const uint row = gl_GlobalInvocationID.x;
    if (row >= rows) return;
    vec4 from[WIDEST / 4];
    vec4 to[WIDEST / 4];
    const Layer last = layers[count - 1];
    const uint width = last.outputs / 4;
    for (uint i = 0; i < width; ++i) {
        const uint kept = last.before / 4 * rows + row * width + i;
        const vec4 at = keeps_sum(OUTPUT_ACTIVATION) ? vec4(tape[kept]) : vec4(outputs[row * width + i]);
        const Number4 delta = Number4(vec4(output_gradients[row * width + i]) * slope(OUTPUT_ACTIVATION, at));
        deltas[kept] = delta;
        from[i] = vec4(delta);
    }
    for (uint l = count; l-- > 0;) {
        const Layer layer_ = layers[l];
        const uint length = layer_.inputs / 4;
        for (uint k = 0; k < length; k += 2) {
            vec4 low = vec4(0.0), high = vec4(0.0);
            for (uint n = 0; n < layer_.outputs; ++n) {
                const uint at = layer_.weights / 4 + n * length + k;
                const float delta = from[n / 4][n % 4];
                low = fma(vec4(weights[at]), vec4(delta), low);
                high = fma(vec4(weights[at + 1]), vec4(delta), high);
            }
            if (l == 0) {
                input_gradients[row * length + k] = Number4(low);
                input_gradients[row * length + k + 1] = Number4(high);
            } else {
                const uint below = layers[l - 1].before / 4 * rows + row * length + k;
                const Number4 stored_low = Number4(low * slope(HIDDEN_ACTIVATION, vec4(tape[below])));
                const Number4 stored_high = Number4(high * slope(HIDDEN_ACTIVATION, vec4(tape[below + 1])));
                deltas[below] = stored_low;
                deltas[below + 1] = stored_high;
                to[k] = vec4(stored_low);
                to[k + 1] = vec4(stored_high);
            }
        }
        for (uint i = 0; i < length; ++i) from[i] = to[i];
    }
}
