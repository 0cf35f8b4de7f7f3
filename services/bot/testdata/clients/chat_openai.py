"""Asks a gateway by the package langchain-openai, as its documentation shows, and prints
what it has got as a line of JSON."""

import json
import sys

import openai
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


def model(**settings):
    return ChatOpenAI(**{"base_url": sys.argv[1], "api_key": sys.argv[2], "model": "dyno-1", "max_retries": 0, **settings})


@tool
def weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"rain in {city}"


def joined(chunks):
    whole = None
    for chunk in chunks:
        whole = chunk if whole is None else whole + chunk
    return whole


def tokens(message):
    used = message.usage_metadata
    return [used["output_tokens"], used["input_tokens"] + used["output_tokens"] - used["total_tokens"]]


llm = model(stream_usage=True)
got = {}

whole = llm.invoke([SystemMessage("be brief"), HumanMessage("hello")])
got["whole"], got["tokens"], got["finish"] = whole.text, tokens(whole), whole.response_metadata["finish_reason"]
streamed = joined(llm.stream([SystemMessage("be brief"), HumanMessage("hello")]))
got["streamed"], got["streamed_tokens"] = streamed.text, tokens(streamed)

bound = llm.bind_tools([weather])
called = bound.invoke("hello")
[call] = called.tool_calls
got["tool"] = [call["name"], sorted(call["args"])]
got["tool_streamed"] = [[c["name"], c["args"]] for c in joined(bound.stream("hello")).tool_calls] == [[call["name"], call["args"]]]
got["after_tool"] = bound.invoke([HumanMessage("hello"), called, weather.invoke(call)]).text != ""

responses = model(use_responses_api=True)
answered = responses.invoke("hello")
got["response"], got["response_tokens"] = answered.text, tokens(answered)
got["response_streamed"] = joined(responses.stream("hello")).text

got["errors"] = []
for settings in [{"model": "other"}, {"api_key": "wrong"}]:
    try:
        model(**settings).invoke("hello")
    except openai.APIStatusError as e:
        got["errors"].append([type(e).__name__, e.status_code])
print(json.dumps(got))
