"""LiteLLM, chats."""

import litellm


def ask(url, messages, **options):
    return litellm.completion(
        model="openai/script", api_base=url, api_key="none", messages=messages, **options
    )


def said(prompt):
    return [{"role": "user", "content": prompt}]


def chat(url, prompt):
    return ask(url, said(prompt)).choices[0].message.content


def stream(url, prompt):
    for chunk in ask(url, said(prompt), stream=True):
        yield chunk.choices[0].delta.content


def tools(url, prompt, tool, call):
    messages = said(prompt)
    while True:
        chunks = ask(url, messages, stream=True, tools=[{"type": "function", "function": tool}])
        message = litellm.stream_chunk_builder(list(chunks)).choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for one in message.tool_calls:
            result = call(one.function.name, one.function.arguments)
            messages.append({"role": "tool", "tool_call_id": one.id, "content": result})


def structured(url, prompt, model):
    return ask(url, said(prompt), response_format=model).choices[0].message.content
