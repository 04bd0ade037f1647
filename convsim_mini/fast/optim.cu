// The kernel of optim.py: all dense parameters in one launch. Row y of the grid has one parameter.
#define MOST 96                                               // arguments may take 4,096 bytes
struct Parameters {
    real* p[MOST];
    const real* grad[MOST];
    real* mean[MOST];
    real* square[MOST];
    i64 size[MOST];
};

// A step of SGD, or of Adam if there are means: rate is then the learning rate / (1 − β₁ᵗ),
// correction 1 − β₂ᵗ; new1, new2 are 1 − β₁ and 1 − β₂.
extern "C" __global__ void update(Parameters all, real rate, real correction, real new1, real new2,
                                  real epsilon) {
    int y = blockIdx.y;
    for (i64 k = (i64)blockIdx.x * blockDim.x + threadIdx.x; k < all.size[y];
         k += (i64)gridDim.x * blockDim.x) {
        real step = all.grad[y][k];
        if (all.mean[y]) {
            real *mean = all.mean[y] + k, *square = all.square[y] + k;
            *mean += new1 * (step - *mean);
            *square += new2 * (step * step - *square);
            step = *mean / (sqrt(*square / correction) + epsilon);
        }
        all.p[y][k] -= rate * step;
    }
}
