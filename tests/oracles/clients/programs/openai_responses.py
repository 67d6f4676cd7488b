"""`openai`, responses."""

from openai import OpenAI


def client(url):
    return OpenAI(base_url=url, api_key="none", max_retries=0)


def chat(url, prompt):
    return client(url).responses.create(model="script", input=prompt).output_text


def stream(url, prompt):
    for event in client(url).responses.create(model="script", input=prompt, stream=True):
        if event.type == "response.output_text.delta":
            yield event.delta


def tools(url, prompt, tool, call):
    items = [{"role": "user", "content": prompt}]
    offered = [{"type": "function", "strict": False, **tool}]
    while True:
        with client(url).responses.stream(model="script", input=items, tools=offered) as events:
            for _ in events:
                pass
            response = events.get_final_response()
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        items += [item.to_dict() for item in response.output]
        for one in calls:
            result = call(one.name, one.arguments)
            items.append({"type": "function_call_output", "call_id": one.call_id, "output": result})


def structured(url, prompt, model):
    return (
        client(url).responses.parse(model="script", input=prompt, text_format=model).output_parsed
    )
