"""--rule and --draft-stop where a user meets them: keyed text is the target's own, and wrong values are told in one line."""

import json

import pytest

from experiments.__main__ import main
from micro.checkpoint import save_model
from specdec.accept import RULES
from tests.byte_model import byte_model

TOKENS = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("options")
    save_model(path / "model", byte_model())
    rows = [("a", "lesson", "The attention"), ("b", "copy", "1, 2, 3\n"), ("c", "free", "é")]
    text = "".join(json.dumps({"id": i, "kind": k, "text": t}) + "\n" for i, k, t in rows)
    (path / "prompts.jsonl").write_text(text)
    return path


@pytest.fixture
def call(folder, capsys):
    """(exit code, stdout, stderr) of a command on the small model."""

    def run(command, *more):
        rest = {
            "generate": ["The attention", "--max-new-tokens", str(TOKENS)],
            "trace": ["--prompt", "The attention", "--max-new-tokens", str(TOKENS)],
            "identity": ["--prompt-set", str(folder / "prompts.jsonl"), "--tokens", "12", "--workers", "1"],
        }[command]  # fmt: skip
        try:
            code = main([command, *rest, "--model", str(folder / "model"), *more])
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize("temperature", ["0.5", "1", "1.5"])
def test_coupled_text_is_the_same_with_any_draft_and_none(call, temperature):
    options = ("-T", temperature, "--rule", "coupled", "--json", "--seed", "4")
    texts = []
    for draft, gamma in (("none", "4"), ("rtn4", "1"), ("rtn3", "7"), ("absmax2", "4")):
        result = json.loads(call("generate", *options, "--draft", draft, "--gamma", gamma)[1])
        texts.append(result["tokens"])
        assert draft == "none" or (result["identical"] is True and result["rule"] == "coupled")
    assert len(texts[0]) == TOKENS and texts.count(texts[0]) == 4
    other = json.loads(call("generate", *options[:-1], "5", "--draft", "none")[1])
    assert other["tokens"] != texts[0]


def test_match_draws_alone_and_is_not_compared(call):
    result = json.loads(call("generate", "-T", "1", "--rule", "match", "--json")[1])
    assert result["identical"] is None and result["rule"] == "match"
    assert "rule match, gamma 4" in call("generate", "-T", "1", "--rule", "match")[2]
    assert "rule block, gamma 4" in call("generate", "-T", "1")[2]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_can_be_traced(call, rule):
    code, out, _ = call("trace", "-T", "1", "--rule", rule, "--json")
    result = json.loads(out)
    assert code == 0 and result["rule"] == rule and result["rounds"]


def test_identity_compares_coupled_text_at_any_temperature(call):
    options = ("--rule", "coupled", "-T", "1", "--drafts", "rtn4,absmax2", "--gammas", "1,4")
    code, out, _ = call("identity", *options)
    assert code == 0
    assert "144 tokens of 12 texts (3 prompts, gamma 1, 4, T 1, rule coupled)" in out
    report = json.loads(call("identity", *options, "--json")[1])
    assert (report["rule"], report["temperature"], report["identical"]) == ("coupled", 1.0, True)


def test_identity_would_notice_a_draft_that_reaches_the_text(call, monkeypatch):
    """Were the draft's token emitted at a rejection, coupled texts would depend on the draft."""
    import specdec.accept
    from specdec.match import match_rule
    from specdec.proposal import Verdict

    def wrong(proposal, p, chance, position, room):
        real = match_rule(proposal, p, chance, position, room)
        if not real.rejected:
            return real
        return Verdict(real.kept, proposal.tokens[len(real.kept)], real.checked, True)

    monkeypatch.setitem(specdec.accept.RULES, "coupled", wrong)
    code, out, _ = call("identity", "--rule", "coupled", "-T", "1", "--drafts", "absmax2", "--gammas", "4")  # fmt: skip
    assert code == 1 and "fork: prompt" in out


@pytest.mark.parametrize("rule", ["token", "block", "match"])
def test_identity_refuses_what_no_rule_but_coupled_promises(call, rule):
    code, out, err = call("identity", "--rule", rule, "-T", "1")
    assert code == 2 and out == "" and err.count("\n") == 1
    assert f"--temperature 1 with --rule {rule}" in err and "--rule coupled" in err
    assert call("identity", "--rule", rule, "--drafts", "rtn3", "--gammas", "3")[0] == 0


def test_a_stop_shortens_rounds_and_leaves_the_text(call):
    whole, stopped = (
        json.loads(call("generate", "-T", "0", "--draft", "absmax2", "--gamma", "7", "--json", *more)[1])
        for more in ((), ("--draft-stop", "prob:0.99"))
    )  # fmt: skip
    assert stopped["tokens"] == whole["tokens"] and stopped["identical"] is True
    assert stopped["draft_stop"] == "prob:0.99" and whole["draft_stop"] is None
    traced = json.loads(call("trace", "-T", "1", "--gamma", "7", "--draft-stop", "entropy:0.1", "--json")[1])  # fmt: skip
    lengths = [len(one["drafted"]) for one in traced["rounds"]]
    assert min(lengths) < 7 and traced["costs"]["totals"]["draft_passes"] == sum(lengths)
    code, out, _ = call("identity", "--draft-stop", "prob:0.5", "--drafts", "rtn3", "--gammas", "5")
    assert code == 0 and "identical: yes" in out


@pytest.mark.parametrize("command", ["generate", "trace", "identity"])
@pytest.mark.parametrize(
    "option, value, fault",
    [
        ("--rule", "best", "--rule 'best' is unknown; there are token, block, match, coupled"),
        ("--draft-stop", "0.4", "--draft-stop '0.4' is no stop; write one of prob:P, entropy:NATS"),
        ("--draft-stop", "prob:2", "--draft-stop 'prob:2' is out of range"),
        (
            "--draft-stop",
            "entropy:x",
            "--draft-stop 'entropy:x' lacks its numbers; write entropy:NATS",
        ),
    ],
)
def test_wrong_values_are_told_in_one_line(call, command, option, value, fault):
    code, out, err = call(command, option, value)
    assert code == 2 and out == "" and fault in err and err.count("\n") == 1
