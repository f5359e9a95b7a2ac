/* Linear layers over weights that are packed once, and the packing. */
#include "product.h"

struct job {
    float *out;      /* [panels, columns, SIDE] */
    const float *in; /* [rows, columns] */
    size_t rows, columns;
};

/* Of ``x`` [rows, K], which ``scratch`` has room for in panels: [panels_of(rows), K, SIDE]. */
void product(const struct product *p, const float *x, float *restrict scratch) {
#pragma omp parallel
    {
        rows_into(scratch, x, p->rows, p->weight->columns);
        multiply(p, scratch);
    }
}

void panels_write(const struct job *jobs, size_t count) {
#pragma omp parallel
    {
        for (size_t j = 0; j < count; j++) {
            const struct job *job = jobs + j;
            size_t size = SIDE * job->columns;
#pragma omp for schedule(static) nowait
            for (size_t n = 0; n < panels_of(job->rows); n++)
                panel_write(job->out + n * size, job->in + n * size, job->rows - n * SIDE, job->columns, 1);
        }
        STORED();
    }
}
