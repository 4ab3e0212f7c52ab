/* The slider-crank, written by hand: every size is known to the compiler, no general library.
 *
 * q = (angle of the crank, angle of the rod, x, y of the rod's centre of mass), three constraints
 *
 *     g1 = r cos q0 + a cos q1 - x,   g2 = r sin q0 + a sin q1 - y,   g3 = (l - a) sin q1 + y,
 *
 * and a diagonal mass matrix. Two methods, the same as are measured in holonax:
 *   - RK4 on the equations of index 1, then two passes of projection of positions and of
 *     velocities with one factorisation;
 *   - generalized-alpha on index 3 with Newton's method and its exact matrix.
 */
#include <math.h>

enum { N = 4, M = 3, K = N + M };

static const double crank = 0.3, rod = 0.5, offset = 0.3, gravity = 10.0;
static const double mass[N] = {0.045, 33.0 / 4800.0, 1.0, 1.0};

/* -- the mechanism ---------------------------------------------------------------------------- */

static void constraint(const double q[N], double g[M]) {
    const double s = sin(q[1]);
    g[0] = crank * cos(q[0]) + offset * cos(q[1]) - q[2];
    g[1] = crank * sin(q[0]) + offset * s - q[3];
    g[2] = (rod - offset) * s + q[3];
}

static void jacobian(const double q[N], double G[M][N]) {
    const double s0 = sin(q[0]), c0 = cos(q[0]), s1 = sin(q[1]), c1 = cos(q[1]);
    const double rows[M][N] = {
        {-crank * s0, -offset * s1, -1.0, 0.0},
        {crank * c0, offset * c1, 0.0, -1.0},
        {0.0, (rod - offset) * c1, 0.0, 1.0},
    };
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) G[i][j] = rows[i][j];
}

/* The part of the constraints' second derivative that holds no acceleration. */
static void curvature(const double q[N], const double v[N], double c[M]) {
    const double a = v[0] * v[0], b = v[1] * v[1];
    const double s0 = sin(q[0]), c0 = cos(q[0]), s1 = sin(q[1]), c1 = cos(q[1]);
    c[0] = -crank * c0 * a - offset * c1 * b;
    c[1] = -crank * s0 * a - offset * s1 * b;
    c[2] = -(rod - offset) * s1 * b;
}

static void force(double f[N]) {
    f[0] = f[1] = f[2] = 0.0;
    f[3] = -mass[3] * gravity;
}

/* -- accelerations and projection ------------------------------------------------------------- */

/* L L' = G W G' with W the inverse mass matrix, and W G'. */
typedef struct {
    double G[M][N], WG[N][M], L[M][M];
} Factor;

static void factor(const double q[N], Factor *f) {
    jacobian(q, f->G);
    for (int i = 0; i < N; i++)
        for (int c = 0; c < M; c++) f->WG[i][c] = f->G[c][i] / mass[i];
    for (int j = 0; j < M; j++) {
        for (int i = j; i < M; i++) {
            double x = 0.0;
            for (int l = 0; l < N; l++) x += f->G[i][l] * f->WG[l][j];
            for (int l = 0; l < j; l++) x -= f->L[i][l] * f->L[j][l];
            f->L[i][j] = i == j ? sqrt(x) : x / f->L[j][j];
        }
    }
}

static void solve(const Factor *f, double b[M]) {
    for (int i = 0; i < M; i++) {
        for (int l = 0; l < i; l++) b[i] -= f->L[i][l] * b[l];
        b[i] /= f->L[i][i];
    }
    for (int i = M - 1; i >= 0; i--) {
        for (int l = i + 1; l < M; l++) b[i] -= f->L[l][i] * b[l];
        b[i] /= f->L[i][i];
    }
}

/* y -= W G' (G W G')^-1 b */
static void correct(const Factor *f, double b[M], double y[N]) {
    solve(f, b);
    for (int i = 0; i < N; i++)
        for (int c = 0; c < M; c++) y[i] -= f->WG[i][c] * b[c];
}

static void accelerations(const double q[N], const double v[N], double a[N], double lambda[M]) {
    Factor f;
    factor(q, &f);
    force(a);
    curvature(q, v, lambda);
    for (int i = 0; i < N; i++) a[i] /= mass[i];
    for (int c = 0; c < M; c++)
        for (int i = 0; i < N; i++) lambda[c] += f.G[c][i] * a[i];
    correct(&f, lambda, a);
}

void slider_crank_start(const double *q, const double *v, double *a, double *lambda) {
    accelerations(q, v, a, lambda);
}

/* -- RK4 with projection ---------------------------------------------------------------------- */

void slider_crank_rk4(double *q, double *v, double h, long steps) {
    Factor f;
    double lambda[M];
    for (long step = 0; step < steps; step++) {
        double dq[4][N], dv[4][N], x[N];
        for (int i = 0; i < N; i++) {
            x[i] = q[i];
            dq[0][i] = v[i];
        }
        for (int stage = 0; stage < 4; stage++) {
            accelerations(x, dq[stage], dv[stage], lambda);
            if (stage == 3) break;
            const double part = stage == 2 ? h : 0.5 * h;
            for (int i = 0; i < N; i++) {
                x[i] = q[i] + part * dq[stage][i];
                dq[stage + 1][i] = v[i] + part * dv[stage][i];
            }
        }
        for (int i = 0; i < N; i++) {
            q[i] += h / 6 * (dq[0][i] + 2 * dq[1][i] + 2 * dq[2][i] + dq[3][i]);
            v[i] += h / 6 * (dv[0][i] + 2 * dv[1][i] + 2 * dv[2][i] + dv[3][i]);
        }
        factor(q, &f);
        for (int pass = 0; pass < 2; pass++) {
            constraint(q, lambda);
            correct(&f, lambda, q);
        }
        jacobian(q, f.G);
        for (int pass = 0; pass < 2; pass++) {
            for (int c = 0; c < M; c++) {
                lambda[c] = 0.0;
                for (int i = 0; i < N; i++) lambda[c] += f.G[c][i] * v[i];
            }
            correct(&f, lambda, v);
        }
    }
}

/* -- generalized-alpha ------------------------------------------------------------------------ */

/* Solve A x = b by elimination with row exchanges; x replaces b. */
static void gauss(double A[K][K], double b[K]) {
    for (int j = 0; j < K; j++) {
        int pivot = j;
        for (int i = j + 1; i < K; i++)
            if (fabs(A[i][j]) > fabs(A[pivot][j])) pivot = i;
        if (pivot != j) {
            for (int c = j; c < K; c++) {
                const double x = A[j][c];
                A[j][c] = A[pivot][c];
                A[pivot][c] = x;
            }
            const double x = b[j];
            b[j] = b[pivot];
            b[pivot] = x;
        }
        const double inverse = 1.0 / A[j][j];
        for (int i = j + 1; i < K; i++) {
            const double x = A[i][j] * inverse;
            for (int c = j + 1; c < K; c++) A[i][c] -= x * A[j][c];
            b[i] -= x * b[j];
        }
    }
    for (int i = K - 1; i >= 0; i--) {
        for (int c = i + 1; c < K; c++) b[i] -= A[i][c] * b[c];
        b[i] /= A[i][i];
    }
}

/* Returns the number of Newton iterations; a and lambda must be those of the start. */
long slider_crank_generalized_alpha(
    double *q, double *v, double *a, double *lambda, double h, long steps, double rho,
    double tolerance) {
    const double am = (2 * rho - 1) / (rho + 1), af = rho / (rho + 1);
    const double gamma = 0.5 + af - am, beta = 0.25 * (gamma + 0.5) * (gamma + 0.5);
    const double per_a = (1 - am) / (h * h * beta * (1 - af)), per_v = gamma / (h * beta);
    const double scale = 1 / per_a; /* of the equations of motion and, inverted, of lambda */
    double w[N], f[N], g[M], G[M][N], A[K][K], b[K];
    long iterations = 0;
    for (int i = 0; i < N; i++) w[i] = a[i];
    force(f);
    for (long step = 0; step < steps; step++) {
        for (int i = 0; i < N; i++) {
            const double next = (af * a[i] - am * w[i]) / (1 - am);
            q[i] += h * v[i] + h * h * ((0.5 - beta) * w[i] + beta * next);
            v[i] += h * ((1 - gamma) * w[i] + gamma * next);
            w[i] = next;
            a[i] = 0.0;
        }
        for (int iteration = 0; iteration < 20; iteration++) {
            double largest = 0.0;
            constraint(q, g);
            jacobian(q, G);
            for (int i = 0; i < N; i++) {
                double residual = mass[i] * a[i] - f[i];
                for (int c = 0; c < M; c++) residual += G[c][i] * lambda[c];
                if (fabs(residual) > largest) largest = fabs(residual);
                b[i] = -scale * residual;
            }
            for (int c = 0; c < M; c++) {
                if (fabs(g[c]) > largest) largest = fabs(g[c]);
                b[N + c] = -g[c];
            }
            if (largest < tolerance) break;
            iterations++;
            for (int i = 0; i < K; i++)
                for (int j = 0; j < K; j++) A[i][j] = 0.0;
            for (int i = 0; i < N; i++) {
                A[i][i] = mass[i];
                for (int c = 0; c < M; c++) A[i][N + c] = A[N + c][i] = G[c][i];
            }
            /* the derivative of G' lambda: sines and cosines are in G */
            A[0][0] += scale * (-G[1][0] * lambda[0] + G[0][0] * lambda[1]);
            A[1][1] += scale * (-G[1][1] * lambda[0] + G[0][1] * lambda[1] +
                                (rod - offset) / offset * G[0][1] * lambda[2]);
            gauss(A, b);
            for (int i = 0; i < N; i++) {
                q[i] += b[i];
                v[i] += per_v * b[i];
                a[i] += per_a * b[i];
            }
            for (int c = 0; c < M; c++) lambda[c] += per_a * b[N + c];
        }
        for (int i = 0; i < N; i++) w[i] += (1 - af) / (1 - am) * a[i];
    }
    return iterations;
}
