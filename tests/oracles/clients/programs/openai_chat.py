"""`openai`, chats."""

from openai import OpenAI


def client(url):
    return OpenAI(base_url=url, api_key="none", max_retries=0)


def chat(url, prompt):
    answer = client(url).chat.completions.create(
        model="script", messages=[{"role": "user", "content": prompt}]
    )
    return answer.choices[0].message.content


def stream(url, prompt):
    messages = [{"role": "user", "content": prompt}]
    for chunk in client(url).chat.completions.create(
        model="script", messages=messages, stream=True, stream_options={"include_usage": True}
    ):
        for choice in chunk.choices:
            yield choice.delta.content or ""


def tools(url, prompt, tool, call):
    messages = [{"role": "user", "content": prompt}]
    offered = [{"type": "function", "function": tool}]
    while True:
        with client(url).chat.completions.stream(
            model="script", messages=messages, tools=offered
        ) as events:
            for _ in events:
                pass
            message = events.get_final_completion().choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump(exclude_none=True))
        for one in message.tool_calls:
            result = call(one.function.name, one.function.arguments)
            messages.append({"role": "tool", "tool_call_id": one.id, "content": result})


def structured(url, prompt, model):
    messages = [{"role": "user", "content": prompt}]
    completion = client(url).chat.completions.parse(
        model="script", messages=messages, response_format=model
    )
    return completion.choices[0].message.parsed
