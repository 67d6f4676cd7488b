"""What the engine reports while it works. Whoever wants the numbers passes a subclass.

But: nothing is counted here.
"""

from mini_vllm.engine.finish import FinishReason


class NullMetrics:
    """Takes reports and forgets them. Methods run on the engine's thread and must be quick."""

    def first_token(self, seconds: float) -> None:
        """A choice got its first id, so long after it was submitted."""

    def next_token(self, seconds: float, count: int) -> None:
        """A choice got `count` more ids in one burst, so long after the ids before."""

    def unknown_tokens(self, count: int) -> None:
        """A model gave ids that are not in the vocabulary."""

    def finished(self, reason: FinishReason, prompt_tokens: int, output_tokens: int) -> None:
        """A choice has ended."""
