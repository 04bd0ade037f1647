// sum_rows: y_b = Σ E_r over the ids r of sentence b. A block has one b, a thread some columns.
extern "C" __global__ void sum_rows(const real* table, const int* ids, const i64* offsets, real* y,
                                    int d) {
    i64 begin = offsets[blockIdx.x], end = offsets[blockIdx.x + 1];
    for (int c = threadIdx.x; c < d; c += blockDim.x) {
        real sum = 0;
        for (i64 i = begin; i < end; ++i) sum += table[(i64)ids[i] * d + c];
        y[(i64)blockIdx.x * d + c] = sum;
    }
}

// update_rows: a step of SGD, or of row-wise Adagrad if `squares` is given. `order` brings equal
// rows together. The block of the first sums their gradients and updates the row; the others do
// nothing. Its 8 warps take turns at 32 places, each lane looks up one. A warp adds their vectors
// one by one, up to eight of a lane's numbers at once. The order of all sums is fixed.
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
    for (int c = t; c < d; c += 256)
        for (int warp = 1; warp < 8; ++warp) sums[c] += sums[warp * width + c];
    if (squares) {
        real square = 0;
        __syncthreads();                                      // all sums are complete
        for (int c = lane; c < d; c += 32) square += sums[c] * sums[c];
        real total = squares[row] + warp_sum(square) / d;
        __syncthreads();                                      // all have read squares[row]
        if (t == 0) squares[row] = total;
        rate /= sqrt(total);
    }
    for (int c = t; c < d; c += 256) table[(i64)row * d + c] -= rate * sums[c];
}
