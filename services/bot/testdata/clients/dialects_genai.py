"""Asks a gateway for models whose servers speak other dialects, by the package google-genai, and prints what it has got
of each as a line of JSON."""

import base64
import json
import logging
import sys

from google import genai
from google.genai import errors, types
from pydantic import BaseModel

logging.disable(logging.WARNING)  # of parts that are no text

base, key, *models = sys.argv[1:]
client = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=base))
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


class Weather(BaseModel):
    city: str
    degrees: int


class Answer:
    """What is got of an answer: its parts, the reason of its end and its usage."""

    def __init__(self, answers):
        self.parts, self.finish = [], None
        for a in answers:
            c = a.candidates[0]
            self.parts += [p for p in (c.content.parts if c.content else None) or [] if p.text != "" or p.thought_signature]
            self.finish = c.finish_reason.name if c.finish_reason else self.finish
            self.usage = a.usage_metadata
        self.text = "".join(p.text for p in self.parts if p.text and not p.thought)
        self.thought = "".join(p.text for p in self.parts if p.text and p.thought)
        self.calls = [p.function_call for p in self.parts if p.function_call]


def whole(model, contents, **config):
    return Answer([client.models.generate_content(model=model, contents=contents, config=types.GenerateContentConfig(system_instruction="be brief", **config))])


def streamed(model, contents, **config):
    return Answer(client.models.generate_content_stream(model=model, contents=contents, config=types.GenerateContentConfig(system_instruction="be brief", **config)))


def chat(model, ask):
    got = {}
    plain = ask(model, "hello", temperature=0.5, max_output_tokens=100, stop_sequences=["END"])
    u = plain.usage
    got["text"], got["finish"] = plain.text, plain.finish
    got["usage"] = [u.prompt_token_count, u.cached_content_token_count or 0, u.candidates_token_count, u.thoughts_token_count or 0, u.total_token_count]
    thought = ask(model, "think", thinking_config=types.ThinkingConfig(include_thoughts=model not in ("azure", "openai"), thinking_level="low"))
    got["thinking"] = [thought.thought, thought.text]
    function = types.FunctionDeclaration(name="weather", description="Tells the weather.", parameters=types.Schema(type="OBJECT", properties={"city": types.Schema(type="STRING")}, required=["city"]))
    tools = [types.Tool(function_declarations=[function])]
    called = ask(model, "call", tools=tools)
    got["calls"] = [called.finish, called.text] + [[c.name, c.args] for c in called.calls]
    results = [types.Part.from_function_response(name=c.name, response={"result": f"rain {n}"}) for n, c in enumerate(called.calls)]
    turn = [types.UserContent("call"), types.ModelContent(called.parts), types.UserContent(results)]
    got["after"] = ask(model, turn, tools=tools).text
    got["image"] = ask(model, [types.Part.from_bytes(data=PIXEL, mime_type="image/png"), "image"]).text
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
    got["schema"] = json.loads(ask(model, "schema", response_mime_type="application/json", response_json_schema=schema).text)
    return got


def tries(ask):
    try:
        return ask().text
    except errors.APIError as e:
        return [type(e).__name__, e.code, e.status, "vendor's reason" in e.message or "Overloaded" in e.message]


got = {}
for model in models:
    g = got[model] = {"whole": chat(model, whole), "streamed": chat(model, streamed)}
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Weather)
    g["parsed"] = client.models.generate_content(model=model, contents="schema", config=config).parsed.model_dump()
    g["stops"] = [whole(model, text).finish for text in ("length", "filter")]
    g["errors"] = [tries(lambda: whole(model, text)) for text in ("400", "401", "429", "529")]
    g["broken"] = tries(lambda: streamed(model, "broken"))
    g["counted"] = client.models.count_tokens(model=model, contents="hello").total_tokens
print(json.dumps(got))
