"""Pydantic AI's agent: chats."""

from openai import AsyncOpenAI
from pydantic_ai import Agent, NativeOutput, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

MODEL = OpenAIChatModel


def agent(url, **options):
    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    return Agent(MODEL("script", provider=OpenAIProvider(openai_client=client)), **options)


async def chat(url, prompt):
    return (await agent(url).run(prompt)).output


async def stream(url, prompt):
    async with agent(url).run_stream(prompt) as result:
        async for piece in result.stream_text(delta=True, debounce_by=None):
            yield piece


async def tools(url, prompt, tool, call):
    def get_weather(**arguments):
        return call(tool["name"], arguments)

    async def listen(context, events):
        async for _ in events:
            pass

    schema = {"name": tool["name"], "description": tool["description"]}
    offered = Tool.from_schema(get_weather, json_schema=tool["parameters"], **schema)
    # With a listener, all that the model says is streamed.
    return (await agent(url, tools=[offered]).run(prompt, event_stream_handler=listen)).output


async def structured(url, prompt, model):
    return (await agent(url, output_type=NativeOutput(model)).run(prompt)).output
