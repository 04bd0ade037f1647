// The kernels of layers.py, dropout.py and transformer_layers.py. A warp is 32 threads that the
// hardware schedules together.

// The rest of linear_forward after the product, y + b; or half of position_wise_forward:
// dropout(relu(y + b)). A block has one row, a thread some columns.
extern "C" __global__ void bias_activation(real* y, const real* bias, int e, int relu, u64 key,
                                           int threshold) {
    u64 row = (u64)blockIdx.x * e;
    for (int c = threadIdx.x; c < e; c += blockDim.x) {
        real x = y[row + c] + bias[c];
        if (relu) x = x < 0 ? real(0) : x;
        y[row + c] = x * dropout_factor(key, threshold, row + c);
    }
}

// The sum of x over the threads of a column, threadIdx.y = 0, 1, …; only thread 0 of them gets it.
__device__ real column_sum(real x) {
    __shared__ real sums[512];
    int t = threadIdx.y * blockDim.x + threadIdx.x;
    __syncthreads();                                          // all have read the last call's
    sums[t] = x;
    for (int half = blockDim.y / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.y < half) sums[t] += sums[t + half * blockDim.x];
    }
    return sums[t];
}

// The backward of bias_activation, before the products: db = Σ dx. If y, the output of relu and
// dropout, is given, also dx: y is 0 where one of them zeroed a value. A block has 8 columns (8
// floats are 32 bytes, the least that memory delivers) with 64 threads for each. Blocks that differ
// in blockIdx.y share the rows; each gives a row of `sums`. A load takes hundreds of cycles; thanks
// to unrolling and __restrict__ (no overlap), a thread has four rows' loads under way at once.
extern "C" __global__ void bias_activation_backward(
        const real* __restrict__ dy, const real* __restrict__ y, real* __restrict__ dx,
        int threshold, real* sums, int rows, int e) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.y * blockDim.y;
    int end = c < e ? rows : 0;
    real sum = 0, scale = real(256) / (256 - threshold);
    #pragma unroll 4
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < end; row += step) {
        u64 at = (u64)row * e + c;
        real d = dy[at];
        if (y) {
            d *= y[at] > 0 ? scale : real(0);
            dx[at] = d;
        }
        sum += d;
    }
    sum = column_sum(sum);
    if (threadIdx.y == 0 && c < e) sums[blockIdx.y * e + c] = sum;
}

// add_norm_forward: s = x + y · factor overwrites y; z = ŝ w + b. A warp has one row. Without x,
// this is layer_norm_forward of y, and y is only read.
extern "C" __global__ void add_norm_forward(const real* x, real* y, const real* weight,
                                            const real* bias, real* z, real* normal, real* scale,
                                            int rows, int d, u64 key, int threshold) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    u64 begin = (u64)row * d;
    real sum = 0, squares = 0;
    for (int c = lane; c < d; c += 32) {
        u64 at = begin + c;
        if (x) y[at] = x[at] + y[at] * dropout_factor(key, threshold, at);
        sum += y[at];
    }
    real mean = warp_sum(sum) / d;
    for (int c = lane; c < d; c += 32) squares += (y[begin + c] - mean) * (y[begin + c] - mean);
    real s = 1 / sqrt(warp_sum(squares) / d + real(1e-6));       // EPSILON in transformer_layers.py
    for (int c = lane; c < d; c += 32) {
        real value = (y[begin + c] - mean) * s;
        normal[begin + c] = value;
        z[begin + c] = value * weight[c] + bias[c];
    }
    if (lane == 0) scale[row] = s;
}

// add_norm_backward: dx = s (dŝ − mean(dŝ) − ŝ mean(dŝ ŝ)) + ds, dŝ = dz w; dy = dx · factor. A
// warp has one row. Without dropout dy is dx itself.
extern "C" __global__ void add_norm_backward(const real* dz, const real* ds, const real* normal,
                                             const real* scale, const real* weight, real* dx,
                                             real* dy, int rows, int d, u64 key, int threshold) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    u64 begin = (u64)row * d;
    real sum = 0, along = 0;
    for (int c = lane; c < d; c += 32) {
        real g = dz[begin + c] * weight[c];
        sum += g;
        along += g * normal[begin + c];
    }
    real mean = warp_sum(sum) / d;
    along = warp_sum(along) / d;
    for (int c = lane; c < d; c += 32) {
        u64 at = begin + c;
        real g = scale[row] * (dz[at] * weight[c] - mean - normal[at] * along);
        dx[at] = ds ? g + ds[at] : g;
        if (threshold) dy[at] = dx[at] * dropout_factor(key, threshold, at);
    }
}

// The other results of layer_norm_backward, dw = Σ dz ŝ and db = Σ dz, side by side in `sums`. The
// threads have the same roles as in bias_activation_backward.
extern "C" __global__ void norm_weights_backward(const real* dz, const real* normal, real* sums,
                                                 int rows, int d) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.y * blockDim.y;
    int end = c < d ? rows : 0;
    real weight = 0, bias = 0;
    #pragma unroll 4
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < end; row += step) {
        u64 at = (u64)row * d + c;
        weight += dz[at] * normal[at];
        bias += dz[at];
    }
    weight = column_sum(weight);
    bias = column_sum(bias);
    if (threadIdx.y > 0 || c >= d) return;
    sums[blockIdx.y * 2 * d + c] = weight;
    sums[blockIdx.y * 2 * d + d + c] = bias;
}

// l2_normalize_forward: a warp has one row.
extern "C" __global__ void l2_normalize_forward(const real* x, real* y, real* norm, int rows,
                                                int d) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    u64 begin = (u64)row * d;
    real squares = 0;
    for (int c = lane; c < d; c += 32) squares += x[begin + c] * x[begin + c];
    real length = sqrt(warp_sum(squares));
    length = length > 0 ? length : real(1);
    for (int c = lane; c < d; c += 32) y[begin + c] = x[begin + c] / length;
    if (lane == 0) norm[row] = length;
}

// l2_normalize_backward: a warp has one row.
extern "C" __global__ void l2_normalize_backward(const real* dy, const real* y, const real* norm,
                                                 real* dx, int rows, int d) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    u64 begin = (u64)row * d;
    real along = 0;
    for (int c = lane; c < d; c += 32) along += dy[begin + c] * y[begin + c];
    along = warp_sum(along);
    for (int c = lane; c < d; c += 32)
        dx[begin + c] = (dy[begin + c] - along * y[begin + c]) / norm[row];
}

// tanh_backward: a thread has one value.
extern "C" __global__ void tanh_backward(const real* dy, const real* y, real* dx, i64 size) {
    i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < size) dx[at] = dy[at] * (1 - y[at] * y[at]);
}

// dropout_forward and dropout_backward: a thread has one value.
extern "C" __global__ void dropout(const real* x, real* y, i64 size, u64 key, int threshold) {
    i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < size) y[at] = x[at] * dropout_factor(key, threshold, at);
}
