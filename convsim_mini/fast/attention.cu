// The kernels of attention.py. A block has one head of one sentence: n words with WIDTH = d/h
// numbers each. WIDTH is compiled in. The block's warps have one word each, and go through all
// words in tiles of 32, one for each of a warp's lanes. So any length fits, and no n × n array is
// ever written. A warp without a word of its own repeats the last one.
#define TILE 32
#define WARPS 8
#define ROW (WIDTH | 1)                                       // odd: see load_tile
#define COLUMNS ((WIDTH + 31) / 32)                           // of a lane, among WIDTH

// Copies up to 32 words from `first` on, of two arrays, into shared memory. Later each lane reads a
// row of its own; because ROW is odd, they then read from 32 different memory banks at once.
__device__ void load_tile(const real* a, int a_stride, const real* b, int b_stride, int first,
                          int n, real* tile_a, real* tile_b) {
    int count = min(TILE, n - first) * WIDTH;
    __syncthreads();                                          // all have read the previous tile
    for (int t = threadIdx.x; t < count; t += WARPS * 32) {
        int j = t / WIDTH, c = t % WIDTH;
        tile_a[j * ROW + c] = a[(i64)(first + j) * a_stride + c];
        tile_b[j * ROW + c] = b[(i64)(first + j) * b_stride + c];
    }
    __syncthreads();
}

__device__ real dot(const real* a, const real* b) {
    real sum = 0;
    for (int c = 0; c < WIDTH; ++c) sum += a[c] * b[c];
    return sum;
}

// sum += Σ_j factor_j row_j over the first `count` rows j of a tile. Lane j has factor_j. The lanes
// share the columns: a lane has columns lane, lane + 32, …
__device__ void add_rows(real factor, const real* tile, int count, real* sum) {
    int lane = threadIdx.x % 32;
    for (int j = 0; j < count; ++j) {
        real factor_j = __shfl_sync(0xffffffffu, factor, j);
        for (int k = 0; k < COLUMNS; ++k) {
            int c = min(32 * k + lane, WIDTH - 1);            // a lane may have no column
            sum[k] += factor_j * tile[j * ROW + c];
        }
    }
}

// y_i = Σ_j p_ij v_j. The softmax is computed tile by tile: when a higher maximum is found, sums so
// far are scaled down (Milakov, Gimelshein 2018). log Σ_j e^s_ij is kept for the backward.
extern "C" __global__ void attention_forward(const real* qkv, const i64* offsets, real* y,
                                             real* log_sums, int heads) {
    extern __shared__ real shared[];
    int head = blockIdx.x % heads, d = heads * WIDTH;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sentence = (gridDim.x - 1 - blockIdx.x) / heads;      // first the last, which is longest
    i64 begin = offsets[sentence];
    int n = offsets[sentence + 1] - begin;
    const real *q = qkv + begin * 3 * d + head * WIDTH, *k = q + d, *v = k + d;
    real *keys = shared, *values = keys + TILE * ROW;
    for (int first = 0; first < n; first += WARPS) {
        int i = min(first + warp, n - 1);         // this warp's word
        real sum[COLUMNS] = {}, total = 0, top = MINUS_INFINITY;
        for (int tile = 0; tile < n; tile += TILE) {
            // a sentence that fits into one tile is loaded once
            if (first == 0 || n > TILE) load_tile(k, 3 * d, v, 3 * d, tile, n, keys, values);
            real s = tile + lane < n ? dot(q + (i64)i * 3 * d, keys + lane * ROW) / sqrt(real(WIDTH))
                           : MINUS_INFINITY;
            real highest = max(top, warp_max(s)), shrink = exp(top - highest);
            real e = exp(s - highest);
            total = total * shrink + warp_sum(e);
            top = highest;
            for (int c = 0; c < COLUMNS; ++c) sum[c] *= shrink;
            add_rows(e, values, min(TILE, n - tile), sum);
        }
        real* out = y + (begin + i) * d + head * WIDTH;
        for (int c = lane; c < WIDTH; c += 32) out[c] = sum[c / 32] / total;
        if (lane == 0) log_sums[(begin + i) * heads + head] = top + log(total);
    }
}

// There are two sweeps. In each, a warp has a word a and goes through all words b, a tile at a
// time. In the first, a is a query and b are keys: dq_a = Σ_b ds_ab k_b/√m. In the second
// (by_keys), a is a key and b are queries: dk_a = Σ_b ds_ba q_b/√m, dv_a = Σ_b p_ba dy_b. The
// formulas are in core's attention_backward; m is WIDTH, dots_i Σ_l p_il dp_il. _qk: queries or
// keys; _dv: dy or values.
extern "C" __global__ void attention_backward(const real* dy, const real* qkv, const i64* offsets,
                                              const real* log_sums, const real* dots, real* dqkv,
                                              int heads) {
    extern __shared__ real shared[];
    int head = blockIdx.x % heads, d = heads * WIDTH;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sentence = (gridDim.x - 1 - blockIdx.x) / heads;
    i64 begin = offsets[sentence];
    int n = offsets[sentence + 1] - begin;
    dy += begin * d + head * WIDTH;
    dots += begin * heads + head, log_sums += begin * heads + head;
    const real *q = qkv + begin * 3 * d + head * WIDTH, *k = q + d, *v = k + d;
    real *tile_qk = shared, *tile_dv = tile_qk + TILE * ROW, scale = 1 / sqrt(real(WIDTH));
    for (int by_keys = 0; by_keys < 2; ++by_keys)
        for (int first = 0; first < n; first += WARPS) {
            i64 a = min(first + warp, n - 1);
            const real* own_qk = (by_keys ? k : q) + a * 3 * d;
            const real* own_dv = by_keys ? v + a * 3 * d : dy + a * d;
            real dqk[COLUMNS] = {}, dv[COLUMNS] = {};
            for (int tile = 0; tile < n; tile += TILE) {
                if (first == 0 || n > TILE)
                    load_tile(by_keys ? q : k, 3 * d, by_keys ? dy : v, by_keys ? d : 3 * d, tile,
                              n, tile_qk, tile_dv);
                int b = tile + lane, i = by_keys ? b : a;     // i is the query
                real p = 0, ds = 0;
                if (b < n) {
                    p = exp(scale * dot(own_qk, tile_qk + lane * ROW) - log_sums[i * heads]);
                    ds = p * (dot(own_dv, tile_dv + lane * ROW) - dots[i * heads]) * scale;
                }
                add_rows(ds, tile_qk, min(TILE, n - tile), dqk);
                if (by_keys) add_rows(p, tile_dv, min(TILE, n - tile), dv);
            }
            real* out = dqkv + (begin + a) * 3 * d + head * WIDTH;
            for (int c = lane; c < WIDTH; c += 32) {
                out[by_keys ? d + c : c] = dqk[c / 32];
                if (by_keys) out[2 * d + c] = dv[c / 32];
            }
        }
}
