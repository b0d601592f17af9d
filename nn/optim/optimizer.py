"""Optimizer: parameter groups and the state of each parameter, and how both are saved and loaded."""
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minigrad import Tensor
from minigrad.extend import note_write, notice, opaque
from nn.module import Parameter, zero_grads

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]  # or groups of them, with options of their own


COMPUTED = np.float32, np.float64  # in which steps are computed; a Parameter of another dtype is skipped if it is frozen

# What options of optimisers and schedulers must be: a test, which NaN fails, and its description for the error.
REQUIREMENTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    **dict.fromkeys(("lr", "eps", "weight_decay", "momentum", "gamma"),
                    (lambda x: 0 <= x < math.inf, "a finite number >= 0")),
    **dict.fromkeys(("amsgrad", "maximize", "nesterov"), (lambda x: isinstance(x, bool), "True or False")),
    "step_size": (lambda x: isinstance(x, (int, np.integer)) and x > 0, "a positive integer"),
    "T_max": (lambda x: x > 0, "positive"),
    "dampening": (lambda x: -math.inf < x < math.inf, "a finite number"),
    "betas": (lambda x: len(x) == 2 and all(0 <= beta < 1 for beta in x), "two numbers from 0 to below 1"),
    "ns_coefficients": (lambda x: np.ndim(x) in (1, 2) and np.shape(x)[-1] == 3 and np.isfinite(x).all(),
                        "three finite numbers a, b, c, or such a triple for each step"),
    "ns_steps": (lambda x: isinstance(x, (int, np.integer)) and 0 <= x < 100, "a whole number from 0 to 99"),
    "adjust_lr_fn": (lambda x: x in (None, "original", "match_rms_adamw"), "None, 'original' or 'match_rms_adamw'"),
    "blocks": (lambda x: np.asarray(x).dtype.kind == "i" and np.shape(x) in ((), (2,)) and np.min(x) >= 1,
               "a whole number from 1, or two of them"),
}


class Optimizer:
    """Base of all optimisers. A subclass writes `update`, or `step`, and passes the default options of a group.

    `params`: parameters, or dicts such as {"params": [...], "lr": 1e-3}, whose options override the defaults.
    `param_groups` is the list of these dicts with all options, which may be changed between steps, such as the learning
    rate. `state[parameter]` holds arrays and numbers. Parameters without a gradient are skipped,
    such as a mask that a module keeps as one.
    """

    def __init__(self, params: Parameters, defaults: dict[str, Any]):
        if isinstance(params, (Tensor, dict)):
            raise TypeError(f"params must be an iterable of parameters or dicts, got one {type(params).__name__}: "
                            "put it into a list")
        self.defaults = defaults
        self._groups: list[dict[str, Any]] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Parameters with their options."""
        notice("reads the options of an optimizer in Python", instead="read and set them outside")
        return self._groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own, or else the defaults."""
        name, group = type(self).__name__, param_group
        notice(f"adds parameters to {name}", instead="add them outside")
        if not isinstance(group, dict) or "params" not in group:
            raise TypeError(f"{name}: a parameter group must be a dict with 'params', got {group!r:.100}")
        parameters = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        seen = {parameter for other in self.param_groups for parameter in other["params"]}
        for parameter in parameters:
            if not isinstance(parameter, Tensor):
                raise TypeError(f"{name}: can only optimise Tensors, got {type(parameter).__name__}; "
                                "pass model.parameters(), not named_parameters()")
            if not parameter.is_leaf or not isinstance(parameter, Parameter) and parameter.dtype.kind != "f":
                raise ValueError(f"{name}: can't optimise a non-leaf or non-float Tensor, got {parameter!r:.100}")
            if parameter in seen:
                raise ValueError(f"{name}: a parameter of shape {parameter.shape} was given twice, within a group or "
                                 "in two of them")
            seen.add(parameter)
        group = {**self.defaults, **group, "params": parameters}
        for option, value in group.items():
            check_option(name, option, value)
        self.check_group(group)
        self.param_groups.append(group)

    def check_group(self, group: dict[str, Any]) -> None:
        """ValueError for a group that this kind of optimizer cannot take."""

    def state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The names in the state of a group's parameters."""
        return ()

    def update(self, p: np.ndarray, g: np.ndarray, state: dict[str, Any], group: dict[str, Any]) -> None:
        """One step of a parameter p with gradient g, in place; its state, empty at first, is kept for the next step."""
        raise NotImplementedError(f"{type(self).__name__} has no update()")

    @opaque
    def step(self) -> None:
        """Update all parameters that have a gradient."""
        self.step_all()

    def step_all(self) -> None:
        """What `step` does."""
        self.step_one_by_one(1.0)

    def step_one_by_one(self, clip: float) -> None:
        """A step with the gradients times `clip`."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state, gradient = self.state.get(parameter, {}), parameter.grad.array  # which update may keep
                    self.update(parameter.array, gradient if clip == 1.0 else gradient * clip, state, group)
                    note_write(parameter.array)  # backward through a graph of the old values is refused from here on
                    if state:
                        self.state[parameter] = state

    @opaque
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set all gradients to None, or fill them with zeros."""
        for group in self.param_groups:
            zero_grads(group["params"], set_to_none)

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def state_dict(self) -> dict[str, Any]:
        """{"state": {i: {name: array or int}}, "param_groups": [options, with "params" as numbers i]}.

        Parameters are numbered in the order of the groups. Arrays are shared: copy what must not change. All else is ready
        for JSON.
        """
        notice("reads the state of an optimizer in Python", instead="read it outside")
        numbers = {parameter: i for i, parameter in enumerate(self._parameters())}
        state = {numbers[parameter]: {name: _plain(value) for name, value in entries.items()}
                 for parameter, entries in self.state.items()}
        groups = [{**group, "params": [numbers[parameter] for parameter in group["params"]]}
                  for group in self.param_groups]
        return {"state": state, "param_groups": groups}

    @opaque
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from where `state_dict` was called, bit for bit. A ValueError for what does not fit changes nothing."""
        groups = state_dict["param_groups"]
        sizes, own_sizes = ([len(group["params"]) for group in either] for either in (groups, self.param_groups))
        if sizes != own_sizes:
            raise ValueError(f"loaded state dict has parameter groups of sizes {sizes}, the optimizer has {own_sizes}")
        options = [{name: tuple(value) if isinstance(value, list) else value
                    for name, value in group.items() if name != "params"} for group in groups]
        for name, value in (option for group in options for option in group.items()):
            check_option(type(self).__name__, name, value)
        names = [self.state_names({**group, **loaded}) for group, loaded in zip(self.param_groups, options)]
        own_names = [own for group, own in zip(groups, names) for _ in group["params"]]  # of each parameter
        numbers = [number for group in groups for number in group["params"]]
        by_number = dict(zip(numbers, zip(self._parameters(), own_names)))
        state = {}
        for number, entries in state_dict["state"].items():
            parameter, own = by_number.get(int(number), (None, names[0]))  # JSON makes the number a string
            shapes = {name: np.shape(value) for name, value in entries.items()}
            if parameter is None or set(shapes) != set(own):
                raise ValueError(f"loaded state of parameter {number} holds {', '.join(shapes)}; expected "
                                 f"{', '.join(own)} for the parameters {list(by_number)}")
            if any(shape not in ((), parameter.shape) for shape in shapes.values()):
                raise ValueError(f"loaded state of parameter {number} has shapes {shapes}, the parameter has "
                                 f"{parameter.shape}")
            state[parameter] = {name: np.array(value, None if name == "step" else parameter.dtype)
                                for name, value in entries.items()}
        for group, loaded in zip(self.param_groups, options):
            group.update(loaded)
        self.state = state

    def __repr__(self) -> str:
        groups = "\n".join(f"  {len(group['params'])} parameters: "
                           + ", ".join(f"{name}={value}" for name, value in group.items() if name != "params")
                           for group in self.param_groups)
        return f"{type(self).__name__}(\n{groups}\n)"


def _plain(value: Any) -> Any:
    """Counters are 0-d integer arrays: as ints they are JSON."""
    return int(value) if np.ndim(value) == 0 and np.asarray(value).dtype.kind == "i" else value


def check_option(owner: str, option: str, value: Any) -> None:
    """ValueError if the value is not what REQUIREMENTS say of this option."""
    is_right, description = REQUIREMENTS.get(option, (lambda x: True, ""))
    try:
        if is_right(value):
            return
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{owner}: {option} must be {description}, got {value!r}")
