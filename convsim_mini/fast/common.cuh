// This text is put before every .cu file. `real` is float or double, the type of the arrays.
typedef long long i64;
typedef unsigned long long u64;
#define MINUS_INFINITY __int_as_float(0xff800000)

__device__ real warp_sum(real x) {                            // every lane gets the sum of all 32
    for (int by = 16; by; by /= 2) x += __shfl_xor_sync(0xffffffffu, x, by);
    return x;
}

__device__ real warp_max(real x) {
    for (int by = 16; by; by /= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, by));
    return x;
}

// The dropout factor of the value with this counter: 0 or 1/(1 − rate), decided by byte
// counter % 8 of a random word.
__device__ real dropout_factor(u64 key, int threshold, u64 counter) {
    if (!threshold) return 1;
    u64 word = key + counter / 8;                             // SplitMix64 finaliser: dropout._mix
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ word >> 27) * 0x94D049BB133111EBull;
    word ^= word >> 31;
    bool kept = (word >> 8 * (counter % 8) & 255) >= threshold;
    return kept ? real(256) / (256 - threshold) : real(0);
}
