"""Label and field selectors: what they match, and what is no selector."""

import pytest

from dds_lab.api import selectors
from dds_lab.api.status import ApiError

LABELS = {"app": "web", "tier": "1", "x.io/on": "", "n": "5"}


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "app=web", "app==web", "app = web", "app!=db", "missing!=db", "app in (web,db)", "app in(web)", "app notin (db)",
        "missing notin (db)", "app", "!missing", "x.io/on=", "x.io/on in ()", "x.io/on in (,a)", "app=web,tier=1,!missing",
        "n>4", "n<6", "app in (web),tier notin (2,3)", "! missing",
    ],
)  # fmt: skip
def test_matches(text: str) -> None:
    assert selectors.matches(selectors.labels(text), LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "app=db",
        "app!=web",
        "app in (db)",
        "app notin (web)",
        "missing",
        "!app",
        "app=",
        "app=web,tier=2",
        "n>5",
        "app>1",
        "m<1",
    ],
)
def test_does_not_match(text: str) -> None:
    assert not selectors.matches(selectors.labels(text), LABELS)


@pytest.mark.parametrize(
    "text",
    [
        ",", "app=web,", "app in", "app in (", "app in (a", "app in a", "=web", "a b", "app=we b", "app===web", "(a)",
        "app in (a b)", "app=not valid!", "-a=b", "app=" + "x" * 64, "n>x", "!", "a!b", "a notin", "app in (a,b))", ">1",
    ],
)  # fmt: skip
def test_is_no_selector(text: str) -> None:
    with pytest.raises(ApiError) as error:
        selectors.labels(text)
    assert error.value.code == 400
    assert "unable to parse requirement" in error.value.what


def test_fields() -> None:
    known = ("metadata.name", "spec.nodeName")
    selector = selectors.fields("metadata.name=a,spec.nodeName!=n1,,metadata.name==a", known)
    assert selectors.matches(selector, {"metadata.name": "a", "spec.nodeName": ""})
    assert not selectors.matches(selector, {"metadata.name": "a", "spec.nodeName": "n1"})
    assert selectors.fields(r"metadata.name=a\,b\=c", known)[0].values == ("a,b=c",)
    assert selectors.fields("", known) == ()


@pytest.mark.parametrize(("text", "custom"), [("spec.foo=1", False), ("spec.foo=1", True), ("metadata.name", False)])
def test_fields_that_are_not_known_are_refused(text: str, custom: bool) -> None:
    with pytest.raises(ApiError) as error:
        selectors.fields(text, ("metadata.name",), custom)
    assert error.value.code == 400
