"""What a node is to be sent, as one sum."""

from sapo_client.duties.funding import Need, rounded_up

COIN = 10**18


def test_one_sum_with_what_it_is_for() -> None:
    need = Need(bond=COIN, gas=COIN // 10, price=15 * 10**8, held=0)
    assert need.words == "1.1 coins: 1 for the bond and 0.1 for the gas of 100 rounds at 1.5 gwei"
    assert need.missing == need.total == COIN + COIN // 10


def test_what_is_there_is_taken_off_and_what_is_enough_is_nothing() -> None:
    need = Need(bond=0, gas=COIN, price=10**9, held=COIN // 4)
    assert need.words == "0.75 coins: 1 for the gas of 100 rounds at 1 gwei, less the 0.25 that are there"
    assert Need(bond=COIN, gas=COIN, price=1, held=3 * COIN).missing == 0


def test_an_estimate_has_three_digits_and_is_never_too_low() -> None:
    for wei in (0, 1, 999, 1000, 1001, 123_456_789, 999_999):
        assert rounded_up(wei) >= wei
        assert len(str(rounded_up(wei)).rstrip("0")) <= 3
    assert rounded_up(123_456_789) == 124_000_000
