"""LangChain's `ChatOpenAI`: chats."""

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

RESPONSES = False


def model(url, **options):
    return ChatOpenAI(
        model="script", base_url=url, api_key="none", max_retries=0,
        use_responses_api=RESPONSES, **options,
    )  # fmt: skip


def chat(url, prompt):
    return model(url).invoke(prompt).text


def stream(url, prompt):
    for chunk in model(url).stream(prompt):
        yield chunk.text


def tools(url, prompt, tool, call):
    bound = model(url).bind_tools([{"type": "function", "function": tool}])
    messages = [HumanMessage(prompt)]
    while True:
        chunks = list(bound.stream(messages))
        message = sum(chunks[1:], chunks[0])
        if not message.tool_calls:
            return message.text
        messages.append(message)
        for one in message.tool_calls:
            messages.append(ToolMessage(call(one["name"], one["args"]), tool_call_id=one["id"]))


def structured(url, prompt, schema):
    return model(url).with_structured_output(schema).invoke(prompt)
