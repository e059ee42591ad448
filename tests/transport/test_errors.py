from __future__ import annotations

from turngate.transport import errors


def test_every_error_has_a_reason_of_its_own_and_a_sentence() -> None:
    kinds = errors.UpstreamError.__subclasses__()
    assert len({kind.reason for kind in kinds}) == len(kinds) > 10
    assert all(str(kind()).endswith(".") for kind in kinds)


def test_a_detail_follows_the_sentence() -> None:
    error = errors.ConnectFailedError("api.example.test")
    assert str(error) == "The upstream refused the connection or cannot be reached. (api.example.test)"
