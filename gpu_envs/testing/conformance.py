"""Bitwise comparisons of two runs of an environment, as a part of :func:`gpu_envs.check_env`.

They cover seeds, worlds, schedules, autoreset modes, copies, saved state and random rollouts.
"""

import torch

from gpu_envs.errors import CheckpointError, ConformanceError
from gpu_envs.runtime.core import Core
from gpu_envs.testing import phase_diagnosis
from gpu_envs.testing.reference_checks import LIMIT, RESULTS, SEED, STEPS, Step, Subject, play


def check_seeds(subject: Subject) -> None:
    """Check that equal seeds give equal trajectories, in a new core and in a used one."""
    first, second = subject.core(), subject.core()
    for t, (left, right) in enumerate(zip(play(first), play(second), strict=True)):
        subject.alike(left, right, "equal seeds give equal trajectories", t)
    for t, (left, right) in enumerate(zip(play(subject.core(), 2 * LIMIT), play(second, 2 * LIMIT, SEED), strict=True)):
        subject.alike(left, right, "reset(seed) starts the same episodes, whatever was played before", t)


def check_worlds(subject: Subject) -> None:
    """Check that a world plays equally alone and in a batch.

    Raises:
        ConformanceError: It does not; names the step, what differs, and the phase that depends on other worlds.
    """
    batch, last = subject.core(), subject.worlds - 1
    alone = {world: subject.core(1, env_offset=world) for world in sorted({0, min(1, last), last})}
    for core in (batch, *alone.values()):
        core.reset()
    for t in range(subject.whole_steps + 1):
        if t > 0:
            _play_unchecked(batch, *alone.values())
        many = batch._buffers.saved_tensors()
        for world, core in alone.items():
            mine = {_display_name(name): value[world : world + 1] for name, value in many.items()}
            theirs = {_display_name(name): value for name, value in core._buffers.saved_tensors().items()}
            try:
                subject.alike(theirs, mine, f"world {world} plays the same alone and among many", t)
            except ConformanceError as error:
                reason = phase_diagnosis.find_env_dependence(subject, world, t)
                raise ConformanceError(f"{error}; {reason}" if reason else str(error)) from None


def check_schedules(subject: Subject) -> str:
    """Check that fused and phased schedules agree, and siblings in every order."""
    player, fused = phase_diagnosis.PhasePlayer(subject), subject.core(schedule="fused")
    fused.reset()
    for t in range(subject.whole_steps + 1):
        if t > 0:
            player.step(t)
            _play_unchecked(fused)
        left, right = (core._buffers.saved_tensors() for core in (fused, player.core))
        left, right = ({_display_name(name): value for name, value in state.items()} for state in (left, right))
        subject.alike(left, right, "fused and phased schedules agree", t)
    idle = [name for name, count in player.changes.items() if count == 0]
    return f"phases that changed nothing: {', '.join(idle)}" if idle else "every phase changed something"


def _play_unchecked(*cores: Core) -> None:
    """Play a step of random actions; illegal ones, from masks that allow none, raise no error."""
    for core in cores:
        core.sample_actions()
        core._launcher.run("step")


def _display_name(name: str) -> str:
    """Return the name of an entry of a state for a message."""
    return name.removeprefix("io.").replace("state.", "State.", 1)


def check_autoreset(subject: Subject) -> None:
    """Check that SAME_STEP and NEXT_STEP play as DISABLED with manual resets does."""
    hand, same = subject.core(autoreset="disabled"), subject.core(autoreset="same_step")
    promise = "SAME_STEP is DISABLED with resets by hand"
    obs, _ = hand.reset()
    subject.alike({"obs": obs}, {"obs": same.reset()[0]}, promise, 0)
    for t in range(1, STEPS + 1):
        action = hand.sample_actions()
        left, right = (dict(zip(RESULTS, core.step(action)[:4], strict=True)) for core in (hand, same))
        done = left["terminated"] | left["truncated"]
        subject.nowhere((hand.final_obs != same.final_obs).any(2) & done, promise, t, "final_obs")
        over, valid = ~hand.alive.any(1), hand.valid.clone()
        left["obs"], info = hand.reset(reset_mask=over)
        subject.alike(left, right, promise, t)
        fresh = {"alive": hand.alive | over[:, None], "valid": valid & ~over[:, None]}
        subject.alike(fresh, info, "a reset world is all alive and not valid, the others stay as they are", t)
    promise = "NEXT_STEP is SAME_STEP with a reset step after each episode"
    same_story, next_story = (_story(subject, mode) for mode in ("same_step", "next_step"))
    for left_world, right_world in zip(same_story, next_story, strict=True):
        for t, (left, right) in enumerate(zip(left_world, right_world, strict=False)):
            subject.alike(left, right, promise, t + 1)


def _story(subject: Subject, mode: str) -> list[list[Step]]:
    """Return the steps of every world without reset steps."""
    worlds: list[list[Step]] = [[] for _ in range(subject.worlds)]
    for t, step in enumerate(play(subject.core(autoreset=mode))):
        if t == 0:
            continue
        for world, story in enumerate(worlds):
            now = {name: step[name][world : world + 1] for name in ("action", *RESULTS[1:], "final_obs")}
            if step["valid"][world].any():
                story.append(now)
            else:
                location = f"step {t}, world {world}"
                silent = not any(now[name].any() for name in RESULTS[1:])
                subject.demand(silent, "a reset step has reward 0 and no end", location)
                subject.demand(step["alive"][world].all(), "all agents are alive after a reset step", location)
    return worlds


def check_copies(subject: Subject) -> None:
    """Check that later steps leave earlier results unchanged."""
    core = subject.core()
    steps = list(play(core, 3))
    copies = [{name: value.clone() for name, value in step.items()} for step in steps]
    for _ in range(LIMIT):
        core.step(core.sample_actions())
    for t, (left, right) in enumerate(zip(steps, copies, strict=True)):
        subject.alike(left, right, "results survive later steps", t)


def check_state(subject: Subject) -> None:
    """Check that every state is within its ranges, and a restored one continues bit for bit."""
    first, second = subject.core(), subject.core(seed=SEED + 1)
    for _ in play(second, subject.whole_steps):
        try:
            second.check_state(second.get_state())
        except CheckpointError as error:
            subject.demand(False, "State keeps to its declared ranges", str(error).removeprefix(f"{subject.id}: "))
    for _ in play(first, LIMIT - 2):
        pass
    second.set_state(first.get_state())
    for t in range(STEPS):
        left, right = (
            dict(zip(RESULTS, core.step(core.sample_actions())[:4], strict=True)) for core in (first, second)
        )
        subject.alike(left, right, "set_state(get_state()) continues as the original", t)


def check_random_play(subject: Subject) -> None:
    """Check that rules with ``legal`` play equally without observations."""
    if subject.definition.rules.legal is None:
        return
    promise = "random_rollout is step after step: observe writes io.obs alone, legal the masks and who is to move"
    stepped, played = subject.core(), subject.core()
    stepped.reset()
    played.reset()
    for steps in (2, LIMIT, STEPS):
        for _ in range(steps):
            stepped.step(stepped.sample_actions())
        played.random_rollout(steps)
        left, right = stepped.get_state(), played.get_state()
        for name, value in left.items():
            subject.demand(torch.equal(value, right[name]), promise, f"after {steps} steps {name} differs")
