// One layer of `coopmat_backward.comp`: gradients by the FROM sums of a layer, in the tile, become
// those by its TO inputs: in the tile, times the slope, or of the FIRST layer in the gradients by
// the inputs.
{
    const Layer here = layers[l];
    const uint columns = TO / SIDE;
    const uint share = SHARE(columns);
    Sums sums[ROW_MATRICES * share];
    [[unroll]] for (uint i = 0; i < ROW_MATRICES * share; ++i) sums[i] = Sums(0.0);
    [[unroll]] for (uint n = 0; n < FROM / SIDE; ++n) {
        MatrixB b[share];
        [[unroll]] for (uint j = 0; j < share; ++j) {
            coopMatLoad(b[j], weights, here.weights / 8 + (n * columns + COLUMN(j, columns)) * SIDE * SIDE / 8, SIDE / 8,
                gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (uint i = 0; i < ROW_MATRICES; ++i) {
            MatrixA a;
            coopMatLoad(a, tile, (own_row() + i * SIDE) * STRIDE + n * SIDE / 8, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint j = 0; j < share; ++j) sums[i * share + j] = coopMatMulAdd(a, b[j], sums[i * share + j]);
        }
    }
    // All have read the gradients of the layer above.
    barrier();
    [[unroll]] for (uint j = 0; j < share; ++j) {
        const uint column = COLUMN(j, columns);
        [[unroll]] for (uint i = 0; i < ROW_MATRICES; ++i) {
            Sums gradient = sums[i * share + j];
            const uint at = (first() + own_row() + i * SIDE) * (TO / 8) + column * SIDE / 8;
            if (FIRST) {
                coopMatStore(Rounded(gradient), input_gradients, at, TO / 8, gl_CooperativeMatrixLayoutRowMajor);
            } else {
                const uint kept_at = layers[l - 1].before / 8 * rows + at;
                Rounded stored;
                coopMatLoad(stored, tape, kept_at, TO / 8, gl_CooperativeMatrixLayoutRowMajor);
                const Sums kept = Sums(stored);
                [[unroll]] for (int e = 0; e < gradient.length(); ++e) gradient[e] *= slope(HIDDEN_ACTIVATION, kept[e]);
                const Rounded delta = Rounded(gradient);
                coopMatStore(delta, deltas, kept_at, TO / 8, gl_CooperativeMatrixLayoutRowMajor);
                coopMatStore(delta, tile, (own_row() + i * SIDE) * STRIDE + column * SIDE / 8, STRIDE,
                    gl_CooperativeMatrixLayoutRowMajor);
            }
        }
    }
    barrier();
}
#undef FROM
#undef TO
#undef FIRST
