"""Rules of a scenario: the motion of its bodies, and its own functions."""

from typing import Any

from warp_kernels.physics2d.bodies import Physics
from warp_kernels.physics2d.motion import motion, num_throttles, relayout
from warp_kernels.rules import Phase, Rules


def scenario_rules(
    name: str,
    scene: Physics,
    Params: type,
    State: type,
    continuous: bool,
    phases: tuple[Phase, ...],
    observe: Any,
    reset: Any,
    max_unroll: int = 1,
    controls: tuple[Phase, ...] = (),
) -> Rules:
    """Return rules that move the bodies of a scene and then run the phases of a scenario.

    Args:
        name: Name with every size that the functions capture beside the scene.
        scene: Bodies and joints.
        Params: Params of the scenario, see `motion`.
        State: State of the scenario, see `motion`.
        continuous: Continuous actions instead of discrete ones, see `motion`.
        phases: Phases after the motion, such as rewards.
        observe: As of `Rules`.
        reset: As of `Rules`.
        max_unroll: As of `Rules`.
        controls: Phases before the motion, which write ``State.drive``.
    """
    return Rules(
        key=f"{name} {continuous} {scene.digest}",
        params=Params,
        state=State,
        num_agents=scene.agents,
        action_size=num_throttles(scene) if continuous else 1,
        continuous=continuous,
        phases=(*controls, *motion(scene, Params, State, continuous), *phases),
        observe=observe,
        reset=reset,
        relayout=relayout(scene, State),
        max_unroll=max_unroll,
    )
