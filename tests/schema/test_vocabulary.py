"""The keyword tables agree with the published meta-schemas."""

from __future__ import annotations

import pytest
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from turngate.schema.vocabulary import KEYWORDS, Draft, declared_draft

PUBLISHED = {
    Draft.DRAFT_07: ["http://json-schema.org/draft-07/schema"],
    Draft.DRAFT_2020_12: [
        f"https://json-schema.org/draft/2020-12/meta/{name}"
        for name in (
            "core",
            "applicator",
            "unevaluated",
            "validation",
            "meta-data",
            "format-assertion",
            "content",
        )
    ],
}
ALSO_ALLOWED = {Draft.DRAFT_07: {"deprecated", "writeOnly"}, Draft.DRAFT_2020_12: {"definitions"}}
LEFT_OUT = {Draft.DRAFT_07: set(), Draft.DRAFT_2020_12: {"$vocabulary"}}


@pytest.mark.parametrize("draft", Draft)
def test_exactly_the_keywords_of_the_meta_schemas_are_known(draft: Draft) -> None:
    published = {keyword for uri in PUBLISHED[draft] for keyword in REGISTRY.contents(uri)["properties"]}
    assert set(KEYWORDS[draft]) == (published | ALSO_ALLOWED[draft]) - LEFT_OUT[draft]


@pytest.mark.parametrize(
    ("uri", "draft"),
    [
        ("http://json-schema.org/draft-07/schema#", Draft.DRAFT_07),
        ("http://json-schema.org/draft-07/schema", Draft.DRAFT_07),
        ("https://json-schema.org/draft-07/schema#", Draft.DRAFT_07),
        ("https://json-schema.org/draft/2020-12/schema", Draft.DRAFT_2020_12),
        ("http://json-schema.org/draft/2020-12/schema#", Draft.DRAFT_2020_12),
        ("https://json-schema.org/draft/2019-09/schema", None),
        ("http://json-schema.org/draft-06/schema#", None),
        ("http://json-schema.org/draft-04/schema#", None),
        ("http://json-schema.org/schema#", None),
        ("ftp://json-schema.org/draft-07/schema#", None),
        ("https://example.test/schema", None),
        (7, None),
    ],
)
def test_a_draft_is_known_by_its_uri_in_either_spelling(uri: object, draft: Draft | None) -> None:
    assert declared_draft({"$schema": uri}) is draft


def test_no_declared_draft_means_2020_12() -> None:
    assert declared_draft({}) is Draft.DRAFT_2020_12
    assert declared_draft(True) is Draft.DRAFT_2020_12
