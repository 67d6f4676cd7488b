"""The base of file-backed tokenizers: a vocabulary, special tokens, and a chat template.

The backends encode and decode.
"""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from mini_vllm.chat_template.files import find_chat_template
from mini_vllm.chat_template.template import ChatTemplate, Message
from mini_vllm.tokenizer.encoding import NONE, AllowedSpecial, Encoding
from mini_vllm.tokenizer.ids import plain_ids
from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer.protocols import Decoder, Encoder, SpecialTokens
from mini_vllm.tokenizer.special_tokens import ending_tokens
from mini_vllm.tokenizer_errors import UnknownTokenId


class VocabularyTokenizer(Encoder, Decoder):
    """The half of a tokenizer that only looks things up.

    Args:
        ids: id by token, special tokens included. Ids without text are left out.
        vocab_size: the highest id plus one; by default that of `ids`.
        special_tokens: the special tokens by role.
        eos_token_ids: ids that end a generation, in addition to those of the EOS token and of
            special tokens that are known to end one.
    """

    def __init__(
        self,
        ids: dict[str, int],
        *,
        vocab_size: int | None = None,
        special_tokens: SpecialTokens | None = None,
        eos_token_ids: Iterable[int] = (),
    ) -> None:
        self._ids = ids
        self._tokens = {token_id: token for token, token_id in ids.items()}
        self.vocab_size = max(self._tokens, default=-1) + 1 if vocab_size is None else vocab_size
        self.special_tokens = special_tokens or SpecialTokens()
        ends = {*ending_tokens(self.special_tokens.all()), self.special_tokens.eos}
        self.eos_token_ids = frozenset(eos_token_ids) | {ids[end] for end in ends if end in ids}
        self.chat_template: ChatTemplate | None = None

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the encoding of `text`, as the backend defines it.

        Raises:
            EncodeError: the text cannot be encoded.
        """
        raise NotImplementedError

    @cached_property
    def pieces(self) -> PieceTable | None:
        """The bytes of each id, or None if the text is not a concatenation of pieces."""
        raise NotImplementedError

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token, special tokens included, or None."""
        return self._ids.get(token)

    def id_to_token(self, token_id: int) -> str | None:
        """Return the token of an id as the vocabulary spells it, or None if it is not text."""
        return self._tokens.get(token_id)

    def known(self, ids: Iterable[int]) -> list[int]:
        """Return the ids as a list.

        Raises:
            UnknownTokenId: an id is outside the vocabulary.
        """
        ids = list(plain_ids(ids))
        for token_id in ids:
            if token_id not in self._tokens:
                raise UnknownTokenId(token_id)
        return ids

    def set_chat_template(self, template: str) -> None:
        """Use another chat template from now on.

        Raises:
            ChatTemplateError: the template does not compile; the old template stays.
        """
        new = self.make_chat_template(template)
        new.validate()
        self.chat_template = new

    def make_chat_template(self, template: str) -> ChatTemplate:
        """Return a template that knows this tokenizer's special tokens."""
        special = self.special_tokens
        roles = {
            "unk_token": special.unk,
            "sep_token": special.sep,
            "pad_token": special.pad,
            "cls_token": special.cls,
            "mask_token": special.mask,
        }
        return ChatTemplate(
            template,
            bos_token=special.bos,
            eos_token=special.eos,
            variables={role: token for role, token in roles.items() if token is not None},
            special_tokens=special.all(),
        )

    def load_chat_template(self, folder: Path, explicit: str | Path | None = None) -> None:
        """Use the chat template of the explicit file, or else of a model's folder, if there is one.

        Raises:
            TokenizerFileNotFound: the explicit file does not exist.
            CorruptModelFile: the file that counts is damaged.
            ChatTemplateError: the template is too long, or several files could be the template.
        """
        template = find_chat_template(folder, explicit)
        if template is not None:
            self.chat_template = self.make_chat_template(template)

    def apply_chat_template(
        self, messages: Iterable[Message], add_generation_prompt: bool = False, **variables: Any
    ) -> str:
        """Return a conversation in the form that the model was trained on.

        Without a template the form is a line of `role: content` per message. Arguments are those of
        `ChatTemplate.render`.

        Raises:
            ChatTemplateError: the template is invalid, refuses the messages, or exceeds a limit.
        """
        template = self.chat_template or _SIMPLE
        return template.apply_chat_template(messages, add_generation_prompt, **variables)


_SIMPLE = ChatTemplate.simple()
