"""Checks of saved states and recorded episodes: names, shapes, dtypes and values, before anything is copied."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from gpu_envs.definition.struct_buffers import param_fields
from gpu_envs.errors import CheckpointError, describe_tensor
from gpu_envs.runtime import parameters
from gpu_envs.utils.tensor_checks import plain

if TYPE_CHECKING:
    from gpu_envs.runtime.buffers import EnvBuffers

Range = tuple[float | None, float | None]  # lowest and highest value; None for none


def upgraded(state: Any, indices: torch.Tensor) -> Any:
    """Return a saved state of an earlier version, with float32 sums and no numbers of worlds, as one of this version.

    Args:
        state: The state, of any version; anything else is returned as it is.
        indices: Global indices of the worlds, (E,) int32, which were their numbers.
    """
    if not isinstance(state, Mapping) or "io.seed" not in state:
        return state
    total = state.get("io.running_return")
    sums = {"io.running_return": total.double()} if plain(total) and total.dtype == torch.float32 else {}
    return {"io.world": indices, **state, **sums}


def check(env_id: str, layout: "EnvBuffers", config: Any, state: Any) -> None:
    """Raise an error if a saved state does not fit a batch of worlds.

    The state may include the constants of the buffers, as in earlier versions, if they are equal. What only shows
    results may be missing, as in earlier versions.

    Raises:
        CheckpointError: Naming the first entry that does not fit.
    """
    mine = layout.saved_tensors() | {"params": layout.params}
    if not isinstance(state, Mapping):
        actual = type(state).__name__
        raise CheckpointError(f"{env_id}: a state is a dict of tensors by name, got {actual}; take it from get_state()")
    mine = {name: tensor for name, tensor in mine.items() if name in state or name not in layout.shows_results}
    if odd := sorted((set(state) ^ set(mine)) - set(layout.constants), key=str):
        raise CheckpointError(
            f"{env_id}: this state is of another environment or version; entries that differ: "
            f"{', '.join(map(str, odd[:5]))}"
        )
    num_envs = len(layout.io["step"])
    for name, tensor in (mine | {n: t for n, t in layout.constants.items() if n in state}).items():
        shapes = [tuple(tensor.shape)]
        if name == "params":  # one row for all, or one per world
            shapes = list(dict.fromkeys((rows, tensor.shape[1]) for rows in (1, num_envs)))
        _check_tensor(env_id, name, state[name], shapes, tensor.dtype, "use the same config and num_envs")
        if name in layout.constants and not torch.equal(state[name].to(tensor.device), tensor):
            raise CheckpointError(f"{env_id}: {name} is not that of the action spaces here; use the same config")
    _check_values(env_id, {name: state[name] for name in mine if name != "params"}, layout.ranges, "world")
    _check_params(env_id, layout, config, state["params"])


def check_episode(env_id: str, layout: "EnvBuffers", episode: Mapping[str, Any], steps: int) -> None:
    """Raise an error if the tensors of a recorded episode do not fit an environment.

    Args:
        env_id: ID of the environment, for messages.
        layout: Buffers of the environment.
        episode: Tensors of the episode by name, "state.*" for the fields of State; None for a missing one.
        steps: Length of the episode T.

    Raises:
        CheckpointError: Naming the first entry that does not fit.
    """
    expected = {f"state.{name}": tensor for name, tensor in layout.saved_state.items()} | {"action": layout.action}
    masks = [name for name in ("action_mask", "to_move") if layout.io[name].numel()]
    names = ("obs", "reward", "terminated", "truncated", "valid", *masks)
    expected |= {name: layout.io[name] for name in names}
    recorded = {n: v for n, v in episode.items() if n not in ("action_mask", "to_move") or n in expected}
    if different := sorted(set(recorded) ^ set(expected)):
        listed = ", ".join(different[:5])
        raise CheckpointError(f"{env_id}: this episode is of another environment or version; {listed}")
    for name, tensor in expected.items():
        _check_tensor(env_id, name, recorded[name], [(steps, *tensor.shape[1:])], tensor.dtype, "use the same config")
    _check_values(env_id, recorded, layout.ranges | {"action": layout.ranges["io.choice"]}, "step")


def _check_tensor(env_id: str, name: str, tensor: Any, shapes: list[tuple], dtype: torch.dtype, hint: str) -> None:
    """Raise an error unless a value is a tensor of a dtype and one of several shapes."""
    if not plain(tensor) or tuple(tensor.shape) not in shapes or tensor.dtype != dtype:
        expected = f"{dtype} {' or '.join(map(str, shapes))}"
        raise CheckpointError(f"{env_id}: {name}: expected {expected}, got {describe_tensor(tensor)}; {hint}")


def _check_values(env_id: str, tensors: Mapping[str, torch.Tensor], ranges: Mapping[str, Range], rows: str) -> None:
    """Raise an error for integers out of range and bools that are neither 0 nor 1; synchronizes once."""
    wrong, used = {}, {}
    for name, tensor in tensors.items():
        if tensor.dtype == torch.bool:
            tensor, low, high = tensor.view(torch.uint8), 0, 1
        elif tensor.is_floating_point():
            continue
        else:
            low, high = ranges[name]
        if low is not None and high is not None and tensor.numel():
            wrong[name], used[name] = (tensor < low) | (tensor > high), (tensor, low, high)
    if not wrong:
        return
    device = next(iter(wrong.values())).device
    flags = torch.stack([mask.any().to(device) for mask in wrong.values()]).tolist()
    for (name, mask), bad in zip(wrong.items(), flags, strict=True):
        if bad:
            tensor, low, high = used[name]
            position = tuple(mask.nonzero()[0].tolist())
            _refuse(env_id, name, (low, high), tensor[position].item(), f"{rows} {position[0]}")


def _check_params(env_id: str, layout: "EnvBuffers", config: Any, table: torch.Tensor) -> None:
    """Raise an error for parameters out of bounds, and for fixed parameters that differ from the buffers'."""
    d = layout.definition
    kinds = param_fields(d.rules.params)
    if not kinds:
        return
    limits = [parameters.finite_limits(d, config, name) for name in kinds]
    device, is_integer = (
        table.device,
        torch.tensor([kind == torch.int32 for kind in kinds.values()], device=table.device),
    )
    low, high = (torch.tensor([pair[end] for pair in limits], dtype=torch.float64, device=device) for end in (0, 1))
    floats = table.double()
    # bounds such as 0.1 are compared as float32, to which parameters are rounded
    inside = (floats >= low.float()) & (floats <= high.float())
    bits = table.view(torch.int32)
    inside = torch.where(is_integer, (bits >= low) & (bits <= high), inside)
    if not bool(inside.all()):
        world, column = (~inside).nonzero()[0].tolist()
        name = list(kinds)[column]
        value = table[world, column].view(kinds[name]).item()
        _refuse(env_id, f"params.{name}", limits[column], value, f"world {world}")
    mine = layout.params.to(device)
    for name in d.fixed_params:
        column = list(kinds).index(name)
        if bool((bits[:, column] != mine.view(torch.int32)[0, column]).any()):
            raise CheckpointError(f"{env_id}: {name} differs from that of this environment; make(..., {name}=...)")


def _refuse(env_id: str, name: str, limits: Range, value: float, location: str) -> NoReturn:
    """Raise the CheckpointError of a value outside its bounds."""
    low, high = limits
    raise CheckpointError(f"{env_id}: {name}: expected values in [{low}, {high}], got {value} in {location}")
