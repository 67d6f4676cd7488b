"""AutoGen: an assistant agent, chats."""

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

INFO = {"vision": False, "function_calling": True, "json_output": False, "family": "unknown",
        "structured_output": True, "multiple_system_messages": True}  # fmt: skip


def agent(url, **options):
    client = OpenAIChatCompletionClient(
        model="script", base_url=url, api_key="none", max_retries=0, model_info=INFO
    )
    return AssistantAgent("assistant", client, system_message=None, **options)


async def chat(url, prompt):
    return (await agent(url).run(task=prompt)).messages[-1].content


async def stream(url, prompt):
    thinking = False
    async for event in agent(url, model_client_stream=True).run_stream(task=prompt):
        if isinstance(event, ModelClientStreamingChunkEvent):
            # AutoGen streams `reasoning_content` between tags of its own.
            thinking = thinking or event.content.startswith("<think>")
            if not thinking:
                yield event.content
            thinking = thinking and not event.content.endswith("</think>")


async def tools(url, prompt, tool, call):
    def get_weather(city: str, days: int) -> str:
        return call(tool["name"], {"city": city, "days": days})

    offered = FunctionTool(get_weather, tool["description"])
    asked = agent(url, tools=[offered], model_client_stream=True, max_tool_iterations=3)
    async for event in asked.run_stream(task=prompt):
        last = event
    return last.messages[-1].content


async def structured(url, prompt, model):
    run = await agent(url, output_content_type=model).run(task=prompt)
    return run.messages[-1].content
