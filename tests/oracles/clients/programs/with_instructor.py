"""Instructor: an object is read from a call, as it streams."""

import instructor
import pydantic
from openai import OpenAI


def client(url):
    made = OpenAI(base_url=url, api_key="none", max_retries=0)
    return instructor.from_openai(made, mode=instructor.Mode.TOOLS)


def ask(url, prompt, **options):
    messages = [{"role": "user", "content": prompt}]
    return client(url).chat.completions.create(
        model="script", messages=messages, response_model=None, **options
    )


def chat(url, prompt):
    return ask(url, prompt).choices[0].message.content


def stream(url, prompt):
    for chunk in ask(url, prompt, stream=True):
        yield chunk.choices[0].delta.content


def tools(url, prompt, tool, call):
    weather = pydantic.create_model(tool["name"], city=(str, ...), days=(int, ...))
    # It chooses the function by name, and so demands the call.
    messages = [{"role": "user", "content": f"{prompt} Call in parts."}]
    *_, last = client(url).chat.completions.create_partial(
        model="script", messages=messages, response_model=weather
    )
    return chat(url, call(tool["name"], last.model_dump()))


def structured(url, prompt, model):
    made = instructor.from_openai(
        OpenAI(base_url=url, api_key="none", max_retries=0), mode=instructor.Mode.JSON_SCHEMA
    )
    messages = [{"role": "user", "content": prompt}]
    return made.chat.completions.create(model="script", messages=messages, response_model=model)
