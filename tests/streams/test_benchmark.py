import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.errors import MetadriftError, UsageError
from metadrift.streams.benchmark import benchmark_names, load_benchmark, open_packs

PAPER = {
    "paper": [5000, 2000, 6000, 2000, 2000, 24000],
    "builtin": [5000, 2000, 6000, 2000, 2000, 24000],
    "paper-order1": [3000, 2000, 4000, 2000, 4000, 40000],
    "paper-order2": [6000, 2000, 6000, 3000, 3000, 24000],
    "paper-ratios": [4000, 4000, 3000, 4000, 4000, 22000],
    "paper-revisit": [5000, 2000, 6000, 2000, 3000, 2000, 24000],
    "paper-three": [2000, 6000, 2000],
    "builtin-order1": [3000, 2000, 4000, 2000, 4000, 40000],
    "builtin-order2": [6000, 2000, 6000, 3000, 3000, 24000],
    "builtin-ratios": [4000, 4000, 3000, 4000, 4000, 22000],
    "builtin-revisit": [5000, 2000, 6000, 2000, 3000, 2000, 24000],
    "builtin-three": [2000, 6000, 2000],
}
TWO = '[[segments]]\ndomain = "a"\nsteps = 11\n[[segments]]\ndomain = "b"\nsteps = 9\n'
STAND_INS = {
    "quickdraw": "sketches",
    "miniimagenet": "textures",
    "omniglot": "glyphs",
    "cub": "creatures",
    "aircraft": "silhouettes",
    "necessities": "badges",
}


@pytest.mark.parametrize("name", PAPER)
def test_the_shipped_benchmarks_have_the_lengths_of_the_paper(name):
    benchmark = load_benchmark(name)
    assert [s.steps for s in benchmark.segments] == PAPER[name]
    assert (benchmark.memory, benchmark.tasks_per_step) == (300, 2)


def test_every_shipped_benchmark_is_known_by_name():
    assert set(benchmark_names()) == {*PAPER, "builtin-uneven"}


@pytest.mark.parametrize("name", [name for name in PAPER if name.startswith("paper")])
def test_every_benchmark_of_the_paper_has_a_twin_of_built_in_domains(name):
    real, twin = load_benchmark(name), load_benchmark(name.replace("paper", "builtin"))
    assert twin.packs == "builtin"
    assert [STAND_INS[s.domain] for s in real.segments] == [s.domain for s in twin.segments]


def test_scale_shrinks_steps_and_memory_together_and_keeps_two_batches_a_domain():
    small = load_benchmark("paper").scaled(0.01)
    assert [s.steps for s in small.segments] == [50, 20, 60, 20, 20, 240]
    assert small.memory == 12
    for wrong in (0, -1, 1.5, float("nan")):
        with pytest.raises(UsageError, match="--scale"):
            load_benchmark("paper").scaled(wrong)


def test_a_domain_visited_twice_trains_alone_for_all_its_steps():
    alone = load_benchmark("paper-revisit").only("quickdraw")
    assert [(s.domain, s.steps) for s in alone.segments] == [("quickdraw", 8000)]


def test_a_benchmark_of_ones_own_finds_its_packs_beside_the_file(tmp_path, packs):
    text = f'memory = 5\n[[segments]]\ndomain = "mine"\nsteps = 3\npack = "{packs["low"].path}"\n'
    (tmp_path / "mine.toml").write_text(text)
    benchmark = load_benchmark(str(tmp_path / "mine.toml"))
    assert (benchmark.name, benchmark.memory, benchmark.steps) == ("mine", 5, 3)
    assert open_packs(benchmark)["mine"].name == "low"


def test_visits_interleave_the_domains_and_a_blend_shrinks_with_the_scale(tmp_path):
    file = tmp_path / "rounds.toml"
    file.write_text("visits = 2\n" + TWO + "blend = 4")
    rounds = load_benchmark(str(file))
    stays = [(s.domain, s.steps, s.blend) for s in rounds.segments]
    assert stays == [("a", 6, 0), ("b", 5, 4), ("a", 5, 0), ("b", 4, 4)]
    file.write_text(rounds.to_toml())
    assert load_benchmark(str(file)).segments == rounds.segments
    assert [str(s) for s in rounds.scaled(0.5).segments[:2]] == ["a 3", "b 2 (blend 2)"]


def test_packs_of_different_size_are_refused(tmp_path, packs):
    import numpy as np

    from metadrift.data.pack import write_pack

    rows = [("c", "train", np.zeros((2, 16, 16, 1), np.uint8))]
    write_pack(tmp_path / "big", "big", rows, source="", licence="")
    text = "".join(
        f'[[segments]]\ndomain = "{name}"\nsteps = 3\npack = "{path}"\n'
        for name, path in [("a", packs["low"].path), ("b", tmp_path / "big")]
    )
    (tmp_path / "mixed.toml").write_text(text)
    with pytest.raises(MetadriftError, match="a: grey pictures of 8 px, b: grey pictures of 16 px"):
        open_packs(load_benchmark(str(tmp_path / "mixed.toml")))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"b\.toml needs 'segments'"),
        ("segments = []", "segments must be a list of at least 1"),
        ("[[segments]]\nsteps = 3", "segments 1 needs 'domain'"),
        ('[[segments]]\ndomain = "a"\nsteps = 0', "segments 1: steps must be at least 1, not 0"),
        ('[[segments]]\ndomain = "a"\nsteps = true', "steps must be a whole number, not true"),
        ('[[segments]]\ndomain = "a"\nstep = 100', "no setting 'step'; did you mean 'steps'"),
        ('memory = "big"\n[[segments]]\ndomain = "a"\nsteps = 3', "memory must be"),
        ('packs = "web"\n[[segments]]\ndomain = "a"\nsteps = 3', "packs must be"),
        ('[[segments]]\ndomain = "a"\nsteps = 9\nblend = 3', "segments 1: blend needs a domain"),
        (TWO + "blend = 10", "segments 2: blend must be at most the 9 steps of a stay, not 10"),
        ("visits = 10\n" + TWO, "segments 2: 9 steps cannot be divided into 10 visits"),
        ("speed = 3", "there is no setting 'speed'"),
        ("a = = b", "cannot be read as TOML"),
    ],
)
def test_a_wrong_benchmark_file_gets_one_sentence(tmp_path, text, says):
    (tmp_path / "b.toml").write_text(text)
    with pytest.raises(MetadriftError, match=says):
        load_benchmark(str(tmp_path / "b.toml"))


@settings(deadline=None)
@pytest.mark.slow
@given(st.text(max_size=200))
def test_any_text_is_a_benchmark_or_a_clear_error(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("fuzz") / "b.toml"
    file.write_text(text, encoding="utf-8", errors="ignore")
    with pytest.raises(MetadriftError):
        load_benchmark(str(file))


def test_an_unknown_benchmark_is_answered_with_the_known_ones():
    with pytest.raises(MetadriftError, match="builtin-three, builtin-uneven, paper, paper-order1"):
        load_benchmark("nonsense")
