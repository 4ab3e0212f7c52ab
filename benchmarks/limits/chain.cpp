// A chain of rigid bodies on spherical joints, written by hand: every block size is known to the
// compiler, and each sweep over the chain is a plain loop.
//
// Joint k holds  r_k + A_k near_k = r_(k-1) + A_(k-1) far_(k-1);  the first joint is fixed at the
// origin. The velocity of a body is (rate of r, angular velocity in its own axes). Two methods,
// the same as are measured in holonax:
//   - RK4 on the equations of index 1, then two passes of projection of positions and of
//     velocities with one factorisation, block-tridiagonal with 3x3 blocks;
//   - generalized-alpha on index 3 with Newton's method and its exact matrix, eliminated from the
//     free end to the root, body (6x6) and joint (3x3) in turn.
#include <algorithm>
#include <cmath>
#include <vector>

namespace {

// -- small matrices ----------------------------------------------------------------------------

template <int R, int C>
struct Matrix {
    double a[R][C];
    double *operator[](int i) { return a[i]; }
    const double *operator[](int i) const { return a[i]; }
};
using Mat3 = Matrix<3, 3>;
using Mat6 = Matrix<6, 6>;

struct Vec3 {
    double x[3];
    double &operator[](int i) { return x[i]; }
    double operator[](int i) const { return x[i]; }
};

inline Vec3 operator+(Vec3 a, Vec3 b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
inline Vec3 operator-(Vec3 a, Vec3 b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
inline Vec3 operator*(double s, Vec3 a) { return {s * a[0], s * a[1], s * a[2]}; }
inline Vec3 times(Vec3 a, Vec3 b) { return {a[0] * b[0], a[1] * b[1], a[2] * b[2]}; }
inline double dot(Vec3 a, Vec3 b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
inline Vec3 cross(Vec3 a, Vec3 b) {
    return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
inline Vec3 row(const Mat3 &m, int i) { return {m[i][0], m[i][1], m[i][2]}; }
inline Vec3 operator*(const Mat3 &m, Vec3 v) {
    return {dot(row(m, 0), v), dot(row(m, 1), v), dot(row(m, 2), v)};
}
inline Vec3 transposed_times(const Mat3 &m, Vec3 v) {
    return v[0] * row(m, 0) + v[1] * row(m, 1) + v[2] * row(m, 2);
}

inline Mat3 operator*(const Mat3 &a, const Mat3 &b) {
    Mat3 c;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            c[i][j] = a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j];
    return c;
}

inline Mat3 transpose(const Mat3 &a) {
    Mat3 c;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) c[i][j] = a[j][i];
    return c;
}

inline Mat3 inverse(const Mat3 &m) {
    const Vec3 a = row(m, 0), b = row(m, 1), c = row(m, 2);
    const Vec3 x = cross(b, c), y = cross(c, a), z = cross(a, b);
    const double scale = 1 / dot(a, x);
    Mat3 out;
    for (int i = 0; i < 3; i++) {
        out[i][0] = scale * x[i];
        out[i][1] = scale * y[i];
        out[i][2] = scale * z[i];
    }
    return out;
}

inline Mat3 inverse_symmetric(const Mat3 &m) {
    const double a = m[0][0], b = m[0][1], c = m[0][2], d = m[1][1], e = m[1][2], f = m[2][2];
    const double x = d * f - e * e, y = c * e - b * f, z = b * e - c * d;
    const double s = 1 / (a * x + b * y + c * z);
    return {{{s * x, s * y, s * z},
             {s * y, s * (a * f - c * c), s * (b * c - a * e)},
             {s * z, s * (b * c - a * e), s * (a * d - b * b)}}};
}

// LU factors in place, without exchanges; the inverses of the pivots on the diagonal.
inline void factor6(Mat6 &m) {
    for (int j = 0; j < 6; j++) {
        m[j][j] = 1 / m[j][j];
        for (int i = j + 1; i < 6; i++) {
            m[i][j] *= m[j][j];
            for (int c = j + 1; c < 6; c++) m[i][c] -= m[i][j] * m[j][c];
        }
    }
}

template <int C>
inline void solve6(const Mat6 &lu, Matrix<6, C> &b) {
    for (int i = 0; i < 6; i++)
        for (int l = 0; l < i; l++)
            for (int c = 0; c < C; c++) b[i][c] -= lu[i][l] * b[l][c];
    for (int i = 5; i >= 0; i--) {
        for (int l = i + 1; l < 6; l++)
            for (int c = 0; c < C; c++) b[i][c] -= lu[i][l] * b[l][c];
        for (int c = 0; c < C; c++) b[i][c] *= lu[i][i];
    }
}

// -- bodies and joints -------------------------------------------------------------------------

struct Position {
    Vec3 r;
    double e[4];
};

struct Velocity {  // also accelerations, forces and increments: a translation and a rotation
    Vec3 r, w;
};

struct Body {
    double inverse_mass;
    Vec3 inverse_inertia;  // about the principal axes, which are the body's
    Vec3 near, far;        // joints towards the root and towards the free end
    double mass;
    Vec3 inertia;
};

inline Mat3 rotation(const Position &q) {
    const double w = q.e[0], x = q.e[1], y = q.e[2], z = q.e[3];
    return {{{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
             {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
             {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}}};
}

// The derivative of A s along a rotation increment in the body's axes: row i is s x (row i of A).
inline Mat3 lever(const Mat3 &A, Vec3 s) {
    Mat3 out;
    for (int i = 0; i < 3; i++) {
        const Vec3 x = cross(s, row(A, i));
        for (int j = 0; j < 3; j++) out[i][j] = x[j];
    }
    return out;
}

// q moved by an increment in the body's axes.
inline Position moved(const Position &q, const Velocity &by) {
    const double n2 = dot(by.w, by.w);
    double c, f;
    if (n2 < 1e-8) {
        c = 1 - n2 / 8 + n2 * n2 / 384;
        f = 0.5 - n2 / 48 + n2 * n2 / 3840;
    } else {
        const double n = std::sqrt(n2);
        c = std::cos(0.5 * n);
        f = std::sin(0.5 * n) / n;
    }
    const double x = f * by.w[0], y = f * by.w[1], z = f * by.w[2];
    const double *e = q.e;
    return {q.r + by.r,
            {e[0] * c - e[1] * x - e[2] * y - e[3] * z, e[0] * x + e[1] * c + e[2] * z - e[3] * y,
             e[0] * y - e[1] * z + e[2] * c + e[3] * x, e[0] * z + e[1] * y - e[2] * x + e[3] * c}};
}

inline Vec3 gyroscopic(const Body &body, Vec3 w) { return cross(w, times(body.inertia, w)); }

class Chain {
   public:
    Chain(int n, const Body *bodies, Vec3 gravity)
        : n(n), body(bodies), gravity(gravity), A(n), near(n), far(n), pivot(n), below(n) {}

    // Frames, and the factor of G W G', block-tridiagonal over the joints, from the root on.
    // far[k] is of body k - 1, at joint k.
    void factor(const Position *q) {
        for (int k = 0; k < n; k++) {
            A[k] = rotation(q[k]);
            near[k] = lever(A[k], body[k].near);
            if (k) far[k] = lever(A[k - 1], body[k - 1].far);
            Mat3 diagonal = weighted(near[k], body[k], near[k]);
            if (k) {
                const Mat3 own = weighted(far[k], body[k - 1], far[k]);
                const Mat3 coupling = weighted(far[k], body[k - 1], near[k - 1]);  // times -1
                below[k] = coupling * pivot[k - 1];
                const Mat3 update = below[k] * transpose(coupling);
                for (int i = 0; i < 3; i++)
                    for (int j = 0; j < 3; j++) diagonal[i][j] += own[i][j] - update[i][j];
            }
            pivot[k] = inverse_symmetric(diagonal);
        }
    }

    void solve(Vec3 *b) const {
        for (int k = 1; k < n; k++) b[k] = b[k] + below[k] * b[k - 1];
        for (int k = n - 1; k >= 0; k--) {
            b[k] = pivot[k] * b[k];
            if (k < n - 1) b[k] = b[k] + transposed_times(below[k + 1], b[k + 1]);
        }
    }

    // a -= W G' lambda with the levers `near`, `far` of the factored matrix
    void push(const Vec3 *lambda, Velocity *a) const {
        for (int k = 0; k < n; k++) {
            Vec3 force = lambda[k], torque = transposed_times(near[k], lambda[k]);
            if (k < n - 1) {
                force = force - lambda[k + 1];
                torque = torque - transposed_times(far[k + 1], lambda[k + 1]);
            }
            a[k].r = a[k].r - body[k].inverse_mass * force;
            a[k].w = a[k].w - times(body[k].inverse_inertia, torque);
        }
    }

    // out += G v, with levers given
    void along(const Mat3 *near, const Mat3 *far, const Velocity *v, Vec3 *out) const {
        for (int k = 0; k < n; k++) {
            Vec3 x = v[k].r + near[k] * v[k].w;
            if (k) x = x - v[k - 1].r - far[k] * v[k - 1].w;
            out[k] = out[k] + x;
        }
    }

    void constraint(const Position *q, Vec3 *g) const {
        for (int k = 0; k < n; k++) {
            g[k] = q[k].r + A[k] * body[k].near;
            if (k) g[k] = g[k] - q[k - 1].r - A[k - 1] * body[k - 1].far;
        }
    }

    void accelerations(const Position *q, const Velocity *v, Velocity *a, Vec3 *lambda) {
        factor(q);
        for (int k = 0; k < n; k++) {
            const Vec3 w = v[k].w;
            a[k].r = gravity;
            a[k].w = -1.0 * times(body[k].inverse_inertia, gyroscopic(body[k], w));
            lambda[k] = A[k] * cross(w, cross(w, body[k].near));
            if (k) {
                const Vec3 u = v[k - 1].w;
                lambda[k] = lambda[k] - A[k - 1] * cross(u, cross(u, body[k - 1].far));
            }
        }
        along(near.data(), far.data(), a, lambda);
        solve(lambda);
        push(lambda, a);
    }

    const int n;
    const Body *body;
    const Vec3 gravity;
    std::vector<Mat3> A, near, far, pivot, below;

   private:
    // Of one body: 1/m + (lever a) (inverse inertia) (lever b)'
    static Mat3 weighted(const Mat3 &a, const Body &body, const Mat3 &b) {
        Mat3 out;
        for (int i = 0; i < 3; i++) {
            const Vec3 scaled = times(row(a, i), body.inverse_inertia);
            for (int j = 0; j < 3; j++) out[i][j] = dot(scaled, row(b, j));
            out[i][i] += body.inverse_mass;
        }
        return out;
    }
};

// -- RK4 with projection -----------------------------------------------------------------------

struct Rate {  // of a position: the quaternion's is a vector of its own
    Vec3 r;
    double e[4];
};

inline Rate rate(const Position &q, const Velocity &v) {
    const double *e = q.e, x = 0.5 * v.w[0], y = 0.5 * v.w[1], z = 0.5 * v.w[2];
    return {v.r,
            {-e[1] * x - e[2] * y - e[3] * z, e[0] * x + e[2] * z - e[3] * y,
             e[0] * y - e[1] * z + e[3] * x, e[0] * z + e[1] * y - e[2] * x}};
}

void project(Chain &chain, Position *q, Velocity *v, std::vector<Vec3> &lambda,
             std::vector<Velocity> &move, std::vector<Mat3> &near, std::vector<Mat3> &far) {
    const int n = chain.n;
    chain.factor(q);
    for (int pass = 0; pass < 2; pass++) {
        if (pass)
            for (int k = 0; k < n; k++) chain.A[k] = rotation(q[k]);
        chain.constraint(q, lambda.data());
        chain.solve(lambda.data());
        std::fill(move.begin(), move.end(), Velocity{});
        chain.push(lambda.data(), move.data());
        for (int k = 0; k < n; k++) q[k] = moved(q[k], move[k]);
    }
    for (int k = 0; k < n; k++) {  // the constraints' derivative at the corrected position
        chain.A[k] = rotation(q[k]);
        near[k] = lever(chain.A[k], chain.body[k].near);
        if (k) far[k] = lever(chain.A[k - 1], chain.body[k - 1].far);
    }
    for (int pass = 0; pass < 2; pass++) {
        std::fill(lambda.begin(), lambda.end(), Vec3{});
        chain.along(near.data(), far.data(), v, lambda.data());
        chain.solve(lambda.data());
        chain.push(lambda.data(), v);
    }
}

void rk4(Chain &chain, Position *q, Velocity *v, double h, long steps) {
    const int n = chain.n;
    std::vector<Vec3> lambda(n);
    std::vector<Velocity> a[4], stage_v[4], move(n);
    std::vector<Rate> dq[4];
    std::vector<Position> stage_q(n);
    std::vector<Mat3> near(n), far(n);
    for (int s = 0; s < 4; s++) {
        a[s].resize(n);
        stage_v[s].resize(n);
        dq[s].resize(n);
    }
    for (long step = 0; step < steps; step++) {
        for (int s = 0; s < 4; s++) {
            const Position *qs = s ? stage_q.data() : q;
            const Velocity *vs = s ? stage_v[s].data() : v;
            chain.accelerations(qs, vs, a[s].data(), lambda.data());
            for (int k = 0; k < n; k++) dq[s][k] = rate(qs[k], vs[k]);
            if (s == 3) break;
            const double part = s == 2 ? h : 0.5 * h;
            for (int k = 0; k < n; k++) {
                stage_v[s + 1][k] = {v[k].r + part * a[s][k].r, v[k].w + part * a[s][k].w};
                stage_q[k].r = q[k].r + part * dq[s][k].r;
                for (int i = 0; i < 4; i++) stage_q[k].e[i] = q[k].e[i] + part * dq[s][k].e[i];
            }
        }
        for (int k = 0; k < n; k++) {
            const auto sum = [h](Vec3 x0, Vec3 x1, Vec3 x2, Vec3 x3) {
                return h / 6 * (x0 + 2.0 * x1 + 2.0 * x2 + x3);
            };
            v[k].r = v[k].r + sum(a[0][k].r, a[1][k].r, a[2][k].r, a[3][k].r);
            v[k].w = v[k].w + sum(a[0][k].w, a[1][k].w, a[2][k].w, a[3][k].w);
            q[k].r = q[k].r + sum(dq[0][k].r, dq[1][k].r, dq[2][k].r, dq[3][k].r);
            double size = 0;
            for (int i = 0; i < 4; i++) {
                const double mean =
                    dq[0][k].e[i] + 2 * dq[1][k].e[i] + 2 * dq[2][k].e[i] + dq[3][k].e[i];
                q[k].e[i] += h / 6 * mean;
                size += q[k].e[i] * q[k].e[i];
            }
            for (int i = 0; i < 4; i++) q[k].e[i] /= std::sqrt(size);
        }
        project(chain, q, v, lambda, move, near, far);
    }
}

// -- generalized-alpha -------------------------------------------------------------------------

// (1 - (n/2) cot(n/2)) / n^2 of a rotation vector of length n: see `tangent`.
inline double tangent_factor(Vec3 x) {
    const double n2 = dot(x, x);
    if (n2 < 1e-6) return 1 / 12. + n2 / 720 + n2 * n2 / 30240;
    const double n = std::sqrt(n2);
    return (1 - 0.5 * n * std::sin(n) / (1 - std::cos(n))) / n2;
}

// How the rotation vector x changes with a further rotation: 1 + x~/2 + c x~ x~.
inline Mat3 tangent(Vec3 x) {
    const double c = tangent_factor(x), X = x[0], Y = x[1], Z = x[2];
    return {{{1 - c * (Y * Y + Z * Z), -0.5 * Z + c * X * Y, 0.5 * Y + c * X * Z},
             {0.5 * Z + c * X * Y, 1 - c * (X * X + Z * Z), -0.5 * X + c * Y * Z},
             {-0.5 * Y + c * X * Z, 0.5 * X + c * Y * Z, 1 - c * (X * X + Y * Y)}}};
}

class GeneralizedAlpha {
   public:
    GeneralizedAlpha(Chain &chain, double h, double rho, double tolerance)
        : chain(chain), n(chain.n), h(h), tolerance(tolerance), x(n), residual(n), g(n), start(n),
          T(n), solved(n), S(n) {
        am = (2 * rho - 1) / (rho + 1);
        af = rho / (rho + 1);
        gamma = 0.5 + af - am;
        beta = 0.25 * (gamma + 0.5) * (gamma + 0.5);
        per_a = (1 - am) / (h * h * beta * (1 - af));
        per_v = gamma / (h * beta);
        scale = 1 / per_a;
    }

    // One step; returns the number of Newton iterations.
    int step(Position *q, Velocity *v, Velocity *a, Velocity *w, Vec3 *lambda) {
        predict(q, v, a, w);
        int iterations = 0;
        for (; iterations < 30; iterations++) {
            if (!(residuals(q, v, a, lambda) >= tolerance)) break;
            eliminate(v, lambda);
            substitute(v, a, lambda);
        }
        const double share = (1 - af) / (1 - am);
        for (int k = 0; k < n; k++) {
            w[k].r = w[k].r + share * a[k].r;
            w[k].w = w[k].w + share * a[k].w;
        }
        return iterations;
    }

   private:
    void predict(const Position *q, Velocity *v, Velocity *a, Velocity *w) {
        const auto one = [this](Vec3 &x, Vec3 &v, Vec3 &a, Vec3 &w) {
            const Vec3 next = 1 / (1 - am) * (af * a - am * w);
            x = h * v + h * h * ((0.5 - beta) * w + beta * next);
            v = v + h * ((1 - gamma) * w + gamma * next);
            w = next;
            a = {0, 0, 0};
        };
        for (int k = 0; k < n; k++) {
            start[k] = q[k];
            one(x[k].r, v[k].r, a[k].r, w[k].r);
            one(x[k].w, v[k].w, a[k].w, w[k].w);
        }
    }

    // Moves q to its increment, fills the residuals in one sweep and returns the largest.
    double residuals(Position *q, const Velocity *v, const Velocity *a, const Vec3 *lambda) {
        for (int k = 0; k < n; k++) {
            const Body &body = chain.body[k];
            q[k] = moved(start[k], x[k]);
            chain.A[k] = rotation(q[k]);
            chain.near[k] = lever(chain.A[k], body.near);
            g[k] = q[k].r + chain.A[k] * body.near;
            residual[k].r = body.mass * (a[k].r - chain.gravity) + lambda[k];
            residual[k].w = times(body.inertia, a[k].w) + gyroscopic(body, v[k].w) +
                            transposed_times(chain.near[k], lambda[k]);
            if (!k) continue;
            const Body &before = chain.body[k - 1];
            chain.far[k] = lever(chain.A[k - 1], before.far);
            g[k] = g[k] - q[k - 1].r - chain.A[k - 1] * before.far;
            residual[k - 1].r = residual[k - 1].r - lambda[k];
            residual[k - 1].w = residual[k - 1].w - transposed_times(chain.far[k], lambda[k]);
        }
        double largest = 0;
        for (int k = 0; k < n; k++)
            for (int i = 0; i < 3; i++) {
                largest = std::max(largest, std::fabs(residual[k].r[i]));
                largest = std::max(largest, std::fabs(residual[k].w[i]));
                largest = std::max(largest, std::fabs(g[k][i]));
            }
        return largest;
    }

    // Adds the derivative of the torque of `lambda` at point s: f s' - (s.f) 1 with f = A' lambda.
    static void add_stiffness(Mat6 &K, const Mat3 &A, Vec3 s, Vec3 lambda, double factor) {
        const Vec3 f = transposed_times(A, lambda);
        const double along = dot(s, f);
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) K[3 + i][3 + j] += factor * f[i] * s[j];
            K[3 + i][3 + i] -= factor * along;
        }
    }

    // Newton's matrix of body k alone, the equations of motion scaled.
    void add_body(Mat6 &K, int k, Vec3 w, const Vec3 *lambda) {
        const Body &body = chain.body[k];
        const Vec3 J = body.inertia, H = times(J, w);
        const double s = scale * per_v;
        // J per_a + per_v (w~ J - (J w)~)
        const Mat3 inertia = {{{J[0], s * (H[2] - w[2] * J[1]), s * (w[1] * J[2] - H[1])},
                               {s * (w[2] * J[0] - H[2]), J[1], s * (H[0] - w[0] * J[2])},
                               {s * (H[1] - w[1] * J[0]), s * (w[0] * J[1] - H[0]), J[2]}}};
        T[k] = tangent(x[k].w);
        const Mat3 turned = inertia * T[k];
        for (int i = 0; i < 3; i++) {
            K[i][i] += body.mass;
            for (int j = 0; j < 3; j++) K[3 + i][3 + j] += turned[i][j];
        }
        add_stiffness(K, chain.A[k], body.near, lambda[k], scale);
        if (k < n - 1) add_stiffness(K, chain.A[k], body.far, lambda[k + 1], -scale);
    }

    // From the free end to the root: body k, then joint k, whose rest goes to body k - 1.
    void eliminate(const Velocity *v, const Vec3 *lambda) {
        Mat6 from_child = {};
        Velocity load = {};
        for (int k = n - 1; k >= 0; k--) {
            Mat6 K = from_child;
            add_body(K, k, v[k].w, lambda);
            factor6(K);

            // four columns at once: those of the joint and the right-hand side
            const Mat3 &B = chain.near[k];
            Matrix<6, 4> &W = solved[k];
            for (int i = 0; i < 3; i++) {
                for (int j = 0; j < 3; j++) {
                    W[i][j] = i == j;
                    W[3 + i][j] = B[j][i];
                }
                W[i][3] = load.r[i] - scale * residual[k].r[i];
                W[3 + i][3] = load.w[i] - scale * residual[k].w[i];
            }
            solve6(K, W);
            const Vec3 r = {W[0][3], W[1][3], W[2][3]}, w = {W[3][3], W[4][3], W[5][3]};
            Mat3 reduced;
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++)
                    reduced[i][j] = -(W[i][j] + B[i][0] * W[3][j] + B[i][1] * W[4][j] +
                                      B[i][2] * W[5][j]);
            S[k] = inverse(reduced);
            g[k] = S[k] * (-1.0 * g[k] - r - B * w);
            if (!k) break;

            const Mat3 &C = chain.far[k], P = S[k] * C, Ct = transpose(C);
            const Mat3 Q = Ct * S[k], R = Ct * P;
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++) {
                    from_child[i][j] = -S[k][i][j];
                    from_child[i][3 + j] = -P[i][j];
                    from_child[3 + i][j] = -Q[i][j];
                    from_child[3 + i][3 + j] = -R[i][j];
                }
            load = {g[k], transposed_times(C, g[k])};
        }
    }

    // From the root to the free end; then everything is moved along.
    void substitute(Velocity *v, Velocity *a, Vec3 *lambda) {
        for (int k = 0; k < n; k++) {
            if (k) g[k] = g[k] + S[k] * (residual[k - 1].r + chain.far[k] * residual[k - 1].w);
            const Matrix<6, 4> &W = solved[k];
            const auto entry = [&](int i) {
                return W[i][3] - W[i][0] * g[k][0] - W[i][1] * g[k][1] - W[i][2] * g[k][2];
            };
            residual[k] = {{entry(0), entry(1), entry(2)}, {entry(3), entry(4), entry(5)}};
        }
        for (int k = 0; k < n; k++) {
            lambda[k] = lambda[k] + per_a * g[k];
            const Velocity dx = {residual[k].r, T[k] * residual[k].w};
            x[k] = {x[k].r + dx.r, x[k].w + dx.w};
            v[k] = {v[k].r + per_v * dx.r, v[k].w + per_v * dx.w};
            a[k] = {a[k].r + per_a * dx.r, a[k].w + per_a * dx.w};
        }
    }

    Chain &chain;
    const int n;
    const double h, tolerance;
    double am, af, gamma, beta, per_a, per_v, scale;
    std::vector<Velocity> x, residual;
    std::vector<Vec3> g;
    std::vector<Position> start;
    std::vector<Mat3> T;
    std::vector<Matrix<6, 4>> solved;  // K^-1 (G', right-hand side)
    std::vector<Mat3> S;               // inverse pivots of the joints
};

// Equal bodies of length 1 along x, jointed at their ends, with gravity along -z.
struct Row {
    std::vector<Body> bodies;
    Chain chain;
    Row(int n, double mass, double axial, double transverse, double gravity)
        : bodies(n, Body{1 / mass,
                         {1 / axial, 1 / transverse, 1 / transverse},
                         {-0.5, 0, 0},
                         {0.5, 0, 0},
                         mass,
                         {axial, transverse, transverse}}),
          chain(n, bodies.data(), {0, 0, -gravity}) {}
};

}  // namespace

extern "C" {

void *chain_new(int n, double mass, double axial, double transverse, double gravity) {
    return new Row(n, mass, axial, transverse, gravity);
}

void chain_delete(void *row) { delete static_cast<Row *>(row); }

// q: 7 numbers of each body (position, quaternion); v: 6 (velocity, angular velocity).
void chain_rk4(void *row, double *q, double *v, double h, long steps) {
    rk4(static_cast<Row *>(row)->chain, reinterpret_cast<Position *>(q),
        reinterpret_cast<Velocity *>(v), h, steps);
}

// Returns the number of Newton iterations.
long chain_generalized_alpha(void *row, double *q, double *v, double h, long steps, double rho,
                             double tolerance) {
    Chain &chain = static_cast<Row *>(row)->chain;
    auto *position = reinterpret_cast<Position *>(q);
    auto *velocity = reinterpret_cast<Velocity *>(v);
    std::vector<Velocity> a(chain.n);
    std::vector<Vec3> lambda(chain.n);
    chain.accelerations(position, velocity, a.data(), lambda.data());
    std::vector<Velocity> w = a;
    GeneralizedAlpha method(chain, h, rho, tolerance);
    long iterations = 0;
    for (long step = 0; step < steps; step++)
        iterations += method.step(position, velocity, a.data(), w.data(), lambda.data());
    return iterations;
}
}
