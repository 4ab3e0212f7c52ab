"""Linear algebra inside the time loop: small dense matrices, and block-sparse ones on a graph."""

from .block import BlockCholesky as BlockCholesky
from .block import BlockFactor as BlockFactor
from .block_lu import BlockLU as BlockLU
from .block_lu import BlockLUFactor as BlockLUFactor
from .complex_pairs import Pair as Pair
from .complex_pairs import in_pairs as in_pairs
from .elimination import Elimination as Elimination
from .elimination import eliminate as eliminate
from .elimination import minimum_degree as minimum_degree
from .implied import first_order as first_order
from .implied import held as held
from .implied import moved_back as moved_back
from .jacobian import jacobian as jacobian
from .linearized import derivative as derivative
from .linearized import linearized as linearized
from .many import solve_many as solve_many
from .small import CholeskyFactor as CholeskyFactor
from .small import LUFactor as LUFactor
from .small import cholesky as cholesky
from .small import cholesky_solve as cholesky_solve
from .small import cholesky_substitute as cholesky_substitute
from .small import lu as lu
from .small import lu_solve as lu_solve
from .small import solve as solve
