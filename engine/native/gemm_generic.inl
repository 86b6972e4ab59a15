// Products of many activation rows by the kernels for few: eight rows at a time. An instruction set that
// knows better specializes `prepare` and `gemm`.

template <int32_t F>
void prepare(const Activations &a, int64_t row, int rows, RowGroup *, int64_t) {
    if (is_dense(F)) return;
    for (int r = 0; r < rows; ++r) quantize(a, row + r, 0, a.cols);
}

// Copies sums[rows][W] to the columns of `out` that tile `tile` and those behind it have.
template <int64_t W>
void store_block(const dk_matrix &w, int64_t tile, const RowBlock &x, const float *sums, float *out) {
    const int64_t first = tile * kTile, left = w.rows - first;
    float *to = out + x.row * w.rows + first;
    for (int64_t r = 0; r < x.rows; ++r, sums += W, to += w.rows) {
        if (left >= W) {
            std::memcpy(to, sums, W * sizeof(float));  // of a known size: a few stores
        } else {
            std::memcpy(to, sums, static_cast<size_t>(left) * sizeof(float));
        }
    }
}

template <int32_t F>
void gemm(const dk_matrix &w, int64_t first, int64_t tiles, const RowBlock &x, float *out) {
    float products[kBlockRows][kTile];
    for (int64_t at = first; at < first + tiles; ++at) {
        for (int64_t r = 0; r < x.rows; r += kMaxRows) {
            const int rows = static_cast<int>(x.rows - r < kMaxRows ? x.rows - r : kMaxRows);
            tile<F>(w, at, x.a, x.row + r, rows, products + r);
        }
        store_block<kTile>(w, at, x, products[0], out);
    }
}
