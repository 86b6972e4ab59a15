"""The stream of tokens that both sides read."""

from __future__ import annotations

from app.bench.tokens import token_ids


def test_a_piece_of_the_stream_does_not_depend_on_where_reading_began() -> None:
    assert token_ids(0, 100, 5000)[40:60] == token_ids(40, 20, 5000)


def test_ids_are_in_the_vocabulary_and_spread_over_it() -> None:
    ids = token_ids(0, 2000, 300)
    assert (min(ids), max(ids)) == (0, 299)
    assert len(set(ids)) == 300
