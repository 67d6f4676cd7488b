"""`llm`, Simon Willison's library and program: chats."""

from llm import Tool
from llm.default_plugins.openai_models import Chat


def model(url):
    return Chat("script", key="none", api_base=url, supports_schema=True, supports_tools=True)


def chat(url, prompt):
    return model(url).prompt(prompt, stream=False).text()


def stream(url, prompt):
    yield from model(url).prompt(prompt)


def tools(url, prompt, tool, call):
    offered = Tool(
        tool["name"], tool["description"], tool["parameters"],
        lambda **arguments: call(tool["name"], arguments),
    )  # fmt: skip
    turns = model(url).chain(prompt, tools=[offered])
    return [response.text() for response in turns.responses()][-1]


def structured(url, prompt, schema):
    return model(url).prompt(prompt, schema=schema, stream=False).text()
