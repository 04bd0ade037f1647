// batch_softmax_forward after the product: p overwrites the scores, and `losses` gets each row's
// loss. A block is a warp, with one row. The true response of row i is first + i.
extern "C" __global__ void softmax_rows(real* scores, real* losses, int B, int first, real scale) {
    real* row = scores + (i64)blockIdx.x * B;
    real top = MINUS_INFINITY, total = 0, here = scale * row[first + blockIdx.x];
    for (int j = threadIdx.x; j < B; j += 32) top = max(top, scale * row[j]);
    top = warp_max(top);
    __syncwarp();                                             // all have read `here`
    for (int j = threadIdx.x; j < B; j += 32) {
        row[j] = exp(scale * row[j] - top);
        total += row[j];
    }
    total = warp_sum(total);
    for (int j = threadIdx.x; j < B; j += 32) row[j] /= total;
    if (threadIdx.x == 0) losses[blockIdx.x] = log(total) + top - here;
}
