"""How large is small: every size at which linear algebra is done another way.

Three roads lead to the solution of the linear equations of a step, of consistent accelerations and
of a projection:

- *small*: unrolled, entry by entry or column by column, so that a compiler that takes arrays apart
  into scalars sees the zeros;
- *by blocks*: elimination over the graph of bodies and joints, linear in their number;
- *dense*: one matrix with row exchanges, on request (``solver="dense"``) and where nothing is known
  of the structure.
"""

# -- matrices that are factored unrolled (`small.py`) --
ENTRIES = 6  # Cholesky, every entry its own variable
COLUMNS = 40  # Cholesky, a rank-one update for each column
EXCHANGED = 13  # LU with row exchanges, which have no structure
PLAIN = 72  # LU without row exchanges
PRODUCT = 32  # products with vectors

# -- systems of bodies and joints --
JOINT_ROWS = 24  # constraint rows up to which their Schur complement is one small matrix
# rows of bodies and joints together, where bodies are coupled, likewise: 18 rows take 9 us an
# iteration as one matrix and 48 by blocks, 42 about the same, 60 take 100 to 360 and 66
COUPLED_ROWS = 45
# rows of bodies and joints up to which a model with bodies that have modes is one matrix
MODAL_ROWS = 60
UNROLLED_ROWS = 32  # rows up to which such a matrix is eliminated unrolled, without exchanges

# -- derivatives of functions (`jacobian.py`): columns that are computed side by side --
AT_ONCE = 8
AT_ONCE_IF_SHORT = 24  # of functions of few operations

# -- triangular solves with a factor of blocks (`block_lu.py`): products are summed by a function of
# its own from so many entries of a row on, in matrices of so many blocks --
SUMMED_ENTRIES, SUMMED_BLOCKS = 2, 16

# -- explicit methods (`integrator/explicit.py`): coordinates and velocities from which on stages
# are written out. The four of 100 000 bodies take 7 % less time so, and 0.8 s more to compile --
STAGES_APART = 100_000

# -- Newton's method (`integrator/newton.py`): unknowns from which on the first iteration is written
# before the loop, so that it can begin while the prediction is made. A chain of 100 000 bodies
# takes some 2 % less time so, and 0.3 to 0.8 s more to compile --
FIRST_APART = 50_000

# -- eliminations (`elimination.py`): blocks from which on they may be done part by part, while the
# blocks of the matrix are computed, if a column needs no block further ahead than so many. Among
# fewer nothing waits for memory, and it takes 2 % more time --
IN_PARTS, AHEAD = 2000, 16
