"""constraints.txt: what pyproject.toml asks for, all of it, in one version and with hashes."""

import re
import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.checkout import CHECKOUT

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
LOCKED = re.compile(
    r"(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; (?P<marker>[^\\\n]+))?"
    r"(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n"
)


def locked() -> dict[str, tuple[str, str | None]]:
    """Package -> its version and, where it has one, its marker."""
    found = LOCKED.finditer((CHECKOUT / "constraints.txt").read_text())
    return {canonicalize_name(each["name"]): (each["version"], each["marker"]) for each in found}


def own() -> dict[str, list[Requirement]]:
    """Extra -> what it asks for; "" is the package without extras."""
    project = PROJECT["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: [*map(Requirement, texts)] for extra, texts in extras.items()}


def closure() -> set[tuple[str, str]]:
    """All that the extra `dev` asks for on this machine, as (package, extra)."""
    needed, waiting = set[tuple[str, str]](), [(PROJECT["project"]["name"], each) for each in own()]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in needed:
            continue
        needed.add((name, extra))
        if name == PROJECT["project"]["name"]:
            asked = own()[extra]
        else:
            asked = [Requirement(text) for text in metadata.requires(name) or ()]
        if name == "torch":  # a build for GPUs brings libraries of its own, in its own versions
            asked = [each for each in asked if "platform_system" not in str(each.marker)]
        for each in asked:
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(each.name), more) for more in ("", *each.extras)]
    return needed


def test_every_line_is_a_version_with_hashes() -> None:
    assert LOCKED.sub("", (CHECKOUT / "constraints.txt").read_text()) == ""


def test_it_has_every_package_that_is_asked_for_but_torch() -> None:
    asked = {name for name, _ in closure()} - {PROJECT["project"]["name"], "torch"}
    packages = locked()
    assert asked - set(packages) == set()
    # What else it has is for another system or another Python, as its marker says.
    assert {name for name in set(packages) - asked if packages[name][1] is None} == set()


def test_its_versions_are_those_that_the_project_takes() -> None:
    packages = locked()
    (torch,) = map(Requirement, PROJECT["tool"]["uv"]["constraint-dependencies"])
    assert (torch.name, [each.operator for each in torch.specifier]) == ("torch", ["=="])
    packages["torch"] = (next(iter(torch.specifier)).version, None)
    builds = map(Requirement, PROJECT["build-system"]["requires"])
    for requirement in (*builds, *(each for every in own().values() for each in every)):
        name = canonicalize_name(requirement.name)
        if name != PROJECT["project"]["name"]:
            assert requirement.specifier.contains(packages[name][0], prereleases=True), requirement


def test_the_page_names_the_oldest_and_the_newest_versions() -> None:
    page = (CHECKOUT / "CONTRIBUTING.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([\w-]+) \| (\d[\d.]* \| \d[\d.]*) \|$", page, re.MULTILINE))
    assert rows.pop("Python").startswith(PROJECT["project"]["requires-python"].strip(">="))
    (torch,) = map(Requirement, PROJECT["tool"]["uv"]["constraint-dependencies"])
    newest = {name: version for name, (version, _) in locked().items()}
    newest["torch"] = str(torch.specifier).strip("=")
    asked = {canonicalize_name(each.name): each for every in own().values() for each in every}
    for name, row in rows.items():
        (oldest,) = (each.version for each in asked[name].specifier if each.operator == ">=")
        assert row == f"{oldest} | {newest[name]}", name
    assert {"torch", "transformers", "ray", "optuna", "pyarrow", "numpy"} <= rows.keys()


def test_actions_of_the_hosted_ci_are_commits() -> None:
    for path in (CHECKOUT / ".github" / "workflows").glob("*.yml"):
        actions = re.findall(r"uses: *(.*)", path.read_text())
        assert actions
        for action in actions:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
