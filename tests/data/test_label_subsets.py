"""Label subsets: the same items for all methods, and about the wanted share of them."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.data.items import label_subset
from harness.plugin.kit import Kit

KitFor = Callable[..., Kit]


@pytest.mark.parametrize("subset", [0, 3])
def test_every_item_is_drawn_on_its_own(subset: int) -> None:
    generator = random.Random(subset)
    expected = [item for item in range(500) if generator.random() < 0.1]
    assert label_subset(500, 0.1, subset).tolist() == expected


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5])
def test_sizes_vary_about_the_share(fraction: float) -> None:
    sizes = [len(label_subset(20_000, fraction, subset)) for subset in range(10)]
    spread = np.sqrt(20_000 * fraction * (1 - fraction))
    assert len(set(sizes)) > 5
    assert max(abs(np.array(sizes) - 20_000 * fraction)) < 4 * spread


def test_subsets_are_different_draws() -> None:
    one, two = (set(label_subset(20_000, 0.1, subset).tolist()) for subset in (0, 1))
    # As many items in common as two draws have by chance.
    assert len(one & two) == pytest.approx(200, abs=60)


def test_a_small_share_of_few_items_is_one_item() -> None:
    for subset in range(20):
        found = label_subset(3, 0.01, subset)
        assert len(found) >= 1
        assert set(found.tolist()) <= {0, 1, 2}


def test_methods_see_the_same_subset(kit_for: KitFor, triplets: Path) -> None:
    share = {"label_fraction": 0.5, "subset": 2}
    for kit in (
        kit_for("simcse", setting="sup", **share),
        kit_for("clsr", pairs=str(triplets), **share),
    ):
        found = kit.label_subset(str(triplets))
        assert found is not None
        assert found.tolist() == label_subset(20, 0.5, 2).tolist()


def test_corpora_of_the_same_file_have_their_own_subsets(
    kit_for: KitFor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entailments are the items of a corpus of 8, not of the 24 pairs from which they are taken."""
    folder = tmp_path / "datasets/stanfordnlp/snli/data"
    folder.mkdir(parents=True)
    table = pa.table(
        {"premise": ["a dog"] * 12, "hypothesis": ["a cat"] * 12, "label": [0, 1, 2] * 4}
    )
    for split in ("validation", "test"):
        pq.write_table(table, folder / f"{split}-00000-of-00001.parquet")
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path))
    for corpus, items in (("snli-heldout", 24), ("snli-heldout-entailments", 8)):
        found = kit_for("clsr", pairs=corpus, label_fraction=0.9).label_subset(corpus)
        assert found is not None
        assert found.tolist() == label_subset(items, 0.9, 0).tolist()


def test_unlabelled_corpora_and_full_shares_have_no_subset(
    kit_for: KitFor, sentences: Path, triplets: Path
) -> None:
    assert kit_for("simcse", setting="sup", label_fraction=0.5).label_subset(str(sentences)) is None
    assert kit_for("simcse", setting="sup").label_subset(str(triplets)) is None
