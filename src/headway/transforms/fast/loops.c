/* Steps of decoding at the speed of reading the weights.

   Decoding multiplies each matrix by one vector or a few, so that it is bound by reading the
   matrix, and by the time that each operation takes besides. Here a product reads the matrix once,
   each thread its own rows, and a sublayer of a block, with its norm and residual connection, is one
   call. products.h and sublayers.h hold the loops, and are compiled once for each set of
   instructions. Python calls the functions by ctypes (loops.py, sublayers.py), so no header of
   Python or torch is needed.

   A number of y has the same bits for any number of rows, threads and outputs: it is always the sum
   of the same parts in the same order. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Torch's own threads: its OpenMP library is loaded before this one. */
extern void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned) __attribute__((weak));
extern int omp_get_thread_num(void) __attribute__((weak));
extern int omp_get_num_threads(void) __attribute__((weak));

#define AVX2 1 /* sets of instructions */
#define AVX_VNNI 2
#define AVX512 3
#define GROUP 32 /* inputs that share a scale of x */
#define LEAST 1e-30f /* of the largest size of a group, so that its steps are no zeros */
#define WORK 32768 /* multiplications that one thread does in less time than it takes to wake another */
#define ROWS 256 /* rows that are rounded and multiplied at once: their codes stay in a cache */
#define SMALL 16384 /* numbers of x that one thread rounds in less time than it takes to wake another */

#define FLOAT32 0 /* numbers of a matrix */
#define BFLOAT16 1
#define INT8 2
#define INT4 3

/* W (O I) of y = x W^T + b. In codes it is as loops.py arranges it, of `columns` inputs, a multiple
   of 32 of which the last may be padding; `parts` are the scales of codes in bfloat16, and `group`
   inputs share one. Scales of x in groups of 32 make sums within a group those of integers. */
typedef struct {
    int64_t numbers, inputs, columns, outputs, group;
    const void *w, *parts;
    const float *bias;
} matrix;

/* x: R I in float32, or R `columns` codes with `scale` and `sum` of each group of 32. y: its rows
   are `stride` apart. Without VNNI, an int8 product of several rows is faster if x is WIDE, in 16
   bits, and fastest if no code is negative (POSITIVE), as after relu. */
#define SIGNED 0
#define POSITIVE 1
#define WIDE 2
typedef struct {
    const matrix *by;
    int64_t rows, x_is;
    const void *x;
    const float *scale;
    const int32_t *sum;
    float *y;
    int64_t stride;
} product;

/* x (R I), and where its codes, of 16 bits if `is_wide`, and scale and sum of each group, are
   written. In 16 bits the sum is that of x_0 x_1 + x_2 x_3 + ..., which `four_rows_of_two` needs. */
typedef struct {
    int64_t inputs, groups, is_wide;
    const float *x;
    void *codes;
    float *scale;
    int32_t *sum;
} rounding;

/* gain (x - mean) / sqrt(var + eps) + shift, or gain x / sqrt(mean of squares + eps), or the same
   with 1 + gain. Without a gain it is 1. */
#define NO_NORM 0
#define LAYER_NORM 1
#define RMS_NORM 2
#define OFFSET_RMS_NORM 3
typedef struct {
    int64_t kind;
    const float *gain, *shift;
    double eps;
} norm;

/* x = x + factor norm_after(f(norm(source))), or norm(x + f(x)) if `is_post`. x: R D. The source is
   x, or in a block whose sublayers are parallel a copy of what x was before. */
typedef struct {
    int64_t set, threads, rows, dim, is_post;
    norm around, after;
    double factor;
    float *x;
    const float *source;
} connection;

/* f of a feed-forward network: contract(activation(first x)), or of a gated one
   contract(activation(gate x) * (expand x)), where `first` are gate and expansion. */
#define RELU 0
#define GELU 1
#define GELU_TANH 2
#define SILU 3
typedef struct {
    connection around;
    int64_t num_first, is_gated, activation;
    matrix first[2], contract;
} feedforward;

/* f of attention by one new token of each row: output(softmax(q k^T scale) v), where scores s may be
   limited to cap tanh(s / cap), and keys to the last `window`; 0: no limit, and 1 / sqrt(K).

   inputs: queries, keys and values, as one matrix or several; of cross-attention queries only.
   shared: queries of a key head. across: whether the norms of queries and keys are over all heads. cos, sin: R/2 numbers for each row, or for all if the stride is 0,
   by which the first R numbers of a head are rotated, in pairs i and i + R/2, or 2i and 2i + 1 if
   `is_adjacent`; none without rotary positions. keys, values: M G C K and M G C Kv. In self-attention the new ones
   are written at `position` of each row, which attends to those up to there; key j of row r is in
   row token_rows[r `token_stride` + j], or in row r without token_rows. In cross-attention
   row r attends to `num_keys` keys of source r / width, or places[r] / width, that are `real`. */
typedef struct {
    connection around;
    int64_t num_inputs, heads, shared, width, value_width, window, across;
    double scale, cap;
    matrix inputs[3], output;
    norm query_norm, key_norm;
    const float *cos, *sin;
    int64_t rotated, is_adjacent, angle_stride;
    float *keys, *values;
    int64_t capacity;
    const int64_t *position;
    int64_t position_stride;
    const int32_t *token_rows;
    int64_t token_stride;
    int64_t is_cross, num_keys, sharing;
    const uint8_t *real;
    const int64_t *places;
} attention;

/* The rows of an attention whose heads are computed, and its buffers: projections (R `stride`) and
   contexts (R H Kv). */
typedef struct {
    const attention *by;
    const float *projected;
    int64_t stride;
    float *scores, *context;
} heads;

/* Computes blocks first to last of what `of` describes. */
typedef void (*part_of)(const void *of, int64_t first, int64_t last);

typedef struct {
    part_of compute;
    const void *of;
    int64_t blocks;
} shared_work;

static void share(void *data) {
    const shared_work *work = data;
    int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
    int64_t first = work->blocks * me / all, last = work->blocks * (me + 1) / all;
    if (first < last) work->compute(work->of, first, last);
}

static void in_parallel(part_of compute, const void *of, int64_t blocks, int64_t threads) {
    if (threads > blocks) threads = blocks;
    if (threads < 2) {
        compute(of, 0, blocks);
        return;
    }
    shared_work work = {compute, of, blocks};
    GOMP_parallel(share, &work, (unsigned)threads, 0);
}

int headway_multiply(int64_t set, int64_t threads, int64_t rows, const float *x, const matrix *m,
                     float *y, int64_t stride);

/* Return the size of a structure: Python calls no function that was compiled for other ones. */
int64_t headway_size(int of) {
    return of == 0 ? sizeof(matrix) : of == 1 ? sizeof(attention) : sizeof(feedforward);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define SET AVX2
#define NAME(f) f##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#include "products.h"
#include "sublayers.h"
#undef SET
#undef NAME
#undef TARGET

#if __GNUC__ >= 11 || __clang_major__ >= 12
#define HAS_AVX_VNNI 1
#define SET AVX_VNNI
#define NAME(f) f##_avx_vnni
#define TARGET __attribute__((target("avx2,fma,avxvnni")))
#include "products.h"
#include "sublayers.h"
#undef SET
#undef NAME
#undef TARGET
#endif

#define SET AVX512
#define NAME(f) f##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")))
#include "products.h"
#include "sublayers.h"
#undef SET
#undef NAME
#undef TARGET

/* Return whether this processor has a set of instructions, and torch's threads are at hand. */
int headway_runs(int set) {
    if (!GOMP_parallel || !omp_get_thread_num || !omp_get_num_threads) return 0;
    __builtin_cpu_init();
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (set == AVX2) return avx2;
#ifdef HAS_AVX_VNNI
    if (set == AVX_VNNI) return avx2 && __builtin_cpu_supports("avxvnni");
#endif
    return set == AVX512 && avx2 && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

#ifdef HAS_AVX_VNNI
#define CHOOSE(f, set) ((set) == AVX512 ? f##_avx512 : (set) == AVX_VNNI ? f##_avx_vnni : f##_avx2)
#else
#define CHOOSE(f, set) ((set) == AVX512 ? f##_avx512 : f##_avx2)
#endif

/* Return the number of threads that a matrix is worth: waking one takes 2 microseconds. */
static int64_t threads_for(int64_t threads, int64_t rows, const matrix *m) {
    const int64_t enough = 1 + rows * m->outputs * m->inputs / WORK;
    return threads < enough ? threads : enough;
}

static int is_positive(int64_t count, const float *x) {
    for (int64_t i = 0; i < count; i++) if (!(x[i] >= 0)) return 0;
    return 1;
}

static int multiply_codes(int64_t set, int64_t threads, int64_t rows, const float *x,
                          const matrix *m, float *y, int64_t stride) {
    const int64_t width = set == AVX512 ? 16 : 8, groups = m->columns / GROUP;
    const int64_t most = rows < ROWS ? rows : ROWS;
    const int64_t x_is = set != AVX2 || m->numbers != INT8 ? SIGNED
                         : is_positive(rows * m->inputs, x) ? POSITIVE : rows > 1 ? WIDE : SIGNED;
    const int64_t bytes = GROUP * (x_is == WIDE ? sizeof(int16_t) : sizeof(int8_t));
    char *memory = malloc(most * groups * (bytes + sizeof(float) + sizeof(int32_t)));
    if (!memory) return 1;
    float *scale = (float *)memory;
    int32_t *sum = (int32_t *)(scale + most * groups);
    void *codes = sum + most * groups;
    for (int64_t r = 0; r < rows; r += ROWS) {
        const int64_t some = rows - r < ROWS ? rows - r : ROWS;
        rounding to = {m->inputs, groups, x_is == WIDE, x + r * m->inputs, codes, scale, sum};
        in_parallel(CHOOSE(round_rows, set), &to, some, some * m->inputs < SMALL ? 1 : threads);
        product p = {m, some, x_is, codes, scale, sum, y + r * stride, stride};
        in_parallel(m->numbers == INT8 ? CHOOSE(int8_blocks, set) : CHOOSE(int4_blocks, set), &p,
                    (m->outputs + width - 1) / width, threads);
    }
    free(memory);
    return 0;
}

/* y = x W^T + b, for x (R I), with rows of y `stride` apart. Return 1 if there is no memory. */
int headway_multiply(int64_t set, int64_t threads, int64_t rows, const float *x, const matrix *m,
                     float *y, int64_t stride) {
    threads = threads_for(threads, rows, m);
    if (m->numbers == INT8 || m->numbers == INT4)
        return multiply_codes(set, threads, rows, x, m, y, stride);
    product p = {m, rows, 0, x, 0, 0, y, stride};
    in_parallel(m->numbers == FLOAT32 ? CHOOSE(float32_rows, set) : CHOOSE(bfloat16_rows, set), &p,
                (m->outputs + 7) / 8, threads);
    return 0;
}

/* Replace x by x + f(norm(x)), or norm(x + f(x)). Return 1 if there is no memory. */
int headway_feedforward(const feedforward *f) {
    return CHOOSE(feedforward, f->around.set)(f);
}

/* The same; new keys and values are written. */
int headway_attention(const attention *a) { return CHOOSE(attention, a->around.set)(a); }
#else
int headway_runs(int set) { return set < 0; }
#endif
