// One layer of `coopmat_forward.comp`: FROM numbers of each sample of the tile become TO numbers,
// in the tile or, of the LAST layer, in the outputs.
{
    const Layer here = layers[l];
    const uint columns = TO / SIDE;
    const uint share = SHARE(columns);
    Sums sums[ROW_MATRICES * share];
    [[unroll]] for (uint j = 0; j < share; ++j) {
        Sums bias;
        coopMatLoad(bias, biases, here.biases + COLUMN(j, columns) * SIDE * SIDE, SIDE, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0; i < ROW_MATRICES; ++i) sums[i * share + j] = bias;
    }
    [[unroll]] for (uint k = 0; k < FROM / SIDE; ++k) {
        MatrixB b[share];
        [[unroll]] for (uint j = 0; j < share; ++j) {
            coopMatLoad(b[j], weights, here.weights / 8 + (COLUMN(j, columns) * (FROM / SIDE) + k) * SIDE * SIDE / 8, SIDE / 8,
                gl_CooperativeMatrixLayoutColumnMajor);
        }
        [[unroll]] for (uint i = 0; i < ROW_MATRICES; ++i) {
            MatrixA a;
            coopMatLoad(a, tile, (own_row() + i * SIDE) * STRIDE + k * SIDE / 8, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint j = 0; j < share; ++j) sums[i * share + j] = coopMatMulAdd(a, b[j], sums[i * share + j]);
        }
    }
    // All have read the layer below.
    barrier();
    [[unroll]] for (uint j = 0; j < share; ++j) {
        const uint column = COLUMN(j, columns);
        [[unroll]] for (uint i = 0; i < ROW_MATRICES; ++i) {
            Sums z = sums[i * share + j];
            const uint at = (first() + own_row() + i * SIDE) * (TO / 8) + column * SIDE / 8;
            const uint kept = here.before / 8 * rows + at;
            if (KEEP && keeps_sum(ACTIVATION)) {
                coopMatStore(Rounded(z), tape, kept, TO / 8, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (int e = 0; e < z.length(); ++e) z[e] = activate(ACTIVATION, z[e]);
            const Rounded a = Rounded(z);
            if (LAST) {
                coopMatStore(a, outputs, at, TO / 8, gl_CooperativeMatrixLayoutRowMajor);
            } else {
                coopMatStore(a, tile, (own_row() + i * SIDE) * STRIDE + column * SIDE / 8, STRIDE,
                    gl_CooperativeMatrixLayoutRowMajor);
                if (KEEP && !keeps_sum(ACTIVATION)) {
                    coopMatStore(a, tape, kept, TO / 8, gl_CooperativeMatrixLayoutRowMajor);
                }
            }
        }
    }
    barrier();
}
#undef FROM
#undef TO
#undef LAST
#undef ACTIVATION
