"""Closed forms against the tables of their source and of the course, to the printed digit."""

import pytest

from specdec.theory import (
    best_gamma,
    break_even_alpha,
    guaranteed_speed_up,
    operations_factor,
    speed_up,
    tokens_per_pass,
)

PREDICTED = [  # Leviathan, Kalman, Matias 2023, table 3: gamma, alpha, c, speed-up
    (7, 0.75, 0.02, 3.2),
    (7, 0.80, 0.04, 3.3),
    (7, 0.82, 0.11, 2.5),
    (7, 0.62, 0.02, 2.3),
    (5, 0.65, 0.02, 2.4),
    (5, 0.53, 0.02, 1.9),
]
ALPHAS = (0.90, 0.95, 0.97, 0.99)
BEST = {  # c: speed-up and gamma for each alpha, and the limit 1 / c
    4.5 / 16: ((1.95, 5), (2.28, 8), (2.49, 11), (2.87, 21), 3.6),
    4.25 / 16: ((2.01, 5), (2.37, 9), (2.60, 12), (3.02, 22), 3.8),
    3.5 / 16: ((2.26, 6), (2.71, 10), (3.01, 13), (3.55, 25), 4.6),
    4.5 / 32: ((2.88, 8), (3.62, 13), (4.15, 17), (5.13, 32), 7.1),
}


@pytest.mark.parametrize("gamma, alpha, c, want", PREDICTED)
def test_the_papers_predicted_column(gamma, alpha, c, want):
    assert round(speed_up(alpha, gamma, c), 1) == want


def test_the_papers_free_drafts():
    assert round(tokens_per_pass(0.8, 5), 2) == 3.69
    assert round(tokens_per_pass(0.9, 10), 2) == 6.86
    assert round(speed_up(0.2, 3, 0.0), 2) == 1.25  # a bigram


@pytest.mark.parametrize("c", BEST)
def test_best_speed_up_by_c_and_alpha(c):
    *columns, limit = BEST[c]
    for alpha, (want, at) in zip(ALPHAS, columns):
        gamma, value = best_gamma(alpha, c)
        assert (round(value, 2), gamma) == (want, at)
        assert value < 1 / c
    assert round(1 / c, 1) == limit
    assert speed_up(1.0, 10**5, c) == pytest.approx(1 / c, rel=1e-3)


def test_three_bits_beat_four_once_their_own_alpha_passes_903():
    four = best_gamma(0.95, 4.5 / 16)[1]
    assert best_gamma(0.902, 3.5 / 16)[1] < four < best_gamma(0.904, 3.5 / 16)[1]
    low, high = 0.8, 0.95
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if best_gamma(middle, 3.5 / 16)[1] < four else (low, middle)
    assert round(high, 3) == 0.903


def test_tokens_per_pass_at_its_ends_and_in_closed_form():
    for gamma in (0, 1, 4, 30):
        assert tokens_per_pass(0.0, gamma) == 1
        assert tokens_per_pass(1.0, gamma) == gamma + 1
        for alpha in (0.1, 0.5, 0.99):
            closed = (1 - alpha ** (gamma + 1)) / (1 - alpha)
            assert tokens_per_pass(alpha, gamma) == pytest.approx(closed, rel=1e-12)
    # next to 1 the quotient loses digits, the sum does not: (gamma + 1)(1 - gamma / 2 x 1e-12)
    assert tokens_per_pass(1 - 1e-12, 4) == pytest.approx(5 - 10e-12, abs=1e-14)


def test_guaranteed_speed_up_is_reached():
    for alpha in (0.3, 0.6, 0.9):
        for c in (0.05, 0.25, 0.5):
            assert best_gamma(alpha, c)[1] >= guaranteed_speed_up(alpha, c) - 1e-12
    assert guaranteed_speed_up(0.5, 0.25) == 1.2 and guaranteed_speed_up(0.2, 0.25) == 1.0


@pytest.mark.parametrize("gamma", [1, 2, 4, 10])
@pytest.mark.parametrize("c", [0.05, 0.28, 0.9])
def test_break_even_neither_pays_nor_costs(gamma, c):
    alpha = break_even_alpha(gamma, c)
    assert speed_up(alpha, gamma, c) == pytest.approx(1.0, rel=1e-12)
    assert speed_up(min(1.0, alpha + 0.01), gamma, c) > 1 > speed_up(alpha - 0.01, gamma, c)


def test_break_even_at_its_edges():
    assert break_even_alpha(1, 0.25) == pytest.approx(0.25)  # 1 + alpha = 1 + c
    assert break_even_alpha(4, 1.0) == pytest.approx(1.0)
    assert break_even_alpha(4, 0.0) == pytest.approx(0.0, abs=1e-12)
    assert break_even_alpha(4, 1.01) is None


def test_best_gamma_drafts_nothing_where_nothing_pays():
    assert best_gamma(0.2, 0.3) == (0, 1.0)
    assert best_gamma(0.25, 0.25) == (0, 1.0)  # a tie: drafting nothing wins it
    assert best_gamma(0.9, 0.1, most=3)[0] == 3


def test_dearer_rows_shorten_the_draft_and_an_overhead_lengthens_it():
    free = best_gamma(0.9, 0.28)
    dear = best_gamma(0.9, 0.28, w=lambda rows: 1 + 0.1 * (rows - 1))
    late = best_gamma(0.9, 0.28, overhead=0.5)
    assert dear[0] < free[0] < late[0]  # paid once a round: fewer rounds
    assert max(dear[1], late[1]) < free[1]
    assert speed_up(0.9, 4, 0.28, w=1.5, overhead=0.1) == pytest.approx(
        tokens_per_pass(0.9, 4) / (1.5 + 4 * 0.28 + 0.1)
    )


def test_operations_grow():
    for alpha, gamma, c_hat in ((0.8, 5, 0.1), (0.5, 3, 1.0)):
        want = (1 - alpha) * (gamma * c_hat + gamma + 1) / (1 - alpha ** (gamma + 1))
        assert operations_factor(alpha, gamma, c_hat) == pytest.approx(want, rel=1e-12)
    # a quantized copy that is always right: 4 + 5 rows for 5 tokens
    assert operations_factor(1.0, 4, 1.0) == 9 / 5


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: tokens_per_pass(1.2, 3), "alpha must lie in 0 ... 1, not 1.2"),
        (lambda: tokens_per_pass(float("nan"), 3), "alpha"),
        (lambda: tokens_per_pass(0.5, -1), "gamma must be 0 or above"),
        (lambda: speed_up(0.5, 3, -0.1), "c must be 0 or above"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
