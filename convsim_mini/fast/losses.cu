// The kernels of losses.py. A block has one row of the scores, a thread some of its columns.

// batch_softmax_forward after the product: p overwrites the scores, and `losses` gets each row's
// loss. The true response of row i is first + i.
extern "C" __global__ void softmax_rows(real* scores, real* losses, int B, int first, real scale) {
    real* row = scores + (i64)blockIdx.x * B;
    real top = minus_infinity(), total = 0, here = scale * row[first + blockIdx.x];
    for (int j = threadIdx.x; j < B; j += blockDim.x) top = max(top, scale * row[j]);
    top = over_block<true>(top);                              // a barrier: all have read `here`
    for (int j = threadIdx.x; j < B; j += blockDim.x) {
        row[j] = exp(scale * row[j] - top);
        total += row[j];
    }
    total = over_block<false>(total);
    for (int j = threadIdx.x; j < B; j += blockDim.x) row[j] /= total;
    if (threadIdx.x == 0) losses[blockIdx.x] = log(total) + top - here;
}

// batch_softmax_backward before the products: ds = step · (p − I).
extern "C" __global__ void softmax_rows_backward(const real* p, real* ds, int B, int first,
                                                 real step) {
    i64 begin = (i64)blockIdx.x * B;
    for (int j = threadIdx.x; j < B; j += blockDim.x)
        ds[begin + j] = step * (p[begin + j] - real(j == first + blockIdx.x));
}
