// The kernels of attention.py. A block has one head of one sentence: n words, m = d/h numbers each.
// Its warps take turns at the words. Keys and values come in tiles of 32 words into shared memory:
// each of a warp's 32 lanes has one word of a tile. So any length fits, and no n × n array is ever
// written. On an A100 m can be up to 428.
#define TILE 32
#define WARPS 8

// Copies 32 words, or those there are from `first` on, of two arrays into shared memory. Each lane
// will read a row of its own. Rows of m | 1 numbers are m or m + 1 long, whichever is odd: then the
// lanes read from 32 different memory banks, and at once.
__device__ void load_tile(const real* a, int a_stride, const real* b, int b_stride, int first,
                          int n, int m, real* tile_a, real* tile_b) {
    __syncthreads();                                          // all have read the tile before
    for (int t = threadIdx.x; t < TILE * m; t += blockDim.x) {
        int j = t / m, c = t % m;
        if (first + j >= n) break;
        tile_a[j * (m | 1) + c] = a[(i64)(first + j) * a_stride + c];
        tile_b[j * (m | 1) + c] = b[(i64)(first + j) * b_stride + c];
    }
    __syncthreads();
}

__device__ real dot(const real* a, const real* b, int m) {
    real sum = 0;
    for (int c = 0; c < m; ++c) sum += a[c] * b[c];
    return sum;
}

// The place of score (i, j) among those of its sentence, for dropout; see COUNTERS in attention.py.
__device__ u64 score_counter(i64 begin, int head, int n, int i, int j) {
    return ((u64)begin << 27) + ((u64)head * n + i) * n + j;
}

// y_i = Σ_j p_ij v_j. A softmax over tiles: what was summed under a lower maximum is scaled down
// when a higher one is found (Milakov, Gimelshein 2018). log Σ_j e^s_ij is kept for the backward.
extern "C" __global__ void attention_forward(const real* qkv, const i64* offsets, real* y,
                                             real* log_sums, int heads, int m, u64 key,
                                             int threshold) {
    extern __shared__ real shared[];
    int head = blockIdx.x % heads, d = heads * m, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int b = (gridDim.x - 1 - blockIdx.x) / heads;             // the last, longest, first
    i64 begin = offsets[b];
    int n = offsets[b + 1] - begin;
    const real *q = qkv + begin * 3 * d + head * m, *k = q + d, *v = k + d;
    real *keys = shared, *values = keys + TILE * (m | 1);
    real *query = values + TILE * (m | 1) + warp * (2 * m + TILE), *sum = query + m, *p = sum + m;
    real scale = 1 / sqrt(real(m));
    for (int first = 0; first < n; first += WARPS) {
        int i = min(first + warp, n - 1);                     // idle warps repeat the last word
        for (int c = lane; c < m; c += 32) {
            query[c] = q[(i64)i * 3 * d + c] * scale;
            sum[c] = 0;
        }
        real top = minus_infinity(), total = 0;
        for (int tile = 0; tile < n; tile += TILE) {
            // a sentence that fits into one tile is loaded once
            if (first == 0 || n > TILE) load_tile(k, 3 * d, v, 3 * d, tile, n, m, keys, values);
            __syncwarp();                                     // query is complete
            bool inside = tile + lane < n;
            real score = inside ? dot(query, keys + lane * (m | 1), m) : minus_infinity();
            real highest = max(top, warp_max(score)), shrink = exp(top - highest);
            real e = exp(score - highest);
            total = total * shrink + warp_sum(e);
            top = highest;
            u64 counter = score_counter(begin, head, n, i, tile + lane);
            p[lane] = e * dropout_factor(key, threshold, counter);
            __syncwarp();
            for (int c = lane; c < m; c += 32) {
                real out = sum[c] * shrink;
                for (int j = 0; j < min(TILE, n - tile); ++j) out += p[j] * values[j * (m | 1) + c];
                sum[c] = out;
            }
            __syncwarp();                                     // all have read p
        }
        if (first + warp >= n) continue;
        for (int c = lane; c < m; c += 32) y[(begin + i) * d + head * m + c] = sum[c] / total;
        if (lane == 0) log_sums[(begin + i) * heads + head] = top + log(total);
    }
}

// What both sweeps of the backward know.
struct Sentence {
    i64 begin;
    int n, heads, head, m, threshold;
    u64 key;
    const real *qkv, *dy, *log_sums, *dots;
    real* dqkv;
};

// A warp has word a and goes through all words b, a tile at a time. By queries: a is a query, b are
// keys: dq_a = Σ_b ds_ab k_b/√m. By keys: a is a key, b are queries: dk_a = Σ_b ds_ba q_b/√m and
// dv_a = Σ_b p_ba dy_b. The formulas stand in attention_backward.
template <bool by_keys> __device__ void sweep(const Sentence& s, real* shared) {
    int m = s.m, n = s.n, d = s.heads * m, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const real *q = s.qkv + s.begin * 3 * d + s.head * m, *k = q + d, *v = k + d;
    const real* dy = s.dy + s.begin * d + s.head * m;
    const real *of_a = by_keys ? k : q, *other_a = by_keys ? v : dy;
    const real *of_b = by_keys ? q : k, *other_b = by_keys ? dy : v;
    int a_stride = by_keys ? 3 * d : d, b_stride = by_keys ? d : 3 * d;       // of the other arrays
    real *tile = shared, *other_tile = tile + TILE * (m | 1);
    real *row = other_tile + TILE * (m | 1) + warp * (4 * m + 2 * TILE), *other_row = row + m;
    real *first_sum = other_row + m, *second_sum = first_sum + m;
    real *ds = second_sum + m, *p = ds + TILE;
    real scale = 1 / sqrt(real(m));
    for (int first = 0; first < n; first += WARPS) {
        int a = min(first + warp, n - 1);                     // idle warps repeat the last word
        for (int c = lane; c < m; c += 32) {
            row[c] = of_a[(i64)a * 3 * d + c];
            other_row[c] = other_a[(i64)a * a_stride + c];
            first_sum[c] = second_sum[c] = 0;
        }
        for (int begin = 0; begin < n; begin += TILE) {
            if (first == 0 || n > TILE)
                load_tile(of_b, 3 * d, other_b, b_stride, begin, n, m, tile, other_tile);
            __syncwarp();                                     // row is complete
            int b = begin + lane, i = by_keys ? b : a, j = by_keys ? a : b;
            if (b < n) {
                i64 at = (s.begin + i) * s.heads + s.head;
                u64 counter = score_counter(s.begin, s.head, n, i, j);
                real factor = dropout_factor(s.key, s.threshold, counter);
                real score = scale * dot(row, tile + lane * (m | 1), m);
                real dp = dot(other_row, other_tile + lane * (m | 1), m) * factor;
                real weight = exp(score - s.log_sums[at]);
                ds[lane] = weight * (dp - s.dots[at]) * scale;
                p[lane] = weight * factor;
            }
            __syncwarp();
            for (int c = lane; c < m; c += 32) {
                real x = first_sum[c], y = second_sum[c];
                for (int j = 0; j < min(TILE, n - begin); ++j) {
                    x += ds[j] * tile[j * (m | 1) + c];
                    if (by_keys) y += p[j] * other_tile[j * (m | 1) + c];
                }
                first_sum[c] = x;
                second_sum[c] = y;
            }
            __syncwarp();                                     // all have read ds and p
        }
        if (first + warp >= n) continue;
        real* out = s.dqkv + (s.begin + a) * 3 * d + s.head * m;
        for (int c = lane; c < m; c += 32) {
            out[by_keys ? d + c : c] = first_sum[c];
            if (by_keys) out[2 * d + c] = second_sum[c];
        }
    }
}

// dots_i = Σ_l p_il dp_il = dy_i · y_i, then both sweeps, which begin with a barrier.
extern "C" __global__ void attention_backward(const real* dy, const real* y, const real* qkv,
                                              const i64* offsets, const real* log_sums, real* dots,
                                              real* dqkv, int heads, int m, u64 key,
                                              int threshold) {
    extern __shared__ real shared[];
    int head = blockIdx.x % heads, d = heads * m, lane = threadIdx.x % 32;
    int b = (gridDim.x - 1 - blockIdx.x) / heads;
    i64 begin = offsets[b];
    int n = offsets[b + 1] - begin;
    for (int i = threadIdx.x / 32; i < n; i += WARPS) {
        i64 at = (begin + i) * d + head * m;
        real sum = 0;
        for (int c = lane; c < m; c += 32) sum += dy[at + c] * y[at + c];
        sum = warp_sum(sum);
        if (lane == 0) dots[(begin + i) * heads + head] = sum;
    }
    Sentence s{begin, n, heads, head, m, threshold, key, qkv, dy, log_sums, dots, dqkv};
    sweep<false>(s, shared);
    sweep<true>(s, shared);
}
