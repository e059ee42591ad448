from __future__ import annotations

from turngate.core.policy import Quirk, TurnPolicy


def test_an_upstream_is_strict_unless_it_names_what_it_tolerates() -> None:
    assert not any(TurnPolicy().accepts(quirk) for quirk in Quirk)
    policy = TurnPolicy(accept=frozenset({Quirk.MISSING_IDS}))
    assert [quirk for quirk in Quirk if policy.accepts(quirk)] == [Quirk.MISSING_IDS]
