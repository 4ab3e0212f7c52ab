"""The rod of Reissner and Simo as a boundary-value problem of SciPy's: no element, no screw."""

import numpy as np
from scipy.integrate import solve_bvp


def _rotation(e):
    e0, e1, e2, e3 = e / np.linalg.norm(e, axis=0)
    return np.array(
        [
            [1 - 2 * (e2**2 + e3**2), 2 * (e1 * e2 - e0 * e3), 2 * (e1 * e3 + e0 * e2)],
            [2 * (e1 * e2 + e0 * e3), 1 - 2 * (e1**2 + e3**2), 2 * (e2 * e3 - e0 * e1)],
            [2 * (e1 * e3 - e0 * e2), 2 * (e2 * e3 + e0 * e1), 1 - 2 * (e1**2 + e2**2)],
        ]
    )


def clamped_rod(
    section, length, force, moment=(0, 0, 0), curvature=(0, 0, 0), per_length=(0, 0, 0)
):
    """Tip position and axes of a rod clamped at the origin along x, with loads in world axes.

    r' = A (e_x + C_n^-1 A^T n),  A' = A k~,  k = k0 + C_m^-1 A^T m,  n' = -p,  m' = -r' x n.
    """
    stretch = np.array([section.EA, *section.GA])
    bend = np.array([section.GJ, *section.EI])
    k0, p, moment = (np.asarray(x, float)[:, None] for x in (curvature, per_length, moment))

    def slopes(s, y, load):
        e, m = y[3:7], y[7:10]
        n = load * (np.asarray(force, float)[:, None] + p * (length - s))
        A = _rotation(e)
        back = lambda x: np.einsum("jin,jn->in", A, x)  # noqa: E731
        strain = back(n) / stretch[:, None]
        strain[0] += 1
        k = k0 + back(m) / bend[:, None]
        dr = np.einsum("ijn,jn->in", A, strain)
        e0, e1, e2, e3 = e
        x, y_, z = k
        de = 0.5 * np.array(
            [
                -(e1 * x + e2 * y_ + e3 * z),
                e0 * x + e2 * z - e3 * y_,
                e0 * y_ - e1 * z + e3 * x,
                e0 * z + e1 * y_ - e2 * x,
            ]
        )
        return np.concatenate([dr, de, -np.cross(dr.T, n.T).T])

    s = np.linspace(0, length, 81)
    y = np.zeros((10, s.size))
    y[0], y[3] = s, 1.0
    for load in np.linspace(0, 1, 11):

        def ends(a, b, load=load):
            return np.concatenate([a[:3], a[3:7] - [1, 0, 0, 0], b[7:10] - load * moment[:, 0]])

        found = solve_bvp(
            lambda s, y, load=load: slopes(s, y, load), ends, s, y, tol=1e-9, max_nodes=20000
        )
        assert found.success, found.message
        s, y = found.x, found.y
    return y[:3, -1], _rotation(y[3:7, -1:])[:, :, 0]
