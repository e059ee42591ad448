"""What tenants use, counted."""

from __future__ import annotations

from turngate.access.allowance import MAX_REMEMBERED, OwnAllowances
from turngate.config.access import TenantConfig


def taken(allowances: OwnAllowances, name: str, tenant: TenantConfig, now: float) -> bool:
    denial = allowances.take(name, tenant, now)
    if denial is None:
        allowances.leave(name, tenant)
    return denial is None


def test_an_allowance_refills_evenly_and_never_beyond_a_minutes_worth() -> None:
    allowances, tenant = OwnAllowances(), TenantConfig(requests_per_minute=6)

    def admitted(now: float, asked: int) -> int:
        return sum(taken(allowances, "a", tenant, now) for _ in range(asked))

    assert admitted(1000.0, 10) == 6
    assert admitted(1005.0, 10) == 0
    assert admitted(1010.0, 10) == 1
    assert admitted(1010.0 + 3600, 10) == 6


def test_requests_under_way_are_counted_until_they_leave() -> None:
    allowances, tenant = OwnAllowances(), TenantConfig(turns=2)
    assert [allowances.take("a", tenant, 0.0) is None for _ in range(3)] == [True, True, False]
    assert allowances.take("b", tenant, 0.0) is None
    allowances.leave("a", tenant)
    assert allowances.take("a", tenant, 0.0) is None


def test_names_that_clients_choose_do_not_pile_up() -> None:
    allowances, tenant = OwnAllowances(), TenantConfig(requests_per_minute=5)
    for number in range(MAX_REMEMBERED + 100):
        taken(allowances, f"t{number}", tenant, 1000.0 + 60 * (number // 1000))
    assert len(allowances) <= MAX_REMEMBERED


def test_a_tenant_without_limits_leaves_nothing_behind() -> None:
    allowances, tenant = OwnAllowances(), TenantConfig()
    assert taken(allowances, "a", tenant, 0.0)
    assert len(allowances) == 0
