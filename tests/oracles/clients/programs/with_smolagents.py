"""smolagents: a model, and an agent that calls tools, `final_answer` for its last words."""

from smolagents import ChatMessage, OpenAIModel, Tool, ToolCallingAgent


def model(url):
    return OpenAIModel(model_id="script", api_base=url, api_key="none")


def said(prompt):
    return [ChatMessage("user", [{"type": "text", "text": prompt}])]


def chat(url, prompt):
    return model(url)(said(prompt)).content


def stream(url, prompt):
    for delta in model(url).generate_stream(said(prompt)):
        yield delta.content


def tools(url, prompt, tool, call):
    properties = tool["parameters"]["properties"]
    described = {name: {"description": name, **schema} for name, schema in properties.items()}

    class Weather(Tool):
        name = tool["name"]
        description = tool["description"]
        inputs = described
        output_type = "string"

        def forward(self, city, days):
            result = call(tool["name"], {"city": city, "days": days})
            return f"{result}; say so by final_answer"

    agent = ToolCallingAgent([Weather()], model(url), stream_outputs=True, verbosity_level=0)
    # The agent demands a call at every step.
    return agent.run(f"{prompt} Call.")


def structured(url, prompt, weather):
    schema = {"name": "weather", "schema": weather.model_json_schema()}
    form = {"type": "json_schema", "json_schema": schema}
    return model(url)(said(prompt), response_format=form).content
