// The kernels of attention.py. A block has one head of one sentence: n words with WIDTH = d/h
// numbers each. WIDTH is compiled in and may be up to 420 on an A100. Keys and values are loaded
// into shared memory in tiles of 32 words, one word for each of a warp's 32 lanes. So any length
// fits, and no n × n array is ever written. Shared memory is the bottleneck: reading 32 numbers
// takes a warp as long as four multiplications. So a warp has four words of the sentence at once: a
// number of a tile serves all four, whose own numbers lie side by side and are read together.
#define TILE 32
#define WARPS 4
#define WORDS 4
#define ROW (WIDTH | 1)                                       // odd: see load_tile
#define COLUMNS ((WIDTH + 31) / 32)                           // of a lane, among WIDTH
#define WARP_NUMBER __shfl_sync(~0u, threadIdx.x / 32, 0)     // all lanes know that it is the same

// One number for each of a warp's words; all of them are read at once.
struct __align__(16) PerWord { real of[WORDS]; };

// Copies up to 32 words from `first` on, of two arrays, into shared memory. Later each lane reads a
// row of its own; because ROW is odd, they then read from 32 different memory banks at once.
__device__ void load_tile(const real* a, int a_stride, const real* b, int b_stride, int first,
                          int n, real* tile_a, real* tile_b) {
    int count = min(TILE, n - first) * WIDTH;
    __syncthreads();                                          // all have read the previous tile
    #pragma unroll 2
    for (int t = threadIdx.x; t < count; t += WARPS * 32) {
        int j = t / WIDTH, c = t % WIDTH;
        tile_a[j * ROW + c] = a[(i64)(first + j) * a_stride + c];
        tile_b[j * ROW + c] = b[(i64)(first + j) * b_stride + c];
    }
    __syncthreads();
}

// own_w = factor · x_i, i = min(first + w, n − 1), for a warp's words w. Lanes share the columns.
__device__ void load_own(const real* x, int stride, int first, int n, real factor, PerWord* own) {
    for (int c = threadIdx.x % 32; c < WIDTH; c += 32)
        for (int w = 0; w < WORDS; ++w)
            own[c].of[w] = x[(i64)min(first + w, n - 1) * stride + c] * factor;
}

// sum_w = own_w · row for a warp's words w. row: this lane's row of a tile.
__device__ PerWord dots_of(const PerWord* own, const real* row) {
    PerWord sum = {};
    #pragma unroll 8
    for (int c = 0; c < WIDTH; ++c) {
        PerWord number = own[c];
        for (int w = 0; w < WORDS; ++w) sum.of[w] += number.of[w] * row[c];
    }
    return sum;
}

// sum_w += Σ_j factor_jw row_j for a warp's words w, over the first `count` rows j of the tile. The
// lanes share the columns.
__device__ void add_rows(const PerWord* factors, const real* tile, int count, PerWord* sum) {
    int lane = threadIdx.x % 32;
    #pragma unroll 4
    for (int j = 0; j < count; ++j) {
        PerWord factor = factors[j];
        for (int k = 0; k < COLUMNS; ++k) {
            int c = min(32 * k + lane, WIDTH - 1);            // a lane may have no column
            for (int w = 0; w < WORDS; ++w) sum[k].of[w] += factor.of[w] * tile[j * ROW + c];
        }
    }
}

// The dropout counter of a sentence's score (i, j) in this head; see COUNTERS in attention.py.
__device__ u64 score_counter(i64 begin, int head, int n, int i, int j) {
    return ((u64)begin << 27) + ((u64)head * n + i) * n + j;
}

// y_i = Σ_j p_ij v_j. The softmax is computed tile by tile: when a higher maximum is found, sums so
// far are scaled down (Milakov, Gimelshein 2018). log Σ_j e^s_ij is kept for the backward.
extern "C" __global__ void attention_forward(const real* qkv, const i64* offsets, real* y,
                                             real* log_sums, int heads, u64 key, int threshold) {
    extern __shared__ __align__(16) real shared[];
    int head = blockIdx.x % heads, d = heads * WIDTH, lane = threadIdx.x % 32, warp = WARP_NUMBER;
    int sentence = (gridDim.x - 1 - blockIdx.x) / heads;      // first the last, which is longest
    i64 begin = offsets[sentence];
    int n = offsets[sentence + 1] - begin;
    const real *q = qkv + begin * 3 * d + head * WIDTH, *k = q + d, *v = k + d;
    real *keys = shared, *values = keys + TILE * ROW;
    PerWord *query = (PerWord*)(values + TILE * ROW) + warp * (WIDTH + TILE), *p = query + WIDTH;
    for (int round = 0; round < n; round += WARPS * WORDS) {
        int first = round + warp * WORDS;                     // of this warp's words
        load_own(q, 3 * d, first, n, 1 / sqrt(real(WIDTH)), query);
        PerWord sum[COLUMNS] = {}, total = {}, top;
        for (int w = 0; w < WORDS; ++w) top.of[w] = MINUS_INFINITY;
        for (int tile = 0; tile < n; tile += TILE) {
            // a sentence that fits into one tile is loaded once
            if (round == 0 || n > TILE) load_tile(k, 3 * d, v, 3 * d, tile, n, keys, values);
            if (first >= n) continue;                         // an idle warp only helps to load
            __syncwarp();                                     // query is complete
            PerWord score = dots_of(query, keys + lane * ROW);
            for (int w = 0; w < WORDS; ++w) {
                real s = tile + lane < n ? score.of[w] : MINUS_INFINITY;
                real highest = max(top.of[w], warp_max(s)), shrink = exp(top.of[w] - highest);
                real e = exp(s - highest);
                total.of[w] = total.of[w] * shrink + warp_sum(e);
                for (int k = 0; k < COLUMNS; ++k) sum[k].of[w] *= shrink;
                top.of[w] = highest;
                u64 counter = score_counter(begin, head, n, first + w, tile + lane);
                p[lane].of[w] = e * dropout_factor(key, threshold, counter);
            }
            __syncwarp();
            add_rows(p, values, min(TILE, n - tile), sum);
            __syncwarp();                                     // all have read p
        }
        for (int w = 0; w < WORDS && first + w < n; ++w) {
            i64 i = begin + first + w;
            real share = 1 / total.of[w], *out = y + i * d + head * WIDTH + lane;
            for (int k = 0; k < COLUMNS && lane + 32 * k < WIDTH; ++k)
                out[32 * k] = sum[k].of[w] * share;
            if (lane == 0) log_sums[i * heads + head] = top.of[w] + log(total.of[w]);
        }
    }
}

// There are two sweeps. In each, a warp has four words a and goes through all words b, a tile at a
// time. In the first, a are queries and b keys: dq_a = Σ_b ds_ab k_b/√m. In the second (by_keys), a
// are keys and b queries: dk_a = Σ_b ds_ba q_b/√m, dv_a = Σ_b p_ba dy_b. The formulas are in core's
// attention_backward; m is WIDTH, dots_i Σ_l p_il dp_il. _qk: queries or keys; _dv: dy or values.
extern "C" __global__ void attention_backward(const real* dy, const real* qkv, const i64* offsets,
                                              const real* log_sums, const real* dots, real* dqkv,
                                              int heads, u64 key, int threshold) {
    extern __shared__ __align__(16) real shared[];
    int head = blockIdx.x % heads, d = heads * WIDTH, lane = threadIdx.x % 32, warp = WARP_NUMBER;
    int sentence = (gridDim.x - 1 - blockIdx.x) / heads;
    i64 begin = offsets[sentence];
    int n = offsets[sentence + 1] - begin;
    dy += begin * d + head * WIDTH;
    dots += begin * heads + head, log_sums += begin * heads + head;
    const real *q = qkv + begin * 3 * d + head * WIDTH, *k = q + d, *v = k + d;
    real *tile_qk = shared, *tile_dv = tile_qk + TILE * ROW, scale = 1 / sqrt(real(WIDTH));
    PerWord* own_qk = (PerWord*)(tile_dv + TILE * ROW) + warp * (2 * WIDTH + 2 * TILE);
    PerWord *own_dv = own_qk + WIDTH, *ds = own_dv + WIDTH, *p = ds + TILE;
    for (int by_keys = 0; by_keys < 2; ++by_keys)
        for (int round = 0; round < n; round += WARPS * WORDS) {
            int first = round + warp * WORDS;                 // of this warp's words
            load_own(by_keys ? k : q, 3 * d, first, n, 1, own_qk);
            load_own(by_keys ? v : dy, by_keys ? 3 * d : d, first, n, 1, own_dv);
            PerWord dqk[COLUMNS] = {}, dv[COLUMNS] = {};
            for (int tile = 0; tile < n; tile += TILE) {
                if (round == 0 || n > TILE)
                    load_tile(by_keys ? q : k, 3 * d, by_keys ? dy : v, by_keys ? d : 3 * d, tile,
                              n, tile_qk, tile_dv);
                if (first >= n) continue;
                __syncwarp();                                 // own_qk and own_dv are complete
                PerWord score = dots_of(own_qk, tile_qk + lane * ROW);
                PerWord dp = dots_of(own_dv, tile_dv + lane * ROW);
                for (int w = 0; w < WORDS && tile + lane < n; ++w) {
                    int a = min(first + w, n - 1), b = tile + lane, i = by_keys ? b : a;
                    u64 counter = score_counter(begin, head, n, i, by_keys ? a : b);
                    real factor = dropout_factor(key, threshold, counter);
                    real weight = exp(scale * score.of[w] - log_sums[i * heads]);
                    ds[lane].of[w] = weight * (dp.of[w] * factor - dots[i * heads]) * scale;
                    p[lane].of[w] = weight * factor;
                }
                __syncwarp();
                add_rows(ds, tile_qk, min(TILE, n - tile), dqk);
                if (by_keys) add_rows(p, tile_dv, min(TILE, n - tile), dv);
                __syncwarp();                                 // all have read ds and p
            }
            for (int w = 0; w < WORDS && first + w < n; ++w)
                for (int k = 0; k < COLUMNS && lane + 32 * k < WIDTH; ++k) {
                    real* out = dqkv + (begin + first + w) * 3 * d + head * WIDTH + lane + 32 * k;
                    out[by_keys ? d : 0] = dqk[k].of[w];
                    if (by_keys) out[2 * d] = dv[k].of[w];
                }
        }
}
