"""OpenAI's Agents SDK: responses, its default."""

import agents
from openai import AsyncOpenAI

MODEL = agents.OpenAIResponsesModel


def agent(url, **options):
    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    return agents.Agent("agent", model=MODEL("script", openai_client=client), **options)


async def chat(url, prompt):
    return (await agents.Runner.run(agent(url), prompt)).final_output


async def stream(url, prompt):
    run = agents.Runner.run_streamed(agent(url), prompt)
    async for event in run.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            yield event.data.delta


async def tools(url, prompt, tool, call):
    async def invoke(context, arguments):
        return call(tool["name"], arguments)

    offered = agents.FunctionTool(
        tool["name"], tool["description"], tool["parameters"], invoke, strict_json_schema=False
    )
    run = agents.Runner.run_streamed(agent(url, tools=[offered]), prompt)
    async for _ in run.stream_events():
        pass
    return run.final_output


async def structured(url, prompt, model):
    return (await agents.Runner.run(agent(url, output_type=model), prompt)).final_output
