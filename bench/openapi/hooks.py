"""What schemathesis cannot know of the control plane; see control-openapi.sh."""

import json
import random

import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData, UseAfterFree

# A description says what a request looks like, not what there is. These problems are of the
# latter: a condition that does not hold, a key that another change had, a limit.
OF_THE_STATE = {"precondition", "key", "limit"}

# Rules that join two places of a request. JSON Schema has no words for them: the address and the
# document name one resource, and names to watch are in one namespace, and given or have a prefix.
OF_TWO_PLACES = ("and the address says", "are of names in a namespace, not in all", "name, prefix: want one of them",
                 "is for whole services", "must not be more than the interval", "another check has this name", "/interval_seconds")

# Rules of names that JSON Schema has no words for either, or that only some kinds have.
OF_NAMES = ("form NFC", "white space at an end", "must have 1 to 253 bytes", "is all names", "must have no slash")

CHANCE = random.Random(1)


def problem(response):
    """The kind of a problem, and all that it says; nothing if the answer is none."""
    try:
        body = json.loads(response.content)
        return body["type"].rpartition(":")[2], json.dumps(body)
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", ""


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Tells whether a failure is one."""
    if isinstance(failure, RejectedPositiveData):
        kind, text = problem(response)
        return kind not in OF_THE_STATE and not any(rule in text for rule in OF_TWO_PLACES + OF_NAMES)
    if isinstance(failure, UseAfterFree):
        return "/history" not in case.operation.path  # which stays when a resource is removed
    return True


@schemathesis.hook
def before_call(context, case, kwargs):
    """Answers long polls and reads that wait soon, since nobody makes a change meanwhile; has resources really made and
    removed where the next request takes them for it; and leaves out three conditions of four, which
    hardly ever hold."""
    if case.method != "GET" and CHANCE.random() < 0.75:
        for name in ("If-Match", "If-None-Match"):
            (case.headers or {}).pop(name, None)
    query = dict(case.query or {})
    if case.operation.path == "/v1/watch" or "since" in query:
        wait = query.get("wait")
        if wait is None or isinstance(wait, (int, float)) and 0 <= wait <= 300:
            query["wait"] = 0.02
    elif case.method in ("POST", "DELETE") and query.get("dry_run") in (True, "true"):
        del query["dry_run"]
    else:
        return
    case.query = query
