"""Peers in processes of their own, timed in alternation with ours."""

import sys
import time

import pytest

from benchmarks import compare
from benchmarks.contests import CONTESTS
from benchmarks.peers import install, process
from benchmarks.peers.process import Peer, PeerError, Task

STUB = """
import time
from benchmarks.peers.inside.child import one_by_one, serve

print("what a library says while it is imported")

def build(task):
    print("what a library says")  # is no answer
    def step(index):
        {step}
    return 3, one_by_one(step)

serve(build, ("pytest",))
"""


@pytest.fixture
def stub(tmp_path):
    """A function that starts a child whose step does as told."""
    peers = []

    def start(step):
        file = tmp_path / f"stub{len(peers)}.py"
        file.write_text(STUB.format(step=step))
        peers.append(Peer(Task("stub", "a game"), [sys.executable, str(file)]))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of environments in which every peer is this interpreter."""
    monkeypatch.setattr(process, "HOME", tmp_path)

    def installed(name):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "installed").touch()
        python = tmp_path / name / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)

    return installed


def test_a_child_times_its_own_steps(stub):
    peer = stub("time.sleep(0.01)").ready()
    assert set(peer.versions) == {"pytest"}
    assert peer.agents == 3
    assert 0.01 <= peer.turn(5) < 1
    assert 0.01 <= peer.turn(1) < 1


def test_a_child_that_fails_says_why(stub):
    peer = stub("assert index < 3, 'no fourth step'").ready()
    peer.turn(1)
    with pytest.raises(PeerError, match="stub, a game: ended: AssertionError: no fourth step"):
        peer.turn(5)


def test_a_child_that_does_not_start_says_why(stub):
    with pytest.raises(PeerError, match="ended: NameError: name 'nothing' is not defined"):
        stub("nothing").ready()


def test_a_peer_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "HOME", tmp_path)
    with pytest.raises(PeerError, match="vmas is not installed: make bench-peers"):
        Peer(Task("vmas", "simple_tag"))


def test_turns_alternate():
    """Every other round in reversed order; a player's own clock counts."""
    turns = []

    class Player:
        pid = None

        def __init__(self, name, seconds):
            self.name, self.seconds = name, seconds

        def turn(self, count):
            turns.append((self.name, count))
            return self.seconds

    subjects = {"a": Player("a", 0.002), "b": Player("b", 0.001), "function": lambda: time.sleep(0.001)}
    played = compare.alternate(subjects, 4, 0.01, 0.0, patience=1)
    assert turns[-8:] == [("b", 10), ("a", 5), ("a", 5), ("b", 10)] * 2
    assert all(len(samples) == 4 for samples in played.seconds.values())
    assert played.ratio("a", "b").median == 2
    assert min(played.seconds["function"]) >= 0.001


def test_cpu_time_of_a_child_is_counted(stub):
    """Else a peer's own work would count as noise, and no round as quiet."""
    peer = stub("sum(range(100_000))").ready()
    before = compare._Usage.now((peer.pid,))
    peer.turn(200)
    after = compare._Usage.now((peer.pid,))
    alone = compare._Usage.now()
    assert after.own - before.own > 0.1
    assert after.own - alone.own > 0.1


@pytest.mark.parametrize(
    ("task", "agents"),
    [
        (Task("gymnasium", "CartPole-v1", 4), 1),
        (Task("mpe2", "simple_tag_v3", options={"max_cycles": 5}), 4),
        (Task("openspiel", "leduc_poker", options={"players": "loop with observations"}), 2),
        (Task("openspiel", "leduc_poker", options={"players": "bots"}), 2),
    ],
    ids=lambda value: getattr(value, "peer", None),
)
def test_peers_that_are_here_anyway_play(home, task, agents):
    home(task.peer)
    peer = Peer(task)
    try:
        assert peer.ready().agents == agents
        assert 0 < peer.turn(20) < 1
    finally:
        peer.close()


def test_every_peer_has_a_file_of_requirements_and_one_that_plays():
    tasks = [entrant.what for contest in CONTESTS for heat in contest.heats for entrant in heat.entrants]
    tasks = [task for task in tasks if isinstance(task, Task)]
    assert {task.peer for task in tasks} == set(install.NAMES)
    for task in tasks:
        assert (install.HERE / "inside" / f"{task.module or task.peer}.py").exists()
    for name in install.NAMES:
        lines = (install.HERE / f"{name}.txt").read_text().splitlines()
        assert all("==" in line for line in lines), f"{name}.txt: exact versions only"


def test_goals_name_who_takes_part():
    for contest in CONTESTS:
        assert len({heat.title for heat in contest.heats}) == len(contest.heats)
        for heat in contest.heats:
            names = [entrant.name for entrant in heat.entrants]
            assert len(set(names)) == len(names)
            assert set(heat.goals) <= set(names[1:])


def test_installing(tmp_path, monkeypatch, capsys):
    """What is there stays; what fails is reported and stops nobody else."""
    monkeypatch.setattr(install, "HOME", tmp_path)
    monkeypatch.setattr(process, "HOME", tmp_path)
    (tmp_path / "gymnasium").mkdir()
    (tmp_path / "gymnasium" / "installed").write_text((install.HERE / "gymnasium.txt").read_text())
    made = []

    def failing(command, **_):
        made.append(command)
        return install.subprocess.CompletedProcess(command, 1, "", "first line\nno such version\n")

    monkeypatch.setattr(install.subprocess, "run", failing)
    assert install.main(["mpe2", "gymnasium"]) == 0
    assert capsys.readouterr().out == "mpe2: FAILED: no such version\ngymnasium: is there\n"
    assert len(made) == 1
    assert install.main(["mpe2"]) == 1
    assert install.main(["mpe3"]) == 2
    assert capsys.readouterr().err.startswith("no peer mpe3; there are ")
