"""Models and data sets of the Hub by their revisions, as the client's downloads have them."""

import json
import shutil
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from huggingface_hub import close_session

from harness.data.corpora import source
from harness.data.hub import check_model, found_by_name, model_folder
from harness.data.revisions import commits_of, repository_of, short_name, without_revision
from harness.errors import NotHere, UserError
from harness.evaluation.suites import suite
from harness.plugin import registry
from harness.plugin.operations import shape_of
from harness.plugin.resolution import resolve
from harness.trials.publishing import without_folder
from harness.trials.trial import Trial, arrived, key, portable, revisions
from tests.downloads import FIRST, SECOND, THIRD, downloaded, downloaded_model, downloaded_texts
from tests.kits import hub_client

KEY = "0123456789abcdef" * 2


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two revisions of a model and of a data set, without a network."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    hub_client(monkeypatch, HF_HUB_CACHE=str(tmp_path))
    for commit, names in (
        (FIRST, ("main", "v1")),
        (SECOND, ("v2", "refs/pr/1", "new/v2", "a/b/c.d")),
    ):
        folder = downloaded(tmp_path, "models/some/tiny", commit, *names)
        (folder / "config.json").write_text("{}")
    texts = {(FIRST, "main"): "one", (SECOND, "v2"): "two", (THIRD, "new/v3"): "three"}
    downloaded_texts(tmp_path, "some/texts", texts)
    return tmp_path


@pytest.mark.parametrize(
    ("revision", "commit"),
    [
        ("", FIRST), ("@main", FIRST), ("@v1", FIRST), ("@v2", SECOND), ("@refs/pr/1", SECOND),
        ("@new/v2", SECOND), ("@a/b/c.d", SECOND), (f"@{SECOND}", SECOND), (f"@v2@{KEY}", SECOND),
        (f"@new/v2@{KEY}", SECOND),
    ],
)  # fmt: skip
def test_a_revision_picks_a_snapshot(downloads: Path, revision: str, commit: str) -> None:
    """Also of the model that a trial has trained on."""
    for _ in range(2):
        folder = model_folder(f"some/tiny{revision}")
        assert folder == downloads / "models--some--tiny" / "snapshots" / commit
    assert found_by_name(folder)
    assert commits_of([folder, Path(__file__)]) == {"models/some/tiny": commit}


@pytest.mark.slow
@pytest.mark.usefixtures("downloads")
def test_several_revisions_of_one_repository() -> None:
    paths = {}
    for name, word in (
        ("some/texts", "one"),
        ("some/texts@v2:train", "two"),
        ("some/texts@new%2Fv3", "three"),
        ("some/texts@new%2Fv3/default:train", "three"),
    ):
        [paths[word]] = source(name).paths()
        assert paths[word].read_text().split()[1] == word
    commits = {"datasets/some/texts": f"{FIRST}, {SECOND}"}
    assert commits_of([paths["two"], paths["one"]]) == commits


def test_a_branch_that_moves_stays_in_a_process(downloads: Path) -> None:
    """A trial reads its model and its data several times."""
    for kind, find in (
        ("models--some--tiny", lambda: model_folder("some/tiny")),
        ("datasets--some--texts", lambda: source("some/texts").paths()[0]),
    ):
        before = find()
        (downloads / kind / "refs" / "main").write_text(SECOND)
        assert find() == before
        assert FIRST in before.parts


@pytest.mark.usefixtures("downloads")
@pytest.mark.parametrize("download", [True, False])
def test_an_unknown_revision_is_named(download: bool) -> None:
    for revision, nearest in (("v3", "v"), ("mian", 'main"')):
        with pytest.raises(UserError) as refusal:
            model_folder(f"some/tiny@{revision}", download=download)
        message = str(refusal.value)
        assert message.startswith(f'model "some/tiny@{revision}" was not found: ')
        assert f'did you mean "some/tiny@{nearest}' in message
        assert "\n" not in message
    for revision, nearest in (("v3", "v2"), ("new%2Fv4", "new%2Fv3")):
        said = f'data set "some/texts@{revision.replace("%2F", "/")}".*mean "some/texts@{nearest}"'
        with pytest.raises(UserError, match=said):
            source(f"some/texts@{revision}").paths(download=download)


@pytest.mark.parametrize(
    "revision",
    [
        "", "..", "../v1", "v1/..", "refs/pr/..", "refs/pr/../../v1", "refs/heads/../x", "/v1",
        "v1/", ".v1", "a//b", "a/../b", "a/.b", "v1@v2", "v\n1", "refs\\pr",
    ],
)  # fmt: skip
def test_no_revision_is_a_path(downloads: Path, revision: str) -> None:
    (downloads / "models--some--tiny" / "v1").mkdir()
    with pytest.raises(UserError, match=r"cannot be the name of a model: write ORGANISATION/NAME"):
        model_folder(f"some/tiny@{revision}")


@pytest.mark.usefixtures("downloads")
def test_a_revision_of_a_mirror_is_a_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror has no commit, and a plain folder stands for no revision."""
    mirror = tmp_path_factory.mktemp("mirror")
    for name in ("tiny", "tiny@v1", "other", f"tiny@{THIRD}", "tiny@refs/pr/7"):
        (mirror / "models" / "some" / name).mkdir(parents=True)
        (mirror / "models" / "some" / name / "config.json").write_text("{}")
    monkeypatch.setenv("HARNESS_HUB", str(mirror))
    for name in ("tiny", "tiny@v1", f"tiny@{THIRD}", "tiny@refs/pr/7"):
        folder = model_folder(f"some/{name}")
        assert folder == mirror / "models" / "some" / name
        assert commits_of([folder]) == {}
    assert SECOND in model_folder("some/tiny@v2").parts
    with pytest.raises(UserError, match=r'"some/other@v1" was not found.*models/some/other@v1'):
        model_folder("some/other@v1")


class NoRevision(BaseHTTPRequestHandler):
    """A Hub that has every repository, and none of its revisions."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer as the Hub does."""
        self.send_response(404)
        self.send_header("X-Error-Code", "RevisionNotFound")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


@pytest.mark.usefixtures("downloads")
def test_where_the_hub_does_not_answer_its_client_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that was downloaded is known by its name, and needs no answer."""
    hub_client(monkeypatch, HF_HUB_OFFLINE=False, ENDPOINT="http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", None)  # its import would fail
    for look in (check_model, model_folder):
        with pytest.raises(NotHere) as refusal:
            look("some/tinny")
        assert "did not answer (http://127.0.0.1:9: Connection refused)" in str(refusal.value)
        assert 'did you mean "some/tiny"?' in str(refusal.value)
    check_model("some/tiny")


@pytest.mark.slow
@pytest.mark.usefixtures("downloads")
def test_a_revision_that_the_hub_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), NoRevision) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        hub_client(monkeypatch, HF_HUB_OFFLINE=False, ENDPOINT=address)
        close_session()
        for kind, find in (
            ("model", lambda: model_folder("some/model@v9")),
            ("data set", lambda: source("some/model@v9").paths()),
        ):
            with pytest.raises(UserError) as refusal:
                find()
            assert str(refusal.value) == (
                f'the {kind} "some/model" of the Hub has no revision "v9": name a branch, a tag or '
                f"a whole commit of it"
            )
        server.shutdown()
    close_session()


@pytest.mark.parametrize(
    ("encoder", "repository", "plain", "short"),
    [
        ("bert", "bert", "bert", "bert"),
        ("org/bert", "org/bert", "org/bert", "bert"),
        ("org/bert@v1.0", "org/bert", "org/bert", "bert@v1.0"),
        ("org/bert@refs/pr/1", "org/bert", "org/bert", "bert@refs/pr/1"),
        (f"bert@{FIRST}", "bert", "bert", f"bert@{FIRST[:10]}"),
        (f"bert@{KEY}", "bert", f"bert@{KEY}", f"bert@{KEY[:10]}"),
        (f"o/b@v1@{KEY}", "o/b", f"o/b@{KEY}", f"b@v1@{KEY[:10]}"),
        ("/a/b@c/bert@v1", "/a/b@c/bert@v1", "/a/b@c/bert@v1", "bert@v1"),
        (f"./bert@v1@{KEY}", "./bert@v1", f"./bert@v1@{KEY}", f"bert@v1@{KEY[:10]}"),
    ],
)
def test_the_names_of_an_encoder(encoder: str, repository: str, plain: str, short: str) -> None:
    assert repository_of(encoder) == repository
    assert without_revision(encoder) == plain
    assert short_name(encoder) == short


@pytest.mark.parametrize("revision", ["@v1", "@refs/pr/1", f"@{FIRST}", f"@v1@{KEY}"])
def test_what_is_known_of_a_model_is_known_of_its_revisions(revision: str) -> None:
    """The published values, the distilled generator, and the size."""
    encoder = f"roberta-base{revision}"
    for method in ("simcse", "diffcse"):
        plugin = registry.load(method)
        values = resolve(plugin, {"encoder": "roberta-base"}).deciding()
        assert resolve(plugin, {"encoder": encoder}).deciding() == {**values, "encoder": encoder}
    assert shape_of(f"bert-base-uncased{revision}") == shape_of("bert-base-uncased")
    label = Trial("simcse", {"encoder": encoder}, 0).label
    assert label == f"simcse unsup {short_name(encoder)} seed 0"


def test_texts_for_others_keep_the_names_of_the_hub() -> None:
    for text in ("org/bert@refs/pr/1", f"org/bert@refs/pr/1@{KEY}", "org/texts@v1/config"):
        assert without_folder(text) == text
    for text, shown in (("a/b/c", "c"), ("a/b@c/texts.csv", "texts.csv"), ("/a/b@v1", "b@v1")):
        assert without_folder(text) == shown


@pytest.mark.parametrize("kind", ["models", "datasets"])
def test_a_branch_that_moves_stays_in_a_sweep(
    kind: str, downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers, which are other processes, read the commits of the driver."""
    values = {"encoder": "tiny-bert", "suite": "graded", "sentences": "some/texts", "max_steps": 1}
    name = "some/texts"
    if kind == "models":
        name = "other/tiny"
        downloaded_model(downloads, name, FIRST, "main", scale=1)
        downloaded_model(downloads, name, SECOND, scale=2)
        values |= {"encoder": name, "sentences": "graded-sentences"}
    trial = Trial("simcse", values, 0)
    before, sent = key(trial), json.loads(json.dumps(portable(trial)))
    (downloads / f"{kind}/{name}".replace("/", "--") / "refs" / "main").write_text(SECOND)
    # What was resolved holds for one folder of downloads.
    others = [downloads.with_name(f"{downloads.name}-{end}") for end in ("second", "third")]
    for other in others:
        shutil.copytree(downloads, other, symlinks=True)
    hub_client(monkeypatch, HF_HUB_CACHE=str(others[0]))
    assert key(Trial("simcse", values, 0)) != before
    hub_client(monkeypatch, HF_HUB_CACHE=str(others[1]))
    there = arrived(sent)
    assert key(there) == before
    assert revisions(there, suite("graded")) == {f"{kind}/{name}": FIRST}
