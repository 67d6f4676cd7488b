"""Haystack: a generator, and an agent with a tool, of chats."""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret

GENERATOR = OpenAIChatGenerator
FORMAT = "response_format"


def generator(url, **options):
    key = Secret.from_token("none")
    return GENERATOR(api_key=key, model="script", api_base_url=url, max_retries=0, **options)


def chat(url, prompt):
    return generator(url).run([ChatMessage.from_user(prompt)])["replies"][0].text


def stream(url, prompt):
    pieces = []
    listening = generator(url, streaming_callback=lambda chunk: pieces.append(chunk.content))
    listening.run([ChatMessage.from_user(prompt)])
    yield from pieces


def tools(url, prompt, tool, call):
    def get_weather(**arguments):
        return call(tool["name"], arguments)

    offered = Tool(tool["name"], tool["description"], tool["parameters"], get_weather)
    agent = Agent(
        chat_generator=generator(url), tools=[offered], streaming_callback=lambda chunk: None
    )
    return agent.run([ChatMessage.from_user(prompt)])["last_message"].text


def structured(url, prompt, model):
    made = generator(url, generation_kwargs={FORMAT: model})
    return made.run([ChatMessage.from_user(prompt)])["replies"][0].text
