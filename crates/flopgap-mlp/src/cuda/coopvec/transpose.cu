// The weights of every layer transposed, at the same places: what the backward pass multiplies by
// lies in rows, as what the forward pass does.

extern "C" __global__ __launch_bounds__(256) void coopvec_mlp_transpose(const Storage *parameters, Storage *transposed) {
    __shared__ Storage tile[32][33];
    wait_and_let_next_begin();
    const int column = threadIdx.x % 32, row = threadIdx.x / 32;
    int index = blockIdx.x;
    // Unrolled because NVRTC 13.0 compiles the loop wrongly for some networks of five layers: it
    // ends after the first (its PTX asks whether `layer - 1` is less than 3 without a sign).
#pragma unroll
    for (int layer = 0; layer < LAYERS; ++layer) {
        const int rows = width(layer + 1), columns = width(layer), across = (columns + 31) / 32, tiles = across * ((rows + 31) / 32);
        if (index < tiles) {
            const int r = index / across * 32, c = index % across * 32;
            const Storage *from = parameters + weights_at(layer);
            Storage *to = transposed + weights_at(layer);
            for (int i = row; i < 32; i += 8)
                if (r + i < rows && c + column < columns) tile[i][column] = from[(r + i) * columns + c + column];
            __syncthreads();
            for (int i = row; i < 32; i += 8)
                if (c + i < columns && r + column < rows) to[(c + i) * rows + r + column] = tile[column][i];
            return;
        }
        index -= tiles;
    }
}
