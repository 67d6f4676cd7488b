"""LlamaIndex: `OpenAILike`, and an agent with a tool, chats."""

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike


def model(url):
    return OpenAILike(
        model="script", api_base=url, api_key="none", max_retries=0, is_chat_model=True,
        is_function_calling_model=True, context_window=100_000,
    )  # fmt: skip


def chat(url, prompt):
    return model(url).chat([ChatMessage(prompt)]).message.content


def stream(url, prompt):
    for response in model(url).stream_chat([ChatMessage(prompt)]):
        yield response.delta


async def tools(url, prompt, tool, call):
    def get_weather(city: str, days: int) -> str:
        """Return the weather of a city."""
        return call(tool["name"], {"city": city, "days": days})

    agent = FunctionAgent(tools=[FunctionTool.from_defaults(get_weather)], llm=model(url))
    return str(await agent.run(prompt))


def structured(url, prompt, schema):
    # It offers the schema as a tool, and demands the call.
    messages = [ChatMessage(f"{prompt} Call.")]
    return model(url).as_structured_llm(schema).chat(messages).raw
