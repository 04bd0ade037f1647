// Kernels of embeddings.py, of `update_rows` (optim.py), and of the placed embedding and the mean
// (transformer_layers.py). Except in update_rows, a block has one sentence, a thread some columns.

// placed_embedding_forward: x = dropout(√d E + signal). A sentence has four blocks, each with four
// rows of threads; a row of threads has every sixteenth word.
extern "C" __global__ void placed_embedding_forward(
        const real* __restrict__ table, const int* ids, const i64* offsets,
        const real* __restrict__ signal, real* __restrict__ x, int d, u64 key, int threshold) {
    i64 begin = offsets[blockIdx.x], n = offsets[blockIdx.x + 1] - begin;
    int step = gridDim.y * blockDim.y, threads = blockDim.x;
    real root = sqrt(double(d));
    for (i64 i = blockIdx.y * blockDim.y + threadIdx.y; i < n; i += step)
        #pragma unroll 4
        for (int c = threadIdx.x; c < d; c += threads) {
            real value = root * table[(i64)ids[begin + i] * d + c] + signal[i * d + c];
            i64 at = (begin + i) * d + c;
            x[at] = value * dropout_factor(key, threshold, at);
        }
}

// sum_rows: y_b = Σ E_r over the ids r of sentence b. mean_pool_forward: y_b = (1/n) Σ x_i, without
// ids.
extern "C" __global__ void sum_rows(const real* table, const int* ids, const i64* offsets, real* y,
                                    int d, int mean) {
    i64 begin = offsets[blockIdx.x], end = offsets[blockIdx.x + 1];
    for (int c = threadIdx.x; c < d; c += blockDim.x) {
        real sum = 0;
        for (i64 i = begin; i < end; ++i) sum += table[(ids ? ids[i] : i) * d + c];
        y[(i64)blockIdx.x * d + c] = mean ? sum / (end - begin) : sum;
    }
}

// mean_pool_backward: dx_i = dy_b/n.
extern "C" __global__ void mean_pool_backward(const real* dy, const i64* offsets, real* dx, int d) {
    i64 begin = offsets[blockIdx.x], n = offsets[blockIdx.x + 1] - begin;
    for (int c = threadIdx.x; c < d; c += blockDim.x)
        for (i64 i = 0; i < n; ++i)
            dx[(begin + i) * d + c] = dy[(i64)blockIdx.x * d + c] / n;
}

// A step of SGD, or of row-wise Adagrad if `squares` is given. `order` brings equal rows together.
// The block of the first of them sums their gradients and updates the row; the others do nothing.
// Its 8 warps take turns at 32 places, of which each lane looks up one. A warp adds the vectors of
// these places one by one, up to eight of a lane's numbers at once. The order of all sums is fixed.
extern "C" __global__ void update_rows(
        real* table, real* squares, const int* rows, const int* sources, const i64* order,
        const real* __restrict__ values, i64 count, int d, real rate) {
    extern __shared__ real sums[];                            // (8, width): a row for each warp
    int row = rows[order[blockIdx.x]], lane = threadIdx.x, t = threadIdx.y * 32 + lane;
    if (blockIdx.x > 0 && rows[order[blockIdx.x - 1]] == row) return;
    int width = (d + 31) / 32 * 32;                           // the same for every lane
    real* sum = sums + threadIdx.y * width;
    for (int c = lane; c < width; c += 32) sum[c] = 0;
    for (i64 first = blockIdx.x + 32 * threadIdx.y; first < count; first += 256) {
        i64 j = first + lane, source = 0;
        bool equal = j < count && rows[order[j]] == row;
        if (equal) source = sources[order[j]];
        int found = __popc(__ballot_sync(0xffffffffu, equal));
        for (int k = 0; k < found; ++k) {
            i64 from = __shfl_sync(0xffffffffu, source, k);
            #pragma unroll 8
            for (int c = lane; c < width; c += 32) sum[c] += values[from * d + min(c, d - 1)];
        }
        if (found < 32) break;
    }
    __syncthreads();
    real square = 0;
    for (int c = t; c < d; c += 256) {
        for (int warp = 1; warp < 8; ++warp) sums[c] += sums[warp * width + c];
        square += sums[c] * sums[c];
    }
    if (squares) {
        real total = squares[row] + over_block<false>(square) / d;
        __syncthreads();                                      // all have read squares[row]
        if (t == 0) squares[row] = total;
        rate /= sqrt(total);
    }
    for (int c = t; c < d; c += 256) table[(i64)row * d + c] -= rate * sums[c];
}
