/* Products for one set of instructions: SET, with names by NAME and TARGET.

   V is the number of float32 numbers of a vector. A tile is what is summed in registers at once:
   some outputs for some rows of x. Loops over the parts of a tile have constant bounds, so that the
   compiler unrolls them. */

#define INLINE static inline __attribute__((always_inline)) TARGET
#define LINE 64 /* bytes that memory gives at once */
#define SLICE 512 /* inputs of 8 rows of W and of a tile of x, which the first cache holds together */
#define PANEL 128 /* rows of x whose slice the second cache holds, with their unfinished sums */
#define MANY 16 /* rows for which a product is bound by computing */
#define AHEAD 1024 /* bytes of W that are asked for before they are read */
#define UNROLL _Pragma("GCC unroll 8")
/* Compute this number now: GCC would add the products of a group pairwise, in memory, as there are
   more of them than registers. */
#define NOW(a) __asm__("" : "+x"(a))

#if SET == AVX512
#define V 16
#define TILE_ROWS 4 /* of a tile of 4 outputs: 16 sums in 32 registers */
#define OUTPUTS 4 /* of a tile of 4 rows at once */
#define COPIED 64 /* rows for which slices of W are worth a copy */
#define floats __m512
#define ints __m512i
#define halves __m256i
#define load_floats _mm512_loadu_ps
#define store_floats _mm512_storeu_ps
#define load_ints(p) _mm512_loadu_si512((const void *)(p))
#define load_halves(p) _mm256_loadu_si256((const __m256i *)(p))
#define set_floats _mm512_set1_ps
#define set_ints _mm512_set1_epi32
#define add_floats _mm512_add_ps
#define multiply _mm512_mul_ps
#define multiply_add _mm512_fmadd_ps
#define to_floats _mm512_cvtepi32_ps
#define to_ints _mm512_cvtps_epi32
#define subtract _mm512_sub_ps
#define divide _mm512_div_ps
#define max_floats _mm512_max_ps
#define min_floats _mm512_min_ps
#define add_ints _mm512_add_epi32
#define max_ints _mm512_max_epi32
#define as_ints _mm512_castps_si512
#define and_ints _mm512_and_si512
#define shift_right(a, n) _mm512_srli_epi16(a, n)
#define shift_left(a, n) _mm512_slli_epi32(a, n)
#define widen _mm512_cvtepu16_epi32
#define as_floats _mm512_castsi512_ps
INLINE __m256 NAME(folded)(floats a) {
    __m256d upper = _mm512_extractf64x4_pd(_mm512_castps_pd(a), 1);
    return _mm256_add_ps(_mm512_castps512_ps256(a), _mm256_castpd_ps(upper));
}
#else
#define V 8
#define TILE_ROWS 3 /* 12 sums in 16 registers */
#define OUTPUTS 2
#define COPIED 32
#define floats __m256
#define ints __m256i
#define halves __m128i
#define load_floats _mm256_loadu_ps
#define store_floats _mm256_storeu_ps
#define load_ints(p) _mm256_loadu_si256((const __m256i *)(p))
#define load_halves(p) _mm_loadu_si128((const __m128i *)(p))
#define set_floats _mm256_set1_ps
#define set_ints _mm256_set1_epi32
#define add_floats _mm256_add_ps
#define multiply _mm256_mul_ps
#define multiply_add _mm256_fmadd_ps
#define to_floats _mm256_cvtepi32_ps
#define to_ints _mm256_cvtps_epi32
#define subtract _mm256_sub_ps
#define divide _mm256_div_ps
#define max_floats _mm256_max_ps
#define min_floats _mm256_min_ps
#define add_ints _mm256_add_epi32
#define max_ints _mm256_max_epi32
#define as_ints _mm256_castps_si256
#define and_ints _mm256_and_si256
#define shift_right(a, n) _mm256_srli_epi16(a, n)
#define shift_left(a, n) _mm256_slli_epi32(a, n)
#define widen _mm256_cvtepu16_epi32
#define as_floats _mm256_castsi256_ps
INLINE __m256 NAME(folded)(floats a) { return a; }
#endif

/* Add the numbers of a vector: halves to halves. */
INLINE float NAME(total)(floats of) {
    __m256 a = NAME(folded)(of);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* The same for the first vectors of 4 rows of 4 vectors. */
INLINE __m128 NAME(totals)(const floats *of) {
    __m256 a = NAME(folded)(of[0]), b = NAME(folded)(of[4]);
    __m256 c = NAME(folded)(of[8]), d = NAME(folded)(of[12]);
    __m256 first = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20),
                                 _mm256_permute2f128_ps(a, b, 0x31)); /* 4 of a, 4 of b */
    __m256 second = _mm256_add_ps(_mm256_permute2f128_ps(c, d, 0x20),
                                  _mm256_permute2f128_ps(c, d, 0x31));
    __m256 pairs = _mm256_add_ps(_mm256_shuffle_ps(first, second, 0x44),
                                 _mm256_shuffle_ps(first, second, 0xee)); /* a a c c, b b d d */
    __m256 sums = _mm256_add_ps(_mm256_shuffle_ps(pairs, pairs, 0x88),
                                _mm256_shuffle_ps(pairs, pairs, 0xdd)); /* a c, b d */
    return _mm_unpacklo_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}

/* ---- float32 and bfloat16: a dot product for each number of y ---- */

INLINE floats NAME(weights)(const void *w, int64_t i, const int is_short) {
    if (is_short) return as_floats(shift_left(widen(load_halves((const uint16_t *)w + i)), 16));
    return load_floats((const float *)w + i);
}

INLINE float NAME(weight)(const void *w, int64_t i, const int is_short) {
    if (!is_short) return ((const float *)w)[i];
    union { uint32_t bits; float number; } u = {(uint32_t)((const uint16_t *)w)[i] << 16};
    return u.number;
}

/* Add the products of inputs `from` to `to` of O rows of W and R rows of x to their sums. Rows of W
   are asked for `ahead` bytes before they are read. */
INLINE void NAME(add_products)(floats sums[][4], const char *const *w,
                               const float *const *x, int64_t from, int64_t to, const int O,
                               const int R, const int is_short, int64_t ahead) {
    floats sum[8][4]; /* in registers */
    UNROLL for (int j = 0; j < O; j++) UNROLL for (int k = 0; k < R; k++) sum[j][k] = sums[j][k];
    for (int64_t i = from; i < to; i += V) {
        floats of_x[4];
        UNROLL for (int k = 0; k < R; k++) of_x[k] = load_floats(x[k] + i);
        UNROLL for (int j = 0; j < O; j++) {
            if (ahead && i % (is_short ? 32 : 16) == 0)
                _mm_prefetch(w[j] + i * (is_short ? 2 : 4) + ahead, _MM_HINT_T1);
            floats of_w = NAME(weights)(w[j], i, is_short);
            UNROLL for (int k = 0; k < R; k++) sum[j][k] = multiply_add(of_w, of_x[k], sum[j][k]);
        }
    }
    UNROLL for (int j = 0; j < O; j++) UNROLL for (int k = 0; k < R; k++) sums[j][k] = sum[j][k];
}

/* Write O outputs, 4 or 8, from output o on for R rows from row r on: their sums, the products of
   the inputs after the last whole vector, and the bias. */
INLINE void NAME(finish)(const product *p, int64_t o, int64_t r, floats sums[][4],
                         const int O, const int R, const int is_short) {
    const matrix *m = p->by;
    const int64_t n = m->inputs, whole = n - n % V;
    UNROLL for (int k = 0; k < R; k++) UNROLL for (int four = 0; four < O; four += 4) {
        __m128 y = NAME(totals)(&sums[four][k]);
        if (whole < n) {
            float rest[4];
            _mm_storeu_ps(rest, y);
            for (int j = 0; j < 4; j++) for (int64_t i = whole; i < n; i++)
                rest[j] += NAME(weight)(m->w, (o + four + j) * n + i, is_short) *
                           ((const float *)p->x)[(r + k) * n + i];
            y = _mm_loadu_ps(rest);
        }
        if (m->bias) y = _mm_add_ps(y, _mm_loadu_ps(m->bias + o + four));
        _mm_storeu_ps(p->y + (r + k) * p->stride + o + four, y);
    }
}

/* Compute a tile of O outputs, 4 or 8, and R rows, AT_ONCE outputs at a time. */
INLINE void NAME(dots)(const product *p, int64_t o, int64_t r, const int O, const int AT_ONCE,
                       const int R, const int is_short) {
    const int64_t n = p->by->inputs, size = is_short ? 2 : 4;
    const char *w[8];
    const float *x[4];
    floats sums[8][4];
    UNROLL for (int j = 0; j < O; j++) w[j] = (const char *)p->by->w + (o + j) * n * size;
    UNROLL for (int k = 0; k < R; k++) x[k] = (const float *)p->x + (r + k) * n;
    UNROLL for (int j = 0; j < O; j++) UNROLL for (int k = 0; k < R; k++)
        sums[j][k] = set_floats(0);
    UNROLL for (int j = 0; j < O; j += AT_ONCE) /* ahead: of a row, or of the one 8 rows below */
        NAME(add_products)(sums + j, w + j, x, 0, n - n % V, AT_ONCE, R, is_short,
                           R > 1 ? 8 * n * size : AHEAD);
    NAME(finish)(p, o, r, sums, O, R, is_short);
}

/* Each tile is a function of its own, so that its sums stay in registers. */
#define TILE(f, O, AT_ONCE, R)                                                                     \
    static __attribute__((noinline)) TARGET void NAME(f)(const product *p, int64_t o, int64_t r,   \
                                                         const int is_short) {                     \
        if (is_short) NAME(dots)(p, o, r, O, AT_ONCE, R, 1);                                       \
        else NAME(dots)(p, o, r, O, AT_ONCE, R, 0);                                                \
    }
TILE(of_rows, 4, 4, TILE_ROWS)
TILE(of_four_rows, 4, OUTPUTS, 4)
TILE(of_two_rows, 4, 4, 2)
TILE(of_a_row, 8, 8, 1) /* which is bound by reading: of more rows of W at once */
#undef TILE

/* Add the products of some inputs for 8 outputs from output o on and R rows from row r on, whose
   sums are kept until all inputs were added. w: the 8 rows, without what is between them. */
INLINE void NAME(slice)(const product *p, int64_t o, int64_t r, const float *w, int64_t from,
                        int64_t to, floats (*kept)[4], const int R, const int is_short) {
    const int64_t n = p->by->inputs, whole = n - n % V;
    const char *rows[8];
    const float *x[4];
    UNROLL for (int j = 0; j < 8; j++) rows[j] = (const char *)(w + j * SLICE);
    UNROLL for (int k = 0; k < R; k++) x[k] = (const float *)p->x + (r + k) * n + from;
    UNROLL for (int j = 0; j < 8; j += 4) {
        floats sums[4][4];
        UNROLL for (int l = 0; l < 4; l++) UNROLL for (int k = 0; k < R; k++)
            sums[l][k] = from ? kept[j + l][k] : set_floats(0);
        NAME(add_products)(sums, rows + j, x, 0, to - from, 4, R, 0, 0);
        if (to == whole) NAME(finish)(p, o + j, r, sums, 4, R, is_short);
        else UNROLL for (int l = 0; l < 4; l++) UNROLL for (int k = 0; k < R; k++)
            kept[j + l][k] = sums[l][k];
    }
}

/* Compute 8 outputs from output o on for rows `first` to `last`, at most PANEL: a slice of the
   inputs after the other. Slices of 8 rows of W are copied beside each other, as float32: rows that
   are a power of two apart would push each other out of the cache. */
INLINE void NAME(eight_of_many)(const product *p, int64_t o, int64_t first, int64_t last,
                                const int is_short) {
    const int64_t n = p->by->inputs, whole = n - n % V;
    const int64_t vectors = whole / V, slices = (whole + SLICE - 1) / SLICE;
    float w[8 * SLICE];
    floats kept[(PANEL / TILE_ROWS + TILE_ROWS) * 8][4]; /* some tiles are of one row */
    for (int64_t s = 0; s < slices; s++) {
        const int64_t from = vectors * s / slices * V, to = vectors * (s + 1) / slices * V;
        for (int j = 0; j < 8; j++) for (int64_t i = from; i < to; i += V) {
            const int64_t at = (o + j) * n + i;
            if (i % (is_short ? 32 : 16) == 0) /* of the row 8 rows below */
                _mm_prefetch((const char *)p->by->w + (at + 8 * n) * (is_short ? 2 : 4), _MM_HINT_T1);
            store_floats(w + j * SLICE + i - from, NAME(weights)(p->by->w, at, is_short));
        }
        int64_t r = first;
        floats (*sums)[4] = kept;
        for (; r + TILE_ROWS <= last; r += TILE_ROWS, sums += 8)
            NAME(slice)(p, o, r, w, from, to, sums, TILE_ROWS, is_short);
        for (; r < last; r++, sums += 8) NAME(slice)(p, o, r, w, from, to, sums, 1, is_short);
    }
}

/* Compute one of the last outputs, where there are fewer than 8, for one row. */
INLINE void NAME(last)(const product *p, int64_t o, int64_t r, const int is_short) {
    const int64_t n = p->by->inputs;
    const char *w = (const char *)p->by->w + o * n * (is_short ? 2 : 4);
    const float *x = (const float *)p->x + r * n;
    floats sum = set_floats(0);
    int64_t i = 0;
    for (; i + V <= n; i += V)
        sum = multiply_add(NAME(weights)(w, i, is_short), load_floats(x + i), sum);
    float y = NAME(total)(sum);
    for (; i < n; i++) y += NAME(weight)(w, i, is_short) * x[i];
    p->y[r * p->stride + o] = p->by->bias ? y + p->by->bias[o] : y;
}

INLINE void NAME(dot_rows)(const product *p, int64_t first, int64_t last, const int is_short) {
    const int64_t end = 8 * last < p->by->outputs ? 8 * last : p->by->outputs;
    int64_t o = 8 * first;
    for (; o + 8 <= end; o += 8) {
        int64_t r = 0;
        if (p->rows >= COPIED && p->by->inputs >= V) {
            for (; r < p->rows; r += PANEL)
                NAME(eight_of_many)(p, o, r, r + PANEL < p->rows ? r + PANEL : p->rows, is_short);
            continue;
        }
        for (; r + TILE_ROWS <= p->rows && p->rows - r != 4; r += TILE_ROWS)
            for (int j = 0; j < 8; j += 4) NAME(of_rows)(p, o + j, r, is_short);
        if (r + 4 == p->rows) {
            for (int j = 0; j < 8; j += 4) NAME(of_four_rows)(p, o + j, r, is_short);
            continue;
        }
        for (; r + 2 <= p->rows; r += 2)
            for (int j = 0; j < 8; j += 4) NAME(of_two_rows)(p, o + j, r, is_short);
        if (r < p->rows) NAME(of_a_row)(p, o, r, is_short);
    }
    for (; o < end; o++)
        for (int64_t r = 0; r < p->rows; r++) NAME(last)(p, o, r, is_short);
}

static TARGET void NAME(float32_rows)(const void *of, int64_t first, int64_t last) {
    NAME(dot_rows)(of, first, last, 0);
}

static TARGET void NAME(bfloat16_rows)(const void *of, int64_t first, int64_t last) {
    NAME(dot_rows)(of, first, last, 1);
}

/* ---- x in codes: 255 steps from minus the largest size of a group to plus it ---- */

/* Write the low 8 bits of 32 numbers, or 16 bits in the order in which `by_pairs` reads them. */
INLINE void NAME(store_codes)(void *codes, const ints *rounded, const int is_wide) {
#if SET == AVX512
    (void)is_wide;
    _mm_storeu_si128((__m128i *)codes, _mm512_cvtepi32_epi8(rounded[0]));
    _mm_storeu_si128((__m128i *)codes + 1, _mm512_cvtepi32_epi8(rounded[1]));
#else
    ints low[4], pairs[2];
    const ints mask = set_ints(is_wide ? 0xffff : 0xff);
    UNROLL for (int i = 0; i < 4; i++) low[i] = and_ints(rounded[i], mask);
    UNROLL for (int i = 0; i < 2; i++) pairs[i] = _mm256_packus_epi32(low[2 * i], low[2 * i + 1]);
    if (is_wide) {
        UNROLL for (int i = 0; i < 2; i++) {
            const ints in_order = _mm256_permute4x64_epi64(pairs[i], 0xd8);
            const ints lower = _mm256_shufflelo_epi16(in_order, 0xd8); /* 0 2 1 3 */
            _mm256_storeu_si256((ints *)codes + i, _mm256_shufflehi_epi16(lower, 0xd8));
        }
    } else {
        const ints order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        const ints all = _mm256_packus_epi16(pairs[0], pairs[1]);
        _mm256_storeu_si256((ints *)codes, _mm256_permutevar8x32_epi32(all, order));
    }
#endif
}

/* Return the sum of the numbers of a vector, or the largest one. */
INLINE int32_t NAME(over_all)(ints of, const int is_sum) {
#if SET == AVX512
    return is_sum ? _mm512_reduce_add_epi32(of) : _mm512_reduce_max_epi32(of);
#else
    __m128i a = _mm256_castsi256_si128(of), b = _mm256_extracti128_si256(of, 1);
    a = is_sum ? _mm_add_epi32(a, b) : _mm_max_epi32(a, b);
    b = _mm_shuffle_epi32(a, 0x4e);
    a = is_sum ? _mm_add_epi32(a, b) : _mm_max_epi32(a, b);
    b = _mm_shuffle_epi32(a, 0xb1);
    return _mm_cvtsi128_si32(is_sum ? _mm_add_epi32(a, b) : _mm_max_epi32(a, b));
#endif
}

static TARGET void NAME(round_rows)(const void *of, int64_t first, int64_t last) {
    const rounding *to = of;
    const int64_t groups = to->groups, length = GROUP * (to->is_wide ? 2 : 1);
    for (int64_t r = first; r < last; r++)
        for (int64_t g = 0; g < groups; g++) {
            const int64_t start = g * GROUP, there = to->inputs - start, at = r * groups + g;
            const float *x = to->x + r * to->inputs + start;
            float padded[GROUP], largest;
            if (there < GROUP) {
                for (int i = 0; i < GROUP; i++) padded[i] = i < there ? x[i] : 0;
                x = padded;
            }
            floats part[GROUP / V];
            ints rounded[GROUP / V], most = set_ints(0), sum = set_ints(0);
            UNROLL for (int i = 0; i < GROUP / V; i++) {
                part[i] = load_floats(x + i * V);
                /* bits of sizes are ordered as the sizes are, those of NaN above all others */
                most = max_ints(most, and_ints(as_ints(part[i]), set_ints(0x7fffffff)));
            }
            const int32_t bits = NAME(over_all)(most, 0);
            __builtin_memcpy(&largest, &bits, sizeof largest);
            if (largest < LEAST) largest = LEAST;
            const floats factor = set_floats(127 / largest);
            UNROLL for (int i = 0; i < GROUP / V; i++) {
                rounded[i] = to_ints(multiply(part[i], factor));
                sum = add_ints(sum, rounded[i]);
            }
            char *codes = (char *)to->codes + at * length;
            if (to->is_wide) {
                NAME(store_codes)(codes, rounded, 1);
#if SET == AVX2
                const ints first = load_ints(codes), second = load_ints(codes + sizeof(ints));
                sum = add_ints(_mm256_madd_epi16(first, _mm256_srli_epi64(first, 32)),
                               _mm256_madd_epi16(second, _mm256_srli_epi64(second, 32)));
#endif
            } else NAME(store_codes)(codes, rounded, 0);
            to->scale[at] = largest / 127;
            to->sum[at] = NAME(over_all)(sum, 1);
        }
}

/* ---- W in codes: vectors of V outputs, each with 4 inputs beside each other ---- */

/* Return 4 bytes of codes for each output. */
INLINE ints NAME(four)(const int8_t *x) {
    int32_t codes;
    __builtin_memcpy(&codes, x, 4);
    return set_ints(codes);
}

#if SET == AVX2
/* Add 256 times the products of a group of 32 inputs. 16 bits of W have the first and second of 4
   inputs, or the third and fourth: shifted they are 256 times the first and third, masked 256 times
   the second and fourth. The sums are exact: 2^8 2^5 2^14 is less than 2^31. */
INLINE void NAME(by_pairs)(ints sum[2][4], const int8_t *const w[2], const int8_t *const x[4],
                           const int N, const int R) {
    UNROLL for (int j = 0; j < GROUP / 4; j++) {
        ints of_w[2][2];
        UNROLL for (int n = 0; n < N; n++) {
            if (j * V * 4 % LINE == 0) _mm_prefetch(w[n] + j * V * 4 + AHEAD, _MM_HINT_T1);
            const ints both = load_ints(w[n] + j * V * 4);
            of_w[0][n] = _mm256_slli_epi16(both, 8);
            of_w[1][n] = and_ints(both, set_ints((int)0xff00ff00));
        }
        UNROLL for (int h = 0; h < 2; h++) UNROLL for (int k = 0; k < R; k++) {
            const ints of_x = NAME(four)(x[k] + 8 * j + 4 * h);
            UNROLL for (int n = 0; n < N; n++) {
                sum[n][k] = add_ints(sum[n][k], _mm256_madd_epi16(of_w[h][n], of_x));
                NOW(sum[n][k]);
            }
        }
    }
    UNROLL for (int n = 0; n < N; n++) UNROLL for (int k = 0; k < R; k++)
        sum[n][k] = _mm256_srai_epi32(sum[n][k], 8);
}

/* The same for codes of 8 bits, all positive unless `has_signs`. Pairs of products are added in 16
   bits, which |x| and W with the sign of x fit into. */
INLINE void NAME(by_fours)(ints sum[2][4], const int8_t *const w[2], const int8_t *const x[4],
                           const int N, const int R, const int has_signs) {
    UNROLL for (int j = 0; j < GROUP / 4; j++) {
        ints of_w[2];
        UNROLL for (int n = 0; n < N; n++) {
            if (j * V * 4 % LINE == 0) _mm_prefetch(w[n] + j * V * 4 + AHEAD, _MM_HINT_T1);
            of_w[n] = load_ints(w[n] + j * V * 4);
        }
        UNROLL for (int k = 0; k < R; k++) {
            const ints of_x = NAME(four)(x[k] + 4 * j);
            const ints size = has_signs ? _mm256_abs_epi8(of_x) : of_x;
            UNROLL for (int n = 0; n < N; n++) {
                const ints by = has_signs ? _mm256_sign_epi8(of_w[n], of_x) : of_w[n];
                const ints pairs = _mm256_maddubs_epi16(size, by);
                sum[n][k] = add_ints(sum[n][k], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
                NOW(sum[n][k]);
            }
        }
    }
}
#else
/* Return sum + the products of 4 unsigned codes of W and 4 codes of x, for each output. */
INLINE ints NAME(dot4)(ints sum, ints w, ints x) {
#if SET == AVX512
    return _mm512_dpbusd_epi32(sum, w, x);
#else
    return _mm256_dpbusd_avx_epi32(sum, w, x);
#endif
}

/* Add the products of a group of 32 inputs, where W's 8-bit codes are stored + 128. */
INLINE void NAME(by_fours)(ints sum[2][4], const int8_t *const w[2], const int8_t *const x[4],
                           const int N, const int R) {
    UNROLL for (int j = 0; j < GROUP / 4; j++) {
        ints of_w[2];
        UNROLL for (int n = 0; n < N; n++) {
            if (j * V * 4 % LINE == 0) _mm_prefetch(w[n] + j * V * 4 + AHEAD, _MM_HINT_T1);
            of_w[n] = load_ints(w[n] + j * V * 4);
        }
        UNROLL for (int k = 0; k < R; k++) {
            const ints of_x = NAME(four)(x[k] + 4 * j);
            UNROLL for (int n = 0; n < N; n++) sum[n][k] = NAME(dot4)(sum[n][k], of_w[n], of_x);
        }
    }
}
#endif

/* The same for 4-bit codes, of which a byte has that of input i in its lower half and that of
   input i + 16 in its upper one. 16 products of AVX2 fit into 16 bits. */
INLINE void NAME(group_of_int4)(ints sum[2][4], const int8_t *const w[2], const int8_t *const x[4],
                                const int N, const int R) {
    const ints low = set_ints(0x0f0f0f0f);
    UNROLL for (int j = 0; j < GROUP / 8; j++) {
        ints lower[2], upper[2];
        UNROLL for (int n = 0; n < N; n++) {
            if (j * V * 4 % LINE == 0) _mm_prefetch(w[n] + j * V * 4 + AHEAD, _MM_HINT_T1);
            const ints both = load_ints(w[n] + j * V * 4);
            lower[n] = and_ints(both, low);
            upper[n] = and_ints(shift_right(both, 4), low);
        }
        UNROLL for (int k = 0; k < R; k++) {
            const ints first = NAME(four)(x[k] + 4 * j), second = NAME(four)(x[k] + 4 * j + 16);
            UNROLL for (int n = 0; n < N; n++) {
#if SET == AVX2
                const ints pairs = _mm256_add_epi16(_mm256_maddubs_epi16(lower[n], first),
                                                    _mm256_maddubs_epi16(upper[n], second));
                sum[n][k] = _mm256_add_epi16(sum[n][k], pairs);
                NOW(sum[n][k]);
#else
                sum[n][k] = NAME(dot4)(sum[n][k], lower[n], first);
                sum[n][k] = NAME(dot4)(sum[n][k], upper[n], second);
#endif
            }
        }
    }
#if SET == AVX2
    UNROLL for (int n = 0; n < N; n++) UNROLL for (int k = 0; k < R; k++)
        sum[n][k] = _mm256_madd_epi16(sum[n][k], _mm256_set1_epi16(1));
#endif
}

/* Write the outputs of block b for row r. */
INLINE void NAME(write)(const product *p, int64_t b, int64_t r, floats total) {
    const matrix *m = p->by;
    const int64_t o = b * V, there = m->outputs - o;
    float *y = p->y + r * p->stride + o, all[V];
    if (there >= V) {
        store_floats(y, m->bias ? add_floats(total, load_floats(m->bias + o)) : total);
        return;
    }
    store_floats(all, total);
    for (int64_t j = 0; j < there; j++) y[j] = m->bias ? all[j] + m->bias[o + j] : all[j];
}

/* Compute N blocks of V outputs from block b on, for R rows from row r on. */
INLINE void NAME(tile)(const product *p, int64_t b, int64_t r, const int N, const int R,
                       const int bits, const int x_is) {
    const matrix *m = p->by;
    const int64_t groups = m->columns / GROUP, shared = m->group / GROUP;
    const int64_t parts = (groups + shared - 1) / shared, line = V * GROUP * bits / 8;
    const int length = x_is == WIDE ? 2 * GROUP : GROUP;
    const int8_t *w[2], *x[4];
    floats total[2][4];
    UNROLL for (int n = 0; n < N; n++) w[n] = (const int8_t *)m->w + (b + n) * groups * line;
    UNROLL for (int k = 0; k < R; k++) x[k] = (const int8_t *)p->x + (r + k) * groups * length;
    UNROLL for (int n = 0; n < N; n++) UNROLL for (int k = 0; k < R; k++) total[n][k] = set_floats(0);
    for (int64_t g = 0, of_part = 0, s = 0; g < groups; g++) {
        ints sum[2][4];
        UNROLL for (int n = 0; n < N; n++) UNROLL for (int k = 0; k < R; k++) {
            const int is_biased = bits == 8 && SET != AVX2; /* by 128, as unsigned codes */
            sum[n][k] = set_ints(is_biased ? -128 * p->sum[(r + k) * groups + g] : 0);
        }
        if (bits == 4) NAME(group_of_int4)(sum, w, x, N, R);
#if SET == AVX2
        else if (x_is == WIDE) NAME(by_pairs)(sum, w, x, N, R);
        else NAME(by_fours)(sum, w, x, N, R, x_is != POSITIVE);
#else
        else NAME(by_fours)(sum, w, x, N, R);
#endif
        UNROLL for (int n = 0; n < N; n++) {
            const int64_t part = ((b + n) * parts + of_part) * V;
            if (bits == 8) {
                const uint16_t *at = (const uint16_t *)m->parts + part;
                const floats scale = as_floats(shift_left(widen(load_halves(at)), 16));
                UNROLL for (int k = 0; k < R; k++) {
                    const floats factor = multiply(scale, set_floats(p->scale[(r + k) * groups + g]));
                    total[n][k] = multiply_add(to_floats(sum[n][k]), factor, total[n][k]);
                }
            } else {
                const ints both = load_ints((const uint32_t *)m->parts + part);
                const floats scale = as_floats(and_ints(both, set_ints((int)0xffff0000)));
                const floats centre = as_floats(shift_left(both, 16));
                const floats lowest = multiply_add(scale, set_floats(-8), centre);
                UNROLL for (int k = 0; k < R; k++) {
                    const float of_x = p->scale[(r + k) * groups + g];
                    const float sum_x = of_x * p->sum[(r + k) * groups + g];
                    const floats factor = multiply(scale, set_floats(of_x));
                    total[n][k] = multiply_add(to_floats(sum[n][k]), factor, total[n][k]);
                    total[n][k] = multiply_add(lowest, set_floats(sum_x), total[n][k]);
                }
            }
        }
        if (++s == shared) s = 0, of_part++;
        UNROLL for (int n = 0; n < N; n++) w[n] += line;
        UNROLL for (int k = 0; k < R; k++) x[k] += length;
    }
    UNROLL for (int n = 0; n < N; n++) UNROLL for (int k = 0; k < R; k++)
        NAME(write)(p, b + n, r + k, total[n][k]);
}

INLINE void NAME(of_blocks)(const product *p, int64_t b, const int N, const int bits,
                            const int x_is) {
    int64_t r = 0;
    for (; r + 4 <= p->rows; r += 4) NAME(tile)(p, b, r, N, 4, bits, x_is);
    if (r + 2 <= p->rows) { NAME(tile)(p, b, r, N, 2, bits, x_is); r += 2; }
    if (r < p->rows) NAME(tile)(p, b, r, N, 1, bits, x_is);
}

#if SET == AVX2
#define SLICE_GROUPS 16 /* of two blocks in 16 bits, which the first cache holds with 4 rows of x */


/* Some groups of two blocks: codes in 16 bits, those of the even and then of the odd inputs of
   four, for each block; scales; and minus the sum of w_0 w_1 + w_2 w_3 + ... */
typedef struct {
    int64_t from, to;
    ints w[SLICE_GROUPS][GROUP / 4][2][2];
    floats scale[SLICE_GROUPS][2];
    ints own[SLICE_GROUPS][2];
} NAME(panel);

/* Add the products of a panel, of the blocks from block b on, for R rows from row r on, whose totals
   are kept until all groups were added. Winograd's inner product: x_0 w_0 + x_1 w_1 is (x_0 + w_1)
   (x_1 + w_0) - x_0 x_1 - w_0 w_1. It needs one multiplication for two and more additions, which the
   processor has more units for. The sums are exact: 16 products are less than 2^20. */
INLINE void NAME(rows_of_two)(const product *p, const NAME(panel) *of, int64_t b, int64_t r,
                              floats (*kept)[2], const int R) {
    const int64_t groups = p->by->columns / GROUP;
    const int16_t *x[4];
    floats total[2][4];
    UNROLL for (int k = 0; k < R; k++) {
        x[k] = (const int16_t *)p->x + ((r + k) * groups + of->from) * GROUP;
        UNROLL for (int n = 0; n < 2; n++) total[n][k] = of->from ? kept[k][n] : set_floats(0);
    }
    for (int64_t g = 0; g < of->to - of->from; g++) {
        ints sum[2][4];
        UNROLL for (int j = 0; j < GROUP / 4; j++) UNROLL for (int k = 0; k < R; k++) {
            const int8_t *at = (const int8_t *)(x[k] + g * GROUP + 4 * j);
            const ints even = NAME(four)(at), odd = NAME(four)(at + 4);
            UNROLL for (int n = 0; n < 2; n++) {
                const ints pairs = _mm256_madd_epi16(_mm256_add_epi16(even, of->w[g][j][n][1]),
                                                     _mm256_add_epi16(odd, of->w[g][j][n][0]));
                sum[n][k] = add_ints(j ? sum[n][k] : of->own[g][n], pairs);
                NOW(sum[n][k]);
            }
        }
        UNROLL for (int k = 0; k < R; k++) {
            const int64_t at = (r + k) * groups + of->from + g;
            const ints own = set_ints(p->sum[at]);
            const floats scale = set_floats(p->scale[at]);
            UNROLL for (int n = 0; n < 2; n++) {
                const floats products = to_floats(_mm256_sub_epi32(sum[n][k], own));
                const floats factor = multiply(of->scale[g][n], scale);
                total[n][k] = multiply_add(products, factor, total[n][k]);
            }
        }
    }
    UNROLL for (int n = 0; n < 2; n++) UNROLL for (int k = 0; k < R; k++) {
        if (of->to == groups) NAME(write)(p, b + n, r + k, total[n][k]);
        else kept[k][n] = total[n][k];
    }
}

static __attribute__((noinline)) TARGET void NAME(four_rows_of_two)(
    const product *p, const NAME(panel) *of, int64_t b, int64_t r, floats (*kept)[2]) {
    NAME(rows_of_two)(p, of, b, r, kept, 4);
}

static __attribute__((noinline)) TARGET void NAME(a_row_of_two)(
    const product *p, const NAME(panel) *of, int64_t b, int64_t r, floats (*kept)[2]) {
    NAME(rows_of_two)(p, of, b, r, kept, 1);
}

/* Compute two blocks of many rows in 16 bits: a panel, which stays in the first cache, after the
   other. */
static TARGET void NAME(two_of_many)(const product *p, int64_t b) {
    const matrix *m = p->by;
    const int64_t groups = m->columns / GROUP, shared = m->group / GROUP;
    const int64_t parts = (groups + shared - 1) / shared;
    NAME(panel) of;
    floats kept[ROWS][2];
    for (of.from = 0; of.from < groups; of.from += SLICE_GROUPS) {
        of.to = of.from + SLICE_GROUPS < groups ? of.from + SLICE_GROUPS : groups;
        for (int64_t g = 0; g < of.to - of.from; g++) for (int n = 0; n < 2; n++) {
            const int64_t all = (b + n) * groups + of.from + g;
            const int64_t part = ((b + n) * parts + (of.from + g) / shared) * V;
            const int8_t *w = (const int8_t *)m->w + all * V * GROUP;
            const halves scale = load_halves((const uint16_t *)m->parts + part);
            ints own = set_ints(0);
            for (int j = 0; j < GROUP / 4; j++, w += V * 4) {
                if (j * V * 4 % LINE == 0) _mm_prefetch(w + AHEAD, _MM_HINT_T1);
                const ints both = load_ints(w);
                const ints even = _mm256_srai_epi16(_mm256_slli_epi16(both, 8), 8);
                const ints odd = _mm256_srai_epi16(both, 8);
                own = _mm256_sub_epi32(own, _mm256_madd_epi16(even, odd));
                of.w[g][j][n][0] = even, of.w[g][j][n][1] = odd;
            }
            of.own[g][n] = own;
            of.scale[g][n] = as_floats(shift_left(widen(scale), 16));
        }
        int64_t r = 0;
        for (; r + 4 <= p->rows; r += 4) NAME(four_rows_of_two)(p, &of, b, r, kept + r);
        for (; r < p->rows; r++) NAME(a_row_of_two)(p, &of, b, r, kept + r);
    }
}
#endif

/* Few rows read one block after another, as memory is fastest; many compute two at once. */
INLINE void NAME(blocks)(const product *p, int64_t first, int64_t last, const int bits,
                         const int x_is) {
    int64_t b = first;
#if SET == AVX2
    if (p->rows >= COPIED && x_is == WIDE)
        for (; b + 2 <= last; b += 2) NAME(two_of_many)(p, b);
#endif
    if (p->rows >= MANY) for (; b + 2 <= last; b += 2) NAME(of_blocks)(p, b, 2, bits, x_is);
    for (; b < last; b++) NAME(of_blocks)(p, b, 1, bits, x_is);
}

static TARGET void NAME(int8_blocks)(const void *of, int64_t first, int64_t last) {
    const product *p = of;
#if SET == AVX2
    if (p->x_is == WIDE) NAME(blocks)(p, first, last, 8, WIDE);
    else if (p->x_is == POSITIVE) NAME(blocks)(p, first, last, 8, POSITIVE);
    else
#endif
    NAME(blocks)(p, first, last, 8, SIGNED);
}

static TARGET void NAME(int4_blocks)(const void *of, int64_t first, int64_t last) {
    NAME(blocks)(of, first, last, 4, SIGNED);
}
