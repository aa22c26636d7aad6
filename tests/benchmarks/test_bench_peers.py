"""Other libraries in separate processes, timed in alternation with gpu-envs."""

import importlib.util
import sys
import time

import pytest

from benchmarks.peers import install, process
from benchmarks.peers.process import Peer, PeerError, PeerTask
from benchmarks.throughput import timing
from benchmarks.throughput.cases import Case
from benchmarks.throughput.comparisons import COMPARISONS, MICROSECONDS
from benchmarks.throughput.contenders import PPOSubject

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
    """Return a function that starts a child process whose step runs the given code."""
    peers = []

    def start(step, **task):
        file = tmp_path / f"stub{len(peers)}.py"
        file.write_text(STUB.format(step=step))
        peers.append(Peer(PeerTask("stub", "a game", **task), [sys.executable, str(file)]))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a function that makes this interpreter the environment of a peer."""
    monkeypatch.setattr(process, "HOME", tmp_path)

    def installed(name):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "installed").touch()
        python = tmp_path / name / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)

    return installed


def test_child_process_times_its_own_steps(stub):
    peer = stub("time.sleep(0.01)").ready()
    assert set(peer.versions) == {"pytest"}
    assert peer.agents == 3
    for count in (5, 1):
        begin = time.perf_counter()
        seconds = peer.turn(count)
        assert 0.01 <= seconds <= (time.perf_counter() - begin) / count


def test_failing_child_reports_its_error(stub):
    peer = stub("assert index < 3, 'no fourth step'").ready()
    peer.turn(1)
    with pytest.raises(PeerError, match="stub, a game: ended: AssertionError: no fourth step"):
        peer.turn(5)
    with pytest.raises(PeerError, match="ended: NameError: name 'nothing' is not defined"):
        stub("nothing").ready()


class Player:
    """A contender that records its turns and can fail."""

    pid = None

    def __init__(self, name, seconds, turns, fails_at=None):
        self.name, self.seconds, self.turns, self.fails_at = name, seconds, turns, fails_at

    def turn(self, count):
        self.turns.append((self.name, count))
        if sum(name == self.name for name, _ in self.turns) == self.fails_at:
            raise PeerError(f"{self.name} ended")
        return self.seconds


@pytest.mark.parametrize("fails_at", [1, 3, 5])
def test_failing_contender_does_not_stop_the_others(fails_at):
    """It fails in the warm-up or later; the samples of the others are kept."""
    turns = []
    subjects = {"a": Player("a", 0.01, turns), "b": Player("b", 0.01, turns, fails_at), "c": Player("c", 0.02, turns)}
    played = timing.alternate(subjects, 4, 0.01, 0.0, patience=1)
    assert played.lost == {"b": "b ended"}
    assert {name: len(samples) for name, samples in played.seconds.items()} == {"a": 4, "c": 4}
    assert len(played.disturbance) == 4
    assert [name for name, _ in turns].count("b") == fails_at


def test_round_continues_without_a_peer_that_dies(stub):
    """The process and its CPU time may be gone when the next samples are judged."""
    dies = stub("assert index < 5, 'tired'; time.sleep(0.005)").ready()
    played = timing.alternate({"dies": dies, "survives": lambda: time.sleep(0.001)}, 6, 0.02, 0.01, patience=1)
    assert played.lost == {"dies": "stub, a game: ended: AssertionError: tired"}
    assert len(played.seconds["survives"]) == 6
    assert timing._used_by(dies.pid) == 0.0


def test_hanging_child_is_killed(stub, monkeypatch):
    """Otherwise it would take CPU time from the other contenders."""
    peer = stub("time.sleep(60 * index)").ready()
    monkeypatch.setattr(process, "PATIENCE", 0.2)
    with pytest.raises(PeerError, match="has not answered for 0 s"):
        peer.turn(1)
    assert peer._process.wait(10.0) < 0


def test_child_runs_on_its_cores_only(stub):
    """XLA starts one thread per available core and ignores OMP_NUM_THREADS."""
    peer = stub("import os; assert len(os.sched_getaffinity(0)) == 1", threads=1).ready()
    peer.turn(1)


def test_missing_peer_raises_with_install_command(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "HOME", tmp_path)
    with pytest.raises(PeerError, match="vmas is not installed: make bench-peers"):
        Peer(PeerTask("vmas", "simple_tag"))


def test_turns_alternate():
    """Every other round in reversed order; a player's own clock counts."""
    turns = []
    subjects = {"a": Player("a", 0.002, turns), "b": Player("b", 0.001, turns), "function": lambda: time.sleep(0.001)}
    played = timing.alternate(subjects, 4, 0.01, 0.0, patience=1)
    assert turns[-8:] == [("b", 10), ("a", 5), ("a", 5), ("b", 10)] * 2
    assert all(len(samples) == 4 for samples in played.seconds.values())
    assert played.ratio("a", "b").median == 2
    assert min(played.seconds["function"]) >= 0.001


def test_cpu_time_of_a_child_is_counted(stub):
    """Else a peer's own work would count as noise, and no round as quiet."""
    peer = stub("sum(range(100_000))").ready()
    start = timing._Usage.now((peer.pid,))
    peer.turn(200)
    after = timing._Usage.now((peer.pid,))
    alone = timing._Usage.now()
    assert after.measured - start.measured > 0.1
    assert after.measured - alone.measured > 0.1


@pytest.mark.parametrize(
    ("task", "agents"),
    [
        (PeerTask("gymnasium", "CartPole-v1", 4), 1),
        (PeerTask("gymnasium", "CartPole-v1", options={"vector": False}), 1),
        (PeerTask("mpe2", "simple_tag_v3", options={"max_cycles": 5}), 4),
        (PeerTask("openspiel", "leduc_poker", options={"players": "loop with observations"}), 2),
        (PeerTask("openspiel", "leduc_poker", options={"players": "bots"}), 2),
    ],
    ids=lambda value: getattr(value, "peer", None),
)
def test_peers_with_installed_requirements_run(home, task, agents):
    home(task.peer)
    peer = Peer(task)
    try:
        assert peer.ready().agents == agents
        assert 0 < peer.turn(20) < 1
    finally:
        peer.close()


def test_every_peer_has_requirements_and_a_module():
    tasks = [
        contender.workload
        for comparison in COMPARISONS
        for round_ in comparison.rounds
        for contender in round_.contenders
    ]
    tasks = [task for task in tasks if isinstance(task, PeerTask)]
    assert {task.peer for task in tasks} == set(install.NAMES)
    for task in tasks:
        assert importlib.util.find_spec(task.module or f"benchmarks.peers.inside.{task.peer}") is not None
    for name in install.NAMES:
        lines = (install.HERE / f"{name}.txt").read_text().splitlines()
        packages = [line for line in lines if not install.NEWER.fullmatch(line)]
        assert packages
        assert all("==" in line for line in packages), f"{name}.txt: exact versions only"


ROUNDS = [
    pytest.param(comparison, round_, id=f"{comparison.id}, {round_.title}")
    for comparison in COMPARISONS
    for round_ in comparison.rounds
]


@pytest.mark.parametrize(("comparison", "round_"), ROUNDS)
def test_targets_name_contenders_of_their_round(comparison, round_):
    assert [other.title for other in comparison.rounds].count(round_.title) == 1
    names = [contender.name for contender in round_.contenders]
    assert len(set(names)) == len(names)
    assert set(round_.goals) <= set(names[1:])
    assert set(round_.alone) <= {comparison.unit, MICROSECONDS}


@pytest.mark.parametrize(("comparison", "round_"), ROUNDS)
def test_round_compares_equal_workloads(comparison, round_):
    """All contenders of gpu-envs have equal worlds; a peer has as many or one, and no contender has more cores."""
    cases = [contender.workload for contender in round_.contenders if isinstance(contender.workload, Case)]
    tasks = [contender.workload for contender in round_.contenders if isinstance(contender.workload, PeerTask)]
    learners = [contender.workload for contender in round_.contenders if isinstance(contender.workload, PPOSubject)]
    assert len({(case.env_id, case.num_envs, case.agents, case.threads, str(case.config)) for case in cases}) <= 1
    if not learners:  # how many worlds a training takes is a setting of it
        assert {task.worlds for task in tasks} <= {1, *(case.num_envs for case in cases)}
    assert all(task.threads <= case.threads for task in tasks for case in cases)
    assert all(task.threads == case.threads for task in tasks for case in cases if task.worlds == case.num_envs)
    if tasks:
        assert {task.threads for task in tasks} >= {learner.threads for learner in learners}


def test_install_keeps_present_and_reports_failed_libraries(tmp_path, monkeypatch, capsys):
    """Present libraries stay; a failure is reported and the other installations continue."""
    monkeypatch.setattr(install, "HOME", tmp_path)
    monkeypatch.setattr(process, "HOME", tmp_path)
    (tmp_path / "gymnasium").mkdir()
    (tmp_path / "gymnasium" / "installed").write_text((install.HERE / "gymnasium.txt").read_text())
    commands = []

    def failing(command, **_):
        commands.append(command)
        return install.subprocess.CompletedProcess(command, 1, "", "first line\nno such version\n")

    monkeypatch.setattr(install.subprocess, "run", failing)
    assert install.main(["mpe2", "gymnasium"]) == 0
    assert capsys.readouterr().out == "mpe2: FAILED: no such version\ngymnasium: is there\n"
    assert len(commands) == 1
    assert install.main(["mpe2"]) == 1
    assert install.main(["mpe3"]) == 2
    assert capsys.readouterr().err.startswith("no peer mpe3; there are ")


def test_newer_python_is_used_only_if_it_runs(tmp_path, monkeypatch):
    """A shim of pyenv is on the path even if its version is not selected."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "version_info", (3, 11))
    assert install.interpreter("envpool==1.2.8") == sys.executable
    assert install.interpreter("# python: 3.12 or newer\n") == sys.executable
    for minor, code in ((12, 127), (13, 0)):
        shim = tmp_path / f"python3.{minor}"
        shim.write_text(f"#!/bin/sh\nexit {code}\n")
        shim.chmod(0o755)
    assert install.interpreter("# python: 3.12 or newer\n") == str(tmp_path / "python3.13")
    assert install.interpreter("# python: 3.11 or newer\n") == sys.executable
