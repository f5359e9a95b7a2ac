"""What the loop trains of an episode: one sequence of tokens.

Shape legend: T tokens of one sequence.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sample:
    """One trainable token sequence (a timeline of an episode).

    ``mask_T`` is 1 on tokens that the engine sampled and this sample trains, 0 elsewhere;
    ``logprobs_T`` are the engine's, 0.0 where the mask is 0. ``advantage`` is that of all its
    trained tokens; where the calls that merged into it earned differently, ``advantages_T`` holds
    each token's own (0.0 where the mask is 0) and ``advantage`` is their mean. ``temperatures_T``
    are those of sampling, None where all are 1. ``allowed_T`` are the sets of token ids that a
    grammar left to choose from (journal/token_values.py), None for all ids, and None where no
    trained token was sampled under a grammar. ``before_T`` are the trainer's own log-probabilities
    before a step of several updates. ``experts_T`` are those that sampled each token
    (journal/token_values.py), also of tokens that are not trained; None where none are recorded.
    ``weight`` scales its loss so that an episode with many timelines counts once. All lists have
    the same length T.

    Example: Sample((1, 5, 9), (0, 0, 1), (0.0, 0.0, -0.3), advantage=1.2, weight=1.0, group=0)
    """

    token_ids_T: tuple[int, ...]
    mask_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    advantage: float
    weight: float = 1.0
    group: int = 0
    advantages_T: tuple[float, ...] | None = None
    temperatures_T: tuple[float, ...] | None = None
    allowed_T: tuple[bytes | None, ...] | None = None
    before_T: tuple[float, ...] | None = None
    experts_T: tuple[bytes | None, ...] | None = None
    # whose answers it trains
    call_ids: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def has_signal(self) -> bool:
        """Whether a token has an advantage, so that there is a gradient."""
        return any(self.advantages_T) if self.advantages_T is not None else self.advantage != 0.0

    def temperature_at(self, position: int) -> float:
        """The temperature at which the token at ``position`` was sampled."""
        return 1.0 if self.temperatures_T is None else self.temperatures_T[position]

    def narrowed_at(self, position: int) -> bool:
        """Whether a grammar chose the tokens from which the one at ``position`` was sampled."""
        return self.allowed_T is not None and self.allowed_T[position] is not None

    def advantage_at(self, position: int) -> float:
        """The advantage of the token at ``position``."""
        return self.advantage if self.advantages_T is None else self.advantages_T[position]
