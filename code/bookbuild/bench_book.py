"""Books made for measuring: the same pages every time, for whichever tool builds them.

A page is a list of texts and cells, without the spelling of any tool; `bench_write` spells it as
Quarto Markdown, MyST Markdown or notebooks. `eight_pages` is a small book with four chapters that
train with Keras and three that compute with NumPy; `many_pages` is a long one of small chapters.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

WORD = "plainly"  # what the edit of one word changes, on the page EDITED
EDITED = "layers"
CELL = "variant"  # label of the cell that the edit of one cell changes, on the same page


@dataclass(frozen=True)
class Text:
    """Markdown that all tools read alike. `{page}` in it is a link to another page of the book."""

    markdown: str
    link: str = ""  # name of the page that {page} leads to


@dataclass(frozen=True)
class Cell:
    label: str
    code: str
    caption: str = ""  # of the figure that it draws


@dataclass(frozen=True)
class Page:
    name: str
    title: str
    pieces: tuple[Text | Cell, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Cell))


SENTENCES = (
    "A number that was measured once is a memory; a number that is measured at every build is a "
    "fact.",
    "The same seed gives the same table, whoever asks and however often.",
    "Each row below is the result of one run, and no row was chosen.",
    "What the code prints here is what it printed when the page was made.",
    "A small change of the input moves the result by little, unless the scale is wrong.",
    "The first axis counts examples, the last one features, as everywhere in this book.",
    "It pays to look at the shape before the values: most mistakes show there.",
    "Where two ways lead to one value, the page takes both and compares.",
    "The variance is the mean square of what is left when the mean is gone.",
    "An estimate without its spread says less than no estimate.",
    "Two lines of code are enough for the idea, and the rest is care.",
    "The figure shows the same values once more, since an eye finds what a table hides.",
    "Nothing on this page depends on the time of day, the folder or the number of cores.",
    "A loss that falls proves that something was learned, not that it was the right thing.",
    "Rounding is visible in the last digit and should be said beside it.",
    "The next section asks what happens when the assumption fails.",
)
STRIDE = 5  # has no factor in common with the number of sentences: all of them come up


def paragraphs(start: int, count: int = 2, length: int = 5) -> Iterator[str]:
    """Paragraphs of sentences in an order that `start` decides."""
    for number in range(count):
        first = start + number * length * STRIDE
        chosen = (SENTENCES[(first + k * STRIDE) % len(SENTENCES)] for k in range(length))
        yield " ".join(chosen)


def section(number: int, heading: str, *pieces: Text | Cell) -> list[Text | Cell]:
    text = "\n\n".join(paragraphs(number))
    return [Text(f"## {heading}\n\n{text}"), *pieces]


IMPORTS_KERAS = """\
import keras
import matplotlib.pyplot as plt
import numpy as np"""
IMPORTS_NUMPY = """\
import matplotlib.pyplot as plt
import numpy as np"""
DATA = """\
generator = np.random.default_rng({seed})
inputs = generator.normal(size={shape}).astype("float32")
targets = inputs.reshape(len(inputs), -1)[:, :3].sum(axis=1, keepdims=True)
inputs.shape, targets.shape"""
MODEL = """\
keras.utils.set_random_seed({seed})
model = keras.Sequential([keras.Input({shape}), {layers}, keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
print(model.count_params(), "weights")"""
FIT = """\
history = model.fit(inputs, targets, epochs=6, batch_size=32, shuffle=False, verbose=0)
losses = np.array(history.history["loss"])
print("the loss fell to", round(float(losses[-1] / losses[0]), 3), "of what it was")"""
LOSSES = """\
figure, axes = plt.subplots(figsize=(5, 3))
axes.plot(losses, marker="o")
axes.set(xlabel="epoch", ylabel="mean squared error")
plt.show()"""
PREDICT = """\
predicted = model.predict(inputs[:5], verbose=0)
for got, wanted in zip(predicted[:, 0], targets[:5, 0]):
    print(f"{got:8.3f} {wanted:8.3f}")"""
KERAS = {
    "layers": ("Layers", "(24,)", 'keras.layers.Dense(32, activation="relu")'),
    "filters": (
        "Filters", "(24, 4)",
        "keras.layers.Conv1D(16, 3), keras.layers.GlobalAveragePooling1D()",
    ),
    "memory": ("Memory", "(12, 4)", "keras.layers.GRU(16)"),
    "groups": (
        "Groups", "(8, 8)",
        "keras.layers.LayerNormalization(), keras.layers.Flatten(), keras.layers.Dense(24)",
    ),
}  # fmt: skip
NUMPY = {
    "matrices": ("Matrices", "np.linalg.svd(table, compute_uv=False)", "singular value"),
    "walks": ("Walks", "np.cumsum(np.sign(table), axis=0)[:, 0]", "distance"),
    "waves": ("Waves", "np.abs(np.fft.rfft(table[:, 0]))", "amplitude"),
}


def eight_pages(word: str = WORD, variant: int = 0) -> tuple[Page, ...]:
    """A preface, four chapters with Keras, three with NumPy: 46 cells.

    Args:
        word: what stands for WORD on the page EDITED.
        variant: what the cell CELL of that page computes with.
    """
    preface = (
        Text("This book was made to be built, and every page says something that is computed."),
        *(Text(text) for text in paragraphs(1, 3)),
        Text("Begin with {page}.", "layers"),
    )
    pages = [Page("index", "Preface", preface)]
    for number, (name, (title, shape, layers)) in enumerate(KERAS.items(), 1):
        pages.append(_keras_page(number, name, title, shape, layers, word, variant))
    for number, (name, (title, code, axis)) in enumerate(NUMPY.items(), len(KERAS) + 1):
        pages.append(_numpy_page(number, name, title, code, axis))
    return tuple(pages)


def _keras_page(number, name, title, shape, layers, word, variant) -> Page:
    examples = f"(256, {shape[1:]}"
    begin = f"A model is fitted here, and it is said {word if name == EDITED else WORD} how well."
    value = variant if name == EDITED else 0
    pieces = [
        Text(f"{begin} {' '.join(paragraphs(number, 1))}"),
        Cell("setup", IMPORTS_KERAS),
        *section(number + 1, "The data", Cell("data", DATA.format(seed=number, shape=examples))),
        Text(r"What is to be learned is a sum, $y = x_1 + x_2 + x_3$, so that"),
        Text("$$\n\\mathbb{E}[y^2] = \\sum_{i=1}^{3} \\mathbb{E}[x_i^2] = 3.\n$$"),
        *section(
            number + 2, "The model",
            Cell("model", MODEL.format(seed=number, shape=shape, layers=layers)),
        ),
        Cell(CELL, f'variant = {value}\nprint("variant", variant, "of", len(targets))'),
        *section(number + 3, "How it learns", Cell("fit", FIT)),
        Cell(f"fig-{name}", LOSSES, "The loss after each epoch."),
        *section(number + 4, "What it says", Cell("predict", PREDICT)),
        Text("- The data come from one seed.\n- The weights come from the same.\n- So do these."),
        Text("Compare this with {page}.", "matrices"),
    ]  # fmt: skip
    return Page(name, title, tuple(pieces))


def _numpy_page(number, name, title, code, axis) -> Page:
    table = f"table = np.random.default_rng({number}).normal(size=(200, 12))\ntable.shape"
    moments = 'print("mean", round(table.mean(), 4), "variance", round(table.var(), 4))'
    drawn = (
        "figure, axes = plt.subplots(figsize=(5, 3))\naxes.plot(values)\n"
        f'axes.set(xlabel="place", ylabel="{axis}")\nplt.show()'
    )
    largest = "np.sort(values)[::-1][:5].round(3)"
    pieces = [
        Text(" ".join(paragraphs(number, 1))),
        Cell("setup", IMPORTS_NUMPY),
        *section(number + 1, "The table", Cell("table", table), Cell("moments", moments)),
        Text("| axis | length |\n|------|-------:|\n| rows | many |\n| columns | a dozen |"),
        *section(number + 2, "The values", Cell("values", f"values = {code}\nvalues.shape")),
        Cell(f"fig-{name}", drawn, "All values in their order."),
        *section(number + 3, "The largest", Cell("largest", largest)),
        Text("Go on to {page}.", "layers"),
    ]
    return Page(name, title, tuple(pieces))


def many_pages(count: int) -> tuple[Page, ...]:
    """A preface, and `count` chapters of two small cells without any library."""
    preface = (*(Text(text) for text in paragraphs(1)), Text("Begin with {page}.", "part-1"))
    return (Page("index", "Preface", preface), *islice(_small_pages(count), count))


def _small_pages(count: int) -> Iterator[Page]:
    for number in range(1, count + 1):
        pieces = [
            Text(" ".join(paragraphs(number, 1))),
            Cell("setup", f"numbers = list(range({number}, {number} + 10))"),
            *section(number + 1, "The sum", Cell("sum", "print(sum(numbers))")),
            Text("The one after it is {page}.", f"part-{number % count + 1}"),
        ]
        yield Page(f"part-{number}", f"Part {number}", tuple(pieces))
