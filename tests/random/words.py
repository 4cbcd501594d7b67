"""What the random cells are made of: names of the notebook, values, and templates that are filled in."""

from __future__ import annotations

from hypothesis import strategies as st

pick = st.sampled_from
MODULES = pick(
    [
        "root",
        "root.first",
        "root.first.linear",
        "root.blocks",
        "root.blocks[0]",
        "root.blocks[-1]",
        "root.heads['a']",
        "leaf",
        "leaf.linear",
        "other",
        "other.first",
        "mod",
        "tied",
        "tied.layer",
        "tied.stack",
    ]
)
LEAVES = pick(["root.first", "root.blocks[0]", "leaf", "other.first", "tied.layer"])
LAYERS = pick(["root.first.linear", "root.heads['a']", "leaf.linear", "other.first.linear", "mod", "tied.encoder"])
ROOTS = pick(["root", "other"])
CLASSES = pick(["Base", "Leaf", "Root"])
NUMBERS = pick(["1", "2", "3", "7", "0.5", "2.5", "True", "torch.tensor(2.0)"])
VALUES = NUMBERS | pick(["None", "'text'", "'other'", "[1, 2]", "(1, 2)", "helper", "Mode.PLAIN", "torch.float64"])
SMALL = st.integers(1, 4)
NEW_MODULES = pick(
    [f"Leaf({n})" for n in ("", 2, 5)]
    + [
        "Counting()",
        "Broken()",
        "Broken(3)",
        "Choosy()",
        "Refusing()",
        "Refusing(3)",
        "Normed()",
        "Moving()",
        "Noisy()",
    ]
    + ["nn.Identity()", "nn.Linear(4, 4)", "nn.Linear(4, 4, bias=False)", "nn.ReLU()", "nn.Tanh()", "nn.Dropout(0.25)"]
    + ["nn.Sequential(Leaf(), Leaf(4))", "nn.Sequential(Moving(), nn.Tanh())", "leaf", "mod"]
)
FUNCTIONS = ["helper", "shift", "over(3)", "lambda x: x * 4", "part", "shim", "leaf", "plan.act", "slotted", "itself"]


def text(template, **parts):
    """Return a strategy for a cell: `template` with parts drawn for its names, which are written ``<name>``."""

    def fill(drawn):
        cell = template
        for _ in range(2):  # a part may have names in it
            for name, part in drawn.items():
                cell = cell.replace(f"<{name}>", str(part))
        return cell

    return st.fixed_dictionaries(parts).map(fill)
