"""What a classifier of texts has to beat: the largest class, weighted words, a mean of embeddings.

None of them knows the order of the words. Sources: Salton and Buckley (1988) for the weights;
Iyyer et al. (2015) for the mean of embeddings under a classifier.
"""

import keras
import numpy as np
from keras import ops
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from measured.passages import standardize

PAD = 0


def majority_class(labels):
    """The most frequent label, the smallest of them where several are: what a guess without
    reading would be.
    """
    labels = np.asarray(labels)
    if not len(labels):
        raise ValueError("no labels to count")
    return int(np.argmax(np.bincount(labels)))


def fit_tfidf(texts, labels, strength=1.0, words=None, adapt_to=None):
    """Logistic regression on weighted word counts: -> a fitted pipeline of scikit-learn.

    A word weighs its count times ln((1 + texts) / (1 + texts with it)) + 1, and each text's weights
    have length 1. All words of the texts count unless `words` names those that may; `adapt_to` are
    other texts to take words and weights from. `strength` is the inverse of the penalty,
    scikit-learn's C.
    """
    weights = TfidfVectorizer(analyzer=split_words, vocabulary=words)
    weights.fit(texts if adapt_to is None else adapt_to)
    # The optimum is unique; this solver comes so near that no prediction depends on the rest.
    regression = LogisticRegression(C=strength, solver="newton-cg", tol=1e-6, max_iter=200)
    # Threads that wait for each other made this fifty times as slow on a busy machine.
    with threadpool_limits(1):
        regression.fit(weights.transform(texts), labels)
    return make_pipeline(weights, regression)


def split_words(text):
    """The words of a text as `measured.passages` makes them."""
    return standardize(text).split()


@keras.saving.register_keras_serializable(package="measured")
class MeanEmbedding(keras.Model):
    """Token ids (batch, sequence), 0 = padding -> probabilities (batch, classes).

    The classifier of `measured.classifier` without positions and encoder layer: table, mean over
    real tokens, one product.
    """

    def __init__(self, vocab_size, num_classes, d_model=32, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size, self.num_classes, self.d_model = vocab_size, num_classes, d_model
        self.embedding = keras.layers.Embedding(vocab_size, d_model)
        self.pool = keras.layers.GlobalAveragePooling1D()
        self.head = keras.layers.Dense(num_classes, activation="softmax")

    def build(self, tokens_shape):
        self.embedding.build(tokens_shape)
        self.head.build((tokens_shape[0], self.d_model))
        self.built = True

    def call(self, tokens):
        return self.head(self.pool(self.embedding(tokens), mask=ops.not_equal(tokens, PAD)))

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "num_classes": self.num_classes,
            "d_model": self.d_model,
        }


def build_mean_embedding(size, seed):
    """A `MeanEmbedding` as wide as the classifier of a ClassifierSize, with its first weights."""
    keras.utils.set_random_seed(seed)
    model = MeanEmbedding(size.vocab_size, size.num_classes, size.d_model)
    model.build((None, size.max_length))
    return model
