"""Semantic Kernel: chats, and a kernel that calls a function itself."""

from openai import AsyncOpenAI
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import (
    OpenAIChatCompletion,
    OpenAIChatPromptExecutionSettings,
)
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import kernel_function


def asked(url, prompt, **options):
    history = ChatHistory()
    history.add_user_message(prompt)
    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    service = OpenAIChatCompletion(ai_model_id="script", async_client=client)
    return service, history, OpenAIChatPromptExecutionSettings(**options)


async def chat(url, prompt):
    service, *asking = asked(url, prompt)
    return str(await service.get_chat_message_content(*asking))


async def stream(url, prompt):
    service, *asking = asked(url, prompt)
    async for piece in service.get_streaming_chat_message_content(*asking):
        yield str(piece)


async def tools(url, prompt, tool, call):
    @kernel_function(name=tool["name"], description=tool["description"])
    def get_weather(city: str, days: int) -> str:
        return call(tool["name"], {"city": city, "days": days})

    kernel = Kernel()
    kernel.add_function("oracle", get_weather)
    service, *asking = asked(
        url,
        f"{prompt} Ask oracle-get_weather.",
        function_choice_behavior=FunctionChoiceBehavior.Auto(),
    )
    turns = {}
    async for piece in service.get_streaming_chat_message_content(*asking, kernel=kernel):
        turn = piece.function_invoke_attempt
        turns[turn] = turns.get(turn, "") + str(piece)
    return turns[max(turns)]


async def structured(url, prompt, model):
    service, *asking = asked(url, prompt, response_format=model)
    return str(await service.get_chat_message_content(*asking))
