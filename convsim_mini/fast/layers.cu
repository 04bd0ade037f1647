// Layer norm and the batch softmax, in which a block is one warp and has one row; dropout.

extern "C" __global__ void layer_norm_forward(const real* x, const real* weight, const real* bias,
                                              real* y, real* normal, real* scale, int d,
                                              real epsilon) {
    i64 row = blockIdx.x;
    x += row * d, y += row * d, normal += row * d;
    real sum = 0, squares = 0;
    for (int c = threadIdx.x; c < d; c += 32) sum += x[c];
    real mean = warp_sum(sum) / d;
    for (int c = threadIdx.x; c < d; c += 32) squares += (x[c] - mean) * (x[c] - mean);
    real s = 1 / sqrt(warp_sum(squares) / d + epsilon);
    for (int c = threadIdx.x; c < d; c += 32) {
        normal[c] = (x[c] - mean) * s;
        y[c] = normal[c] * weight[c] + bias[c];
    }
    if (threadIdx.x == 0) scale[row] = s;
}

// dx = s (dx̂ − mean(dx̂) − x̂ mean(dx̂ x̂)), dx̂ = dy w; `normal` is x̂.
extern "C" __global__ void layer_norm_backward(const real* dy, const real* normal, const real* s,
                                               const real* weight, real* dx, int d) {
    i64 row = blockIdx.x;
    dy += row * d, normal += row * d, dx += row * d;
    real sum = 0, along = 0;
    for (int c = threadIdx.x; c < d; c += 32) {
        sum += dy[c] * weight[c];
        along += dy[c] * weight[c] * normal[c];
    }
    real mean = warp_sum(sum) / d;
    along = warp_sum(along) / d;
    for (int c = threadIdx.x; c < d; c += 32)
        dx[c] = s[row] * (dy[c] * weight[c] - mean - normal[c] * along);
}

// batch_softmax_forward after the product: its gradient, scale (p − δ) / B, overwrites u · v, and
// `losses` gets each row's share of the loss. The true response of row i is first + i.
extern "C" __global__ void softmax_rows(real* scores, real* losses, int B, int first, real scale) {
    real* row = scores + (i64)blockIdx.x * B;
    real top = MINUS_INFINITY, total = 0, here = scale * row[first + blockIdx.x];
    for (int j = threadIdx.x; j < B; j += 32) top = max(top, scale * row[j]);
    top = warp_max(top);
    __syncwarp();                                             // all have read `here`
    for (int j = threadIdx.x; j < B; j += 32) total += row[j] = exp(scale * row[j] - top);
    total = warp_sum(total);
    for (int j = threadIdx.x; j < B; j += 32)
        row[j] = (row[j] / total - (j == first + blockIdx.x)) * scale / B;
    if (threadIdx.x == 0) losses[blockIdx.x] = (log(total) + top - here) / B;
}

// dropout_forward and dropout_backward: a thread has one value.
extern "C" __global__ void dropout(const real* x, real* y, i64 size, u64 key, int threshold) {
    i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < size) y[at] = x[at] * dropout_factor(key, threshold, at);
}
