"""The groups of loops that a program does strip by strip."""

from holonax.compiler import strips
from holonax.compiler.operations import Block, blocks_in


def groups_of(block: Block) -> list[strips.Strips]:
    """Those of a block, and of those inside of it."""
    found = []
    for node in block.code:
        found += [node.data] if node.op == "strips" else []
        for inner in blocks_in(node):
            found += groups_of(inner)
    return found
