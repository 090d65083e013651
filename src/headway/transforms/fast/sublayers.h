/* Sublayers of a block for one set of instructions, for one new token of each row. */

/* ---- functions of a vector ---- */

/* e^x, to 1e-7; x is limited to what a normal number can hold. Cephes' expf. */
INLINE floats NAME(exponential)(floats x) {
    x = max_floats(set_floats(-87.3f), min_floats(set_floats(88.0f), x)); /* NaN stays NaN */
    const ints power = to_ints(multiply(x, set_floats(1.44269504f)));
    const floats n = to_floats(power);
    floats r = multiply_add(n, set_floats(-0.693359375f), x);
    r = multiply_add(n, set_floats(2.12194440e-4f), r);
    floats y = set_floats(1.9875691500e-4f);
    y = multiply_add(y, r, set_floats(1.3981999507e-3f));
    y = multiply_add(y, r, set_floats(8.3334519073e-3f));
    y = multiply_add(y, r, set_floats(4.1665795894e-2f));
    y = multiply_add(y, r, set_floats(1.6666665459e-1f));
    y = multiply_add(y, r, set_floats(5.0000001201e-1f));
    y = multiply_add(y, multiply(r, r), add_floats(r, set_floats(1)));
    return multiply(y, as_floats(shift_left(add_ints(power, set_ints(127)), 23)));
}

/* x / (1 + e^-z) */
INLINE floats NAME(gated_by)(floats x, floats z) {
    const floats e = NAME(exponential)(multiply(z, set_floats(-1)));
    return divide(x, add_floats(set_floats(1), e));
}

/* x P(X < x) of a normal X: erfc by Abramowitz and Stegun 7.1.26, to 1.5e-7. */
INLINE floats NAME(gelu)(floats x) {
    const floats size = as_floats(and_ints(as_ints(x), set_ints(0x7fffffff)));
    const floats z = multiply(size, set_floats(0.70710678f));
    const floats t = divide(set_floats(1), multiply_add(z, set_floats(0.3275911f), set_floats(1)));
    floats p = set_floats(1.061405429f);
    p = multiply_add(p, t, set_floats(-1.453152027f));
    p = multiply_add(p, t, set_floats(1.421413741f));
    p = multiply_add(p, t, set_floats(-0.284496736f));
    p = multiply_add(p, t, set_floats(0.254829592f));
    const floats e = NAME(exponential)(multiply(multiply(z, z), set_floats(-1)));
    const floats below = multiply(multiply(p, t), multiply(e, set_floats(0.5f))); /* P(X < -|x|) */
    /* x above 0: x (1 - below); below 0: x below. Both are max(x, 0) - |x| below. */
    return subtract(max_floats(set_floats(0), x), multiply(size, below));
}

INLINE floats NAME(activated)(floats x, int64_t kind) {
    if (kind == RELU) return max_floats(set_floats(0), x);
    if (kind == GELU) return NAME(gelu)(x);
    if (kind == SILU) return NAME(gated_by)(x, x);
    /* x/2 (1 + tanh(u)) = x / (1 + e^-2u) */
    const floats cube = multiply(x, multiply(x, x));
    const floats u = multiply_add(cube, set_floats(0.044715f), x);
    return NAME(gated_by)(x, multiply(u, set_floats(2 * 0.7978845608f)));
}

/* The sum of (x - mean)^2; of x if `is_square` is 0. */
INLINE float NAME(moment)(const float *x, int64_t n, float mean, const int is_square) {
    floats sum = set_floats(0);
    int64_t i = 0;
    for (; i + V <= n; i += V) {
        const floats part = subtract(load_floats(x + i), set_floats(mean));
        sum = is_square ? multiply_add(part, part, sum) : add_floats(sum, part);
    }
    float total = NAME(total)(sum);
    for (; i < n; i++) {
        const float part = x[i] - mean;
        total += is_square ? part * part : part;
    }
    return total;
}

/* y = norm(x); y may be x. */
static TARGET void NAME(normalise)(const norm *by, int64_t n, const float *x, float *y) {
    if (by->kind == NO_NORM) {
        if (x != y) memcpy(y, x, n * sizeof *x);
        return;
    }
    const float mean = by->kind == LAYER_NORM ? NAME(moment)(x, n, 0, 0) / n : 0;
    const float variance = NAME(moment)(x, n, mean, 1) / n + (float)by->eps;
    const float scale = 1 / __builtin_sqrtf(variance);
    const float offset = by->kind == OFFSET_RMS_NORM;
    for (int64_t i = 0; i < n; i++) {
        const float scaled = (x[i] - mean) * scale * (by->gain ? offset + by->gain[i] : 1);
        y[i] = by->shift ? scaled + by->shift[i] : scaled;
    }
}

/* ---- residual connections ---- */

/* What f reads: x, or norm(source), which is written to `normed`. */
static TARGET const float *NAME(input_of)(const connection *c, float *normed) {
    if (c->is_post) return c->x;
    for (int64_t r = 0; r < c->rows; r++)
        NAME(normalise)(&c->around, c->dim, c->source + r * c->dim, normed + r * c->dim);
    return normed;
}

/* Add f's result to x, after its own norm and times its factor; normalise the sum if `is_post`. */
static TARGET void NAME(add_to)(const connection *c, float *change) {
    for (int64_t r = 0; r < c->rows; r++)
        NAME(normalise)(&c->after, c->dim, change + r * c->dim, change + r * c->dim);
    const float factor = (float)c->factor;
    for (int64_t i = 0; i < c->rows * c->dim; i++) c->x[i] += factor * change[i];
    if (c->is_post)
        for (int64_t r = 0; r < c->rows; r++) {
            float *x = c->x + r * c->dim;
            NAME(normalise)(&c->around, c->dim, x, x);
        }
}

static int64_t NAME(all_outputs)(const matrix *all, int64_t count) {
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) total += all[i].outputs;
    return total;
}

/* Multiply x by some matrices, the results of a row beside each other in y. */
static int NAME(multiply_all)(const connection *c, const float *x, const matrix *all,
                              int64_t count, float *y, int64_t stride) {
    int failed = 0;
    for (int64_t i = 0; i < count; y += all[i++].outputs)
        failed |= headway_multiply(c->set, c->threads, c->rows, x, all + i, y, stride);
    return failed;
}

static TARGET int NAME(feedforward)(const feedforward *f) {
    const connection *c = &f->around;
    const int64_t wide = NAME(all_outputs)(f->first, f->num_first), n = f->contract.inputs;
    float *memory = malloc(c->rows * (2 * c->dim + wide + n) * sizeof(float));
    if (!memory) return 1;
    float *normed = memory, *change = normed + c->rows * c->dim;
    float *hidden = change + c->rows * c->dim, *active = hidden + c->rows * wide;
    const float *x = NAME(input_of)(c, normed);
    int failed = NAME(multiply_all)(c, x, f->first, f->num_first, hidden, wide);
    for (int64_t r = 0; r < c->rows; r++) {
        const float *gate = hidden + r * wide;
        float *y = active + r * n;
        for (int64_t i = 0; i < n; i += V) {
            const int64_t there = n - i < V ? n - i : V;
            float in[V] = {0}, by[V] = {0}, out[V];
            const float *a = gate + i, *b = gate + n + i;
            if (there < V) {
                memcpy(in, a, there * sizeof *a);
                if (f->is_gated) memcpy(by, b, there * sizeof *b);
                a = in, b = by;
            }
            floats part = NAME(activated)(load_floats(a), f->activation);
            if (f->is_gated) part = multiply(part, load_floats(b));
            store_floats(there == V ? y + i : out, part);
            if (there < V) memcpy(y + i, out, there * sizeof *y);
        }
    }
    failed |= headway_multiply(c->set, c->threads, c->rows, active, &f->contract, change, c->dim);
    if (!failed) NAME(add_to)(c, change);
    free(memory);
    return failed;
}

/* ---- attention ---- */

/* Normalise a head's query or key, and rotate its pairs. */
INLINE void NAME(place)(const attention *a, const norm *by, int64_t r, float *x) {
    if (!a->across) NAME(normalise)(by, a->width, x, x);
    if (!a->cos) return;
    const int64_t half = a->rotated / 2;
    const float *cos = a->cos + r * a->angle_stride, *sin = a->sin + r * a->angle_stride;
    const int64_t step = a->is_adjacent ? 2 : 1, apart = a->is_adjacent ? 1 : half;
    for (int64_t i = 0; i < half; i++) {
        float *pair = x + i * step;
        const float first = pair[0], second = pair[apart];
        pair[0] = first * cos[i] - second * sin[i];
        pair[apart] = second * cos[i] + first * sin[i];
    }
}

INLINE float NAME(dot)(const float *q, const float *k, int64_t n) {
    floats sum = set_floats(0);
    int64_t i = 0;
    for (; i + V <= n; i += V) sum = multiply_add(load_floats(q + i), load_floats(k + i), sum);
    float total = NAME(total)(sum);
    for (; i < n; i++) total += q[i] * k[i];
    return total;
}

/* s = cap tanh(s / cap) = cap - 2 cap / (1 + e^(2 s / cap)) */
INLINE void NAME(limit)(float *scores, int64_t n, float cap) {
    for (int64_t j = 0; j < n; j += V) {
        const int64_t there = n - j < V ? n - j : V;
        float part[V] = {0};
        memcpy(part, scores + j, there * sizeof *part);
        const floats e = NAME(exponential)(multiply(load_floats(part), set_floats(2 / cap)));
        const floats below = divide(set_floats(2 * cap), add_floats(set_floats(1), e));
        store_floats(part, subtract(set_floats(cap), below));
        memcpy(scores + j, part, there * sizeof *part);
    }
}

/* Turn scores into softmax without its division; return the sum, 0 if all are -inf. */
INLINE float NAME(softmax)(float *scores, int64_t n) {
    float largest = -__builtin_inff(), total = 0;
    for (int64_t j = 0; j < n; j++) largest = scores[j] > largest ? scores[j] : largest;
    if (largest == -__builtin_inff()) { /* nothing to attend to, or NaN */
        for (int64_t j = 0; j < n; j++) total += scores[j] == largest ? 0 : scores[j];
        memset(scores, 0, n * sizeof *scores);
        return total;
    }
    int64_t j = 0;
    floats sum = set_floats(0);
    for (; j + V <= n; j += V) {
        const floats e = NAME(exponential)(subtract(load_floats(scores + j), set_floats(largest)));
        store_floats(scores + j, e);
        sum = add_floats(sum, e);
    }
    if (j < n) {
        float rest[V];
        for (int64_t i = 0; i < V; i++) rest[i] = j + i < n ? scores[j + i] : largest;
        store_floats(rest, NAME(exponential)(subtract(load_floats(rest), set_floats(largest))));
        for (int64_t i = 0; j + i < n; i++) total += scores[j + i] = rest[i];
    }
    return total + NAME(total)(sum);
}

enum { NAME(WIDE) = 8 }; /* vectors of a context that are summed in registers at once */

/* Vector j of a head: of row rows[j], whose heads are `apart` from those of the next one. */
INLINE const float *NAME(vector)(const float *head, const int32_t *rows, int64_t apart, int64_t j,
                                 int64_t n) {
    return head + (rows ? rows[j] * apart : 0) + j * n;
}

/* y = sum over j of weights[j] v[j] / total */
INLINE void NAME(weighted)(const float *weights, const float *v, const int32_t *rows, int64_t apart,
                           int64_t keys, int64_t n, float total, float *y) {
    const float factor = total != 0 ? 1 / total : 0;
    int64_t i = 0;
    for (; i + V * NAME(WIDE) <= n; i += V * NAME(WIDE)) {
        floats sum[NAME(WIDE)];
        UNROLL for (int k = 0; k < NAME(WIDE); k++) sum[k] = set_floats(0);
        for (int64_t j = 0; j < keys; j++) {
            const float *of_v = NAME(vector)(v, rows, apart, j, n) + i;
            UNROLL for (int k = 0; k < NAME(WIDE); k++)
                sum[k] = multiply_add(set_floats(weights[j]), load_floats(of_v + k * V), sum[k]);
        }
        UNROLL for (int k = 0; k < NAME(WIDE); k++)
            store_floats(y + i + k * V, multiply(sum[k], set_floats(factor)));
    }
    for (; i + V <= n; i += V) {
        floats sum = set_floats(0);
        for (int64_t j = 0; j < keys; j++) {
            const float *of_v = NAME(vector)(v, rows, apart, j, n) + i;
            sum = multiply_add(set_floats(weights[j]), load_floats(of_v), sum);
        }
        store_floats(y + i, multiply(sum, set_floats(factor)));
    }
    for (; i < n; i++) {
        float sum = 0;
        for (int64_t j = 0; j < keys; j++)
            sum += weights[j] * NAME(vector)(v, rows, apart, j, n)[i];
        y[i] = sum * factor;
    }
}

/* Compute the contexts of some rows and key heads, and of the query heads that share them. */
static TARGET void NAME(some_heads)(const void *of, int64_t first, int64_t last) {
    const heads *h = of;
    const attention *a = h->by;
    const int64_t n = a->width, wide = a->value_width, groups = a->heads / a->shared;
    const float scale = a->scale ? (float)a->scale : 1 / __builtin_sqrtf((float)n);
    for (int64_t b = first; b < last; b++) {
        const int64_t r = b / groups, g = b % groups;
        float *queries = (float *)h->projected + r * h->stride + g * a->shared * n;
        const int64_t place = a->places ? a->places[r] : r;
        const int64_t source = a->is_cross ? place / a->sharing : r;
        const int64_t apart_k = groups * a->capacity * n, apart_v = groups * a->capacity * wide;
        const int32_t *rows = a->token_rows ? a->token_rows + r * a->token_stride : 0;
        float *k = a->keys + source * apart_k + g * a->capacity * n;
        float *v = a->values + source * apart_v + g * a->capacity * wide;
        int64_t keys = a->num_keys;
        if (!a->is_cross) {
            const int64_t position = a->position[r * a->position_stride];
            const float *row = h->projected + r * h->stride + a->heads * n;
            memcpy(k + position * n, row + g * n, n * sizeof *k);
            memcpy(v + position * wide, row + groups * n + g * wide, wide * sizeof *v);
            NAME(place)(a, &a->key_norm, r, k + position * n);
            keys = position + 1;
        }
        if (rows) k -= source * apart_k, v -= source * apart_v;
        if (a->window && keys > a->window) { /* only the last ones count */
            const int64_t hidden = keys - a->window;
            k += hidden * n, v += hidden * wide, keys = a->window;
            if (rows) rows += hidden;
        }
        const uint8_t *real = a->real ? a->real + source * a->num_keys : 0;
        float *scores = h->scores + b * a->num_keys;
        for (int64_t s = 0; s < a->shared; s++) {
            float *q = queries + s * n;
            NAME(place)(a, &a->query_norm, r, q);
            for (int64_t j = 0; j < keys; j++)
                scores[j] = real && !real[j]
                                ? 0
                                : NAME(dot)(q, NAME(vector)(k, rows, apart_k, j, n), n) * scale;
            if (a->cap) NAME(limit)(scores, keys, (float)a->cap);
            for (int64_t j = 0; real && j < keys; j++)
                if (!real[j]) scores[j] = -__builtin_inff();
            const float total = NAME(softmax)(scores, keys);
            float *y = h->context + (r * a->heads + g * a->shared + s) * wide;
            NAME(weighted)(scores, v, rows, apart_v, keys, wide, total, y);
        }
    }
}

static TARGET int NAME(attention)(const attention *a) {
    const connection *c = &a->around;
    const int64_t wide = NAME(all_outputs)(a->inputs, a->num_inputs), rows = c->rows;
    const int64_t blocks = rows * (a->heads / a->shared), n = a->output.inputs;
    float *memory = malloc((rows * (2 * c->dim + wide + n) + blocks * a->num_keys) * sizeof(float));
    if (!memory) return 1;
    float *normed = memory, *change = normed + rows * c->dim;
    float *projected = change + rows * c->dim, *context = projected + rows * wide;
    float *scores = context + rows * n;
    const float *x = NAME(input_of)(c, normed);
    int failed = NAME(multiply_all)(c, x, a->inputs, a->num_inputs, projected, wide);
    for (int64_t r = 0; a->across && r < rows; r++) {
        float *q = projected + r * wide, *k = q + a->heads * a->width;
        NAME(normalise)(&a->query_norm, a->heads * a->width, q, q);
        NAME(normalise)(&a->key_norm, a->heads / a->shared * a->width, k, k);
    }
    const heads h = {a, projected, wide, scores, context};
    const int64_t work = 2 * a->shared * a->num_keys * a->width * blocks;
    in_parallel(NAME(some_heads), &h, blocks, work < WORK ? 1 : c->threads);
    failed |= headway_multiply(c->set, c->threads, rows, context, &a->output, change, c->dim);
    if (!failed) NAME(add_to)(c, change);
    free(memory);
    return failed;
}

#undef INLINE
#undef LINE
#undef AHEAD
#undef MANY
#undef UNROLL
#undef NOW
#undef V
#undef OUTPUTS
#undef TILE_ROWS
#undef COPIED
#undef SLICE
#undef SLICE_GROUPS
#undef PANEL
#undef floats
#undef ints
#undef halves
#undef load_floats
#undef store_floats
#undef load_ints
#undef load_halves
#undef set_floats
#undef set_ints
#undef add_floats
#undef multiply
#undef multiply_add
#undef to_floats
#undef to_ints
#undef subtract
#undef divide
#undef max_floats
#undef min_floats
#undef add_ints
#undef max_ints
#undef as_ints
#undef and_ints
#undef shift_right
#undef shift_left
#undef widen
#undef as_floats
