"""LangGraph's agent with LangChain's `ChatOpenAI`: chats, its tokens as messages of the graph."""

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.messages import AIMessageChunk
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI


def agent(url, tools=(), **options):
    model = ChatOpenAI(model="script", base_url=url, api_key="none", max_retries=0)
    return create_agent(model, list(tools), **options)


def asking(prompt):
    return {"messages": [{"role": "user", "content": prompt}]}


def chat(url, prompt):
    return agent(url).invoke(asking(prompt))["messages"][-1].text


def stream(url, prompt):
    for chunk, _ in agent(url).stream(asking(prompt), stream_mode="messages"):
        if isinstance(chunk, AIMessageChunk):
            yield chunk.text


def tools(url, prompt, tool, call):
    def run(**arguments):
        return call(tool["name"], arguments)

    weather = StructuredTool(
        name=tool["name"], description=tool["description"], args_schema=tool["parameters"], func=run
    )
    answer = ""
    for chunk, about in agent(url, [weather]).stream(asking(prompt), stream_mode="messages"):
        # The step that asked for the call may have had a text of its own.
        if isinstance(chunk, AIMessageChunk) and about["langgraph_step"] > 1:
            answer += chunk.text
    return answer


def structured(url, prompt, model):
    return agent(url, response_format=ProviderStrategy(model)).invoke(asking(prompt))[
        "structured_response"
    ]
