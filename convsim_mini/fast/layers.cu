// Layer norm and the cross-entropy, in which a block is one warp and has one row; dropout.

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

// `losses` gets each row's −log p(label), and `difference` gets p − δ.
extern "C" __global__ void cross_entropy(const real* logits, const i64* labels, real* losses,
                                         real* difference, int c) {
    i64 row = blockIdx.x;
    logits += row * c, difference += row * c;
    real top = MINUS_INFINITY, total = 0;
    for (int j = threadIdx.x; j < c; j += 32) top = max(top, logits[j]);
    top = warp_max(top);
    for (int j = threadIdx.x; j < c; j += 32) total += exp(logits[j] - top);
    total = warp_sum(total);
    for (int j = threadIdx.x; j < c; j += 32)
        difference[j] = exp(logits[j] - top) / total - (j == labels[row]);
    if (threadIdx.x == 0) losses[row] = log(total) + top - logits[labels[row]];
}

// dropout_forward and dropout_backward: a thread has one value, whose factor is 0 or 1/(1 − rate).
extern "C" __global__ void dropout(const real* x, real* y, i64 size, u64 key, int threshold) {
    i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= size) return;
    u64 word = key + at / 8;                                  // SplitMix64's finaliser: core's mixed
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ word >> 27) * 0x94D049BB133111EBull;
    word ^= word >> 31;
    bool kept = (word >> 8 * (at % 8) & 255) >= threshold;
    y[at] = kept ? x[at] * (real(256) / (256 - threshold)) : real(0);
}
