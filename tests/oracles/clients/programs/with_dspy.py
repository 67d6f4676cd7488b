"""DSPy: its language model, and a signature whose fields are a JSON object; chats."""

import json

import dspy


def model(url):
    return dspy.LM("openai/script", api_base=url, api_key="none", cache=False, num_retries=0)


def chat(url, prompt):
    said = model(url)(prompt)[0]
    return said["text"] if isinstance(said, dict) else said


def structured(url, prompt, schema):
    fields = {
        name: (field.annotation, dspy.OutputField()) for name, field in schema.model_fields.items()
    }
    signature = dspy.Signature({"question": (str, dspy.InputField()), **fields})
    with dspy.context(lm=model(url), adapter=dspy.JSONAdapter()):
        prediction = dspy.Predict(signature)(question=prompt)
    return json.dumps(prediction.toDict())
