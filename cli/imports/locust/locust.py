# Reads a locustfile from standard input without running it, and prints what its users do as JSON.
#
# Values are texts, numbers, lists and dicts of Python, and times. What varies is the number of an expression between BEGIN
# and END: of a template, after "?" the name of a variable, or a token.
import ast
import json
import math
import operator
import re
import sys
from urllib.parse import quote

BEGIN, END = "\ue002", "\ue003"
METHODS = {"get", "post", "put", "patch", "delete", "head", "options"}
MOST_STEPS = 2000
items = []
expressions = []
count = [0]
imported = {}  # the whole names of what the file imports, by the names there


class Unknown(Exception):
    pass


def leave(node, what, why, hint=""):
    items.append({"line": getattr(node, "lineno", 0), "what": what, "why": why, "hint": hint})


def source(node):
    return ast.unparse(node)


def whole_name(function):
    """The whole name of a function, whatever the file imports it as."""
    first, dot, rest = source(function).partition(".")
    return (imported.get(first, first) + dot + rest).replace("datetime.datetime.", "datetime.")


def mark(text, number=False, **more):
    """The text that stands for what varies."""
    e = {"text": text, "number": number, **more}
    if e not in expressions:
        expressions.append(e)
    return BEGIN + str(expressions.index(e)) + END


MARKED = re.compile(BEGIN + r"\d+" + END)


def apart(text, change):
    """The text, with a function applied to what stands between its marks."""
    kept = MARKED.findall(text) + [""]
    return "".join(change(part) + m for part, m in zip(MARKED.split(text), kept))


def is_number(v):
    """Whether a value is a number, which varies or not."""
    return isinstance(v, (int, float)) or isinstance(v, str) and MARKED.fullmatch(v) is not None and expressions[int(v[1:-1])]["number"]


class Span(float):
    """A length of time in seconds."""


class Moment:
    """The time when a request is sent, and so much later: as a number of a unit, or as a date."""

    units = {1: "s", 1000: "ms", 1000_000: "us", 1000_000_000: "ns"}

    def __init__(self, later=0.0, per_second=1, date=False, of=None):
        self.later, self.per_second, self.date = later, per_second, date
        self.of = of  # the call that returns fractions, too

    def text(self):
        if self.date or self.per_second not in self.units or not abs(self.later) < 50 * 365 * 86400:
            raise Unknown("the time")
        if self.of is not None:
            leave(self.of, source(self.of), "the time is sent as a whole number")
        later = round(self.later * self.per_second)
        unit = self.units[self.per_second]
        return mark('timestamp("%s", %d)' % (unit, later) if later else "timestamp()" if unit == "s" else 'timestamp("%s")' % unit, True)


def arithmetic(op, a, b, node):
    """What an operation of numbers and times is."""
    plus = type(op) in (ast.Add, ast.Sub)
    sign = -1 if isinstance(op, ast.Sub) else 1
    if isinstance(op, ast.Add) and isinstance(b, Moment):
        a, b = b, a
    match a, b:
        case Moment(date=True), Span() if plus:
            return Moment(a.later + sign * b, date=True)
        case Moment(date=False), int() | float() if plus and not isinstance(b, Span):
            return Moment(a.later + sign * b / a.per_second, a.per_second, of=a.of)
        case (Moment(date=False), int() | float()) | (int() | float(), Moment(date=False)) if isinstance(op, ast.Mult) and a and b:
            m, n = (a, b) if isinstance(a, Moment) else (b, a)
            return Moment(m.later, m.per_second * n, of=m.of)
        case Moment(date=False), int() | float() if isinstance(op, (ast.FloorDiv, ast.Div)) and b:
            return Moment(a.later, a.per_second / b, of=a.of)
        case int() | float(), int() | float():
            of = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow}
            try:
                v = of[type(op)](a, b) if not isinstance(op, ast.Pow) or 0 <= b <= 64 and 0 <= a <= 1e6 else math.inf
                if abs(v) < 1e18:
                    return Span(v) if isinstance(a, Span) or isinstance(b, Span) else v
            except (KeyError, ArithmeticError):
                pass
    raise Unknown(source(node))


def signed(claims, key, algorithm, node):
    """The token of claims."""
    if not isinstance(claims, dict) or not isinstance(key, str) or not key:
        raise Unknown(source(node))
    if algorithm not in ("HS256", "HS384", "HS512"):
        leave(node, source(node.func), "dyno signs tokens by HS256, HS384 and HS512 only", "give the token as a variable")
        raise Unknown(source(node.func))
    leave(node, source(node.func), "the token is signed for each request, with the time of then")
    claims = {k: Moment(v.later) if isinstance(v, Moment) and v.date else v for k, v in claims.items()}
    if not MARKED.search(key):
        others = {e["value"] for e in expressions if e.get("value", key) != key}
        key = mark("?jwt_secret" + ("_%d" % (len(others) + 1) if others else ""), value=key)
    elif not MARKED.fullmatch(key):
        raise Unknown(source(node))
    return mark("", token={"algorithm": algorithm, "key": key, "claims": dumps(claims, separators=(",", ":"))})


class Text(str):
    """The bytes of a literal, as a text of Latin-1."""


class Names:
    """What names stand for: constants, and places of responses."""

    def __init__(self, outer=None):
        self.values = dict(outer.values) if outer else {}
        self.send = outer.send if outer else None  # sends what a call of a client requests
        self.result = outer.result if outer else None  # carries out a function of the file
        self.fast = outer.fast if outer else False  # the client is FastHttpUser's

    def value(self, node):
        match node:
            case ast.Constant(value=v) if isinstance(v, (str, int, float, bool)) or v is None:
                return v
            case ast.Constant(value=v) if isinstance(v, bytes):
                return Text(v.decode("latin-1"))
            case ast.Name(id=name):
                if name in self.values:
                    return self.values[name]
                raise Unknown(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                if "self." + name in self.values:
                    return self.values["self." + name]
                raise Unknown("self." + name)
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr="user"), attr=name) if "self." + name in self.values:
                return self.values["self." + name]
            case ast.Attribute(value=ast.Call(func=function), attr="hex") if whole_name(function) == "uuid.uuid4":
                return mark('random_string(32, "0123456789abcdef")')
            case ast.Attribute(value=of, attr="headers"):
                of = self.value(of)
                if isinstance(of, Place) and of.path == "$":
                    return Fields(of.request)
            case ast.JoinedStr(values=parts):
                if any(isinstance(p, ast.FormattedValue) and (p.format_spec or p.conversion != -1) for p in parts):
                    raise Unknown(source(node))
                return "".join(self.text(p.value if isinstance(p, ast.FormattedValue) else p) for p in parts)
            case ast.BinOp(left=ast.Constant(value=str(form)), op=ast.Mod(), right=right):
                values = [self.text(v) for v in (right.elts if isinstance(right, ast.Tuple) else [right])]
                parts = form.replace("%d", "%s").split("%s")
                if len(parts) != len(values) + 1:
                    raise Unknown(source(node))
                return "".join(p + v for p, v in zip(parts, values + [""]))
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.value(left), self.value(right)
                texts = (str, Place)
                if isinstance(op, ast.Add) and isinstance(a, texts) and isinstance(b, texts) and not is_number(a) and not is_number(b):
                    return self.text(left) + self.text(right)
                if isinstance(op, ast.Add) and isinstance(a, list) and isinstance(b, list):
                    return a + b
                return arithmetic(op, a, b, node)
            case ast.Dict(keys=keys, values=values):
                out = {}
                for k, v in zip(keys, values):
                    v = self.value(v)
                    if k is not None:
                        out[self.value(k) if isinstance(k, ast.Constant) else self.text(k)] = v
                    elif isinstance(v, dict):
                        out.update(v)
                    else:
                        raise Unknown(source(node))
                return out
            case ast.List(elts=elts) | ast.Tuple(elts=elts):
                return [self.value(e) for e in elts]
            case ast.UnaryOp(op=ast.USub(), operand=v):
                v = self.value(v)
                if isinstance(v, (int, float)):
                    return -v
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="os"), attr="environ"), slice=name):
                return mark("?" + self.text(name))
            case ast.Call():
                return self.call(node)
            case ast.Subscript(value=v, slice=i):
                of, at = self.value(v), self.value(i)
                if isinstance(of, (Place, Fields)):
                    return of.below(at)
                if isinstance(of, (dict, list)):
                    try:
                        return of[at]
                    except (KeyError, IndexError, TypeError):
                        raise Unknown(source(node))
        raise Unknown(source(node))

    def call(self, node):
        name, args = whole_name(node.func), node.args
        match name:
            case "time.time":
                return Moment(of=node)
            case "time.time_ns":
                return Moment(per_second=1000_000_000)
            case "datetime.now" | "datetime.utcnow":
                return Moment(date=True)
            case "datetime.timedelta":
                units = dict(zip(("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks"), (86400, 1, 1e-6, 1e-3, 60, 3600, 7 * 86400)))
                try:
                    return Span(sum(self.value(v) * units[k] for k, v in [*zip(units, args), *((k.arg, k.value) for k in node.keywords)]))
                except (KeyError, TypeError):
                    raise Unknown(source(node))
            case "jwt.encode" | "jose.jwt.encode":
                given = dict(zip(("payload", "key", "algorithm", "headers"), args)) | {{"claims": "payload"}.get(k.arg, k.arg): k.value for k in node.keywords}
                if "headers" in given:
                    leave(given["headers"], "headers=" + source(given["headers"]), "the header of a token has alg and typ only")
                values = {k: self.value(given[k]) for k in ("payload", "key", "algorithm") if k in given}
                return signed(values.get("payload"), values.get("key"), values.get("algorithm", "HS256"), node)
            case "authlib.jose.jwt.encode" if len(args) == 3:
                header = self.value(args[0])
                return signed(self.value(args[1]), self.value(args[2]), header.get("alg") if isinstance(header, dict) else "", node)
            case "random.randint" | "randint" | "random.randrange" | "randrange" if len(args) == 2:
                low, high = self.value(args[0]), self.value(args[1])
                if isinstance(low, int) and isinstance(high, int):
                    return mark("random_int(%d, %d)" % (low, high - ("range" in name)), True)
            case "random.choice" | "choice" if len(args) == 1:
                choices = self.value(args[0])
                if isinstance(choices, list) and choices and all(isinstance(c, (str, int, float)) for c in choices):
                    return mark("random_choice(%s)" % ", ".join(json.dumps(str(c), ensure_ascii=False) for c in choices))
            case "uuid.uuid4" | "uuid4":
                return mark("uuid()")
            case "str" if len(args) == 1:
                return self.text(args[0])
            case "dict" if not args and all(k.arg for k in node.keywords):
                return {k.arg: self.value(k.value) for k in node.keywords}
            case "int" | "float" | "round" if len(args) == 1:
                v = self.value(args[0])
                if isinstance(v, Moment) and not v.date:
                    return v if name == "float" else Moment(v.later, v.per_second)
                if isinstance(v, (int, float)) and abs(v) < 1e18 or isinstance(v, str) and re.fullmatch(r"-?\d{1,15}", v):
                    return {"int": int, "float": float, "round": round}[name](v)
                if isinstance(v, str) and MARKED.fullmatch(v):
                    return v
            case "json.dumps" if len(args) == 1 and not node.keywords:
                return dumps(self.value(args[0]))
            case "os.getenv" | "os.environ.get" if args:
                if len(args) == 2:
                    leave(node, source(node), "the environment may say another value than the one here")
                    return self.value(args[1])
                return mark("?" + self.text(args[0]))
        if isinstance(node.func, ast.Attribute) and self.send and is_client(node.func):
            return Place(self.send(node))
        if self.result and (v := self.result(node)) is not None:
            return v
        if isinstance(node.func, ast.Attribute):
            of = self.value(node.func.value)
            match node.func.attr:
                case "timestamp" if isinstance(of, Moment) and of.date:
                    return Moment(of.later, of=node)
                case "total_seconds" if isinstance(of, Span):
                    return float(of)
                case "json" if isinstance(of, Place) and not args:
                    return of
                case "get" if isinstance(of, (Place, Fields)) and args:
                    return of.below(self.value(args[0]))
                case "format" if isinstance(of, str) and not node.keywords:
                    parts = of.split("{}")
                    if len(parts) == len(args) + 1 and not any(c in p for p in parts for c in "{}"):
                        return "".join(p + v for p, v in zip(parts, [self.text(v) for v in args] + [""]))
                case "encode" | "decode" if isinstance(of, str) and (not args or source(args[0]).lower() in ("'utf-8'", "'ascii'")):
                    return of
        raise Unknown(source(node))

    def text(self, node):
        v = self.value(node)
        if isinstance(v, (Place, Moment)):
            v = v.text()
        if isinstance(v, (dict, list, Fields)):
            raise Unknown(source(node))
        return MARKED.sub(lambda m: mark(**{**expressions[int(m[0][1:-1])], "number": False}), str(v))


places = {}  # a request and a place in its response: the variable


def taken(request, kind, place, wanted):
    """The mark of a variable that takes its value from a response. Two places have two variables."""
    key = (id(request), kind, place)
    if key not in places:
        wanted = re.sub(r"\W", "_", wanted, flags=re.ASCII)
        name, n = wanted, 1
        while name in places.values():
            n += 1
            name = "%s_%d" % (wanted, n)
        places[key] = name
        request["extract"].append({"variable": name, kind: place})
    return mark(places[key])


class Place:
    """A place in the response to a request."""

    def __init__(self, request, path="$", header=None):
        self.request, self.path, self.header = request, path, header

    def below(self, at):
        if isinstance(at, int):
            return Place(self.request, "%s[%d]" % (self.path, at))
        at = str(at)
        return Place(self.request, self.path + ("." + at if at.isidentifier() else "[%s]" % json.dumps(at)))

    def text(self, name=None):
        return taken(self.request, "json", self.path, name or self.path.split(".")[-1])


class Fields:
    """The header fields of the response to a request."""

    def __init__(self, request):
        self.request = request

    def below(self, name):
        return taken(self.request, "header", str(name), str(name))


def plain(v):
    if isinstance(v, (Place, Moment)):
        return v.text()
    if isinstance(v, Fields):
        raise Unknown("headers")
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, list):
        return [plain(x) for x in v]
    return v


def dumps(v, **form):
    """JSON as Python writes it: what is not ASCII is escaped, but for marks."""
    text = json.dumps(plain(v), **form).replace("\\ue002", BEGIN).replace("\\ue003", END)
    return re.sub('"(' + MARKED.pattern + ')"', lambda m: m[1] if expressions[int(m[1][1:-1])]["number"] else m[0], text)


def pairs(v, node):
    """Fields of a query or a form, as requests has them: None is left out, and a list is several fields."""
    v = plain(v)
    if isinstance(v, dict):
        v = list(v.items())
    if not isinstance(v, list) or not all(isinstance(p, (list, tuple)) and len(p) == 2 for p in v):
        raise Unknown(source(node))
    out = []
    for key, values in v:
        if isinstance(values, dict):
            values = list(values)
        for x in values if isinstance(values, list) else [values]:
            if isinstance(x, (dict, list)):
                raise Unknown(source(node))
            if x is not None:
                out.append([str(key), str(x)])
    return out


def flat(v, node):
    """Fields of a form as FastHttpUser has them: each value is one text."""
    v = plain(v)
    if not isinstance(v, dict) or any(isinstance(x, (dict, list)) and BEGIN in json.dumps(x, ensure_ascii=False) for x in v.values()):
        raise Unknown(source(node))
    return [[str(k), str(x)] for k, x in v.items()]


UNRESERVED = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


ESCAPED = re.compile("%[0-9A-Fa-f]{2}")


def requoted(text, allowed):
    """A part of a URL as requests sends it: what is illegal is encoded, and what is unreserved is not."""
    isEncoded = len(ESCAPED.findall(text)) == text.count("%")
    text = ESCAPED.sub(lambda m: m[0].upper(), text)
    text = quote(text, safe=allowed + ("%" if isEncoded else ""))
    return ESCAPED.sub(lambda m: chr(int(m[0][1:], 16)) if chr(int(m[0][1:], 16)) in UNRESERVED else m[0], text)


def requoted_url(url):
    """A URL as requests sends it. Dots in its path are resolved."""
    url = url.split("#")[0]
    begin = re.match(r"https?://[^/?]*|", url, re.I)[0]
    path, mark, query = url[len(begin) :].partition("?")
    out = []
    for part in path.split("/"):
        if part == "..":
            out = out[: max(1, len(out) - 1)]
        elif part != ".":
            out.append(part)
    if path.endswith(("/.", "/..")):
        out.append("")
    path = "/".join(out)
    return begin + apart(path, lambda p: requoted(p, "!$&'()*+,;=:@/")) + mark + requoted_query(query)


def quoted_url(url):
    """A URL as FastHttpUser sends it."""

    def part(text):
        parts = text.split("%")
        for i in range(1, len(parts)):
            digits = parts[i][:2]
            if not re.fullmatch("[0-9A-Fa-f]{2}", digits):
                if len(digits) == 2 and digits.isalnum():
                    return quote(text, safe="!#$&'()*+,/:;=?@[]~")
                parts[i] = "%" + parts[i]
            else:
                c = chr(int(digits, 16))
                parts[i] = c + parts[i][2:] if c in UNRESERVED else "%" + parts[i]
        return quote("".join(parts), safe="!#$%&'()*+,/:;=?@[]~")

    return apart(url.split("#")[0], part)


def requoted_query(query):
    return apart(query, lambda p: requoted(p, "!$&'()*+,;=:@/?"))


def is_client(f):
    return f.attr in METHODS | {"request"} and source(f.value).split(".")[-1] == "client"


class Left(Exception):
    """A request that is not sent."""


def request(call, names):
    """A call of self.client, or None. What it does not say for certain is not sent."""
    f = call.func
    if not (isinstance(f, ast.Attribute) and is_client(f)):
        return None
    out = {"line": call.lineno, "method": f.attr.upper(), "url": "", "name": "", "headers": [], "query": [], "form": [], "body": "", "extract": [], "status": ""}
    args = list(call.args)
    if any(isinstance(a, ast.Starred) for a in args) or any(k.arg is None for k in call.keywords):
        raise Unknown("an argument with *")
    given = {k.arg: k.value for k in call.keywords}
    if f.attr == "request":
        out["method"] = names.text(args.pop(0) if args else given.pop("method")).upper()
    if not args and "url" not in given:
        raise Unknown("the URL")
    out["url"] = (quoted_url if names.fast else requoted_url)(names.text(args[0] if args else given.pop("url")))
    for key, node in zip({"post": ["data", "json"], "put": ["data"], "patch": ["data"]}.get(f.attr, []), args[1:]):
        given.setdefault(key, node)
    if len(args) > 3 or len(args) > 1 and f.attr not in ("post", "put", "patch"):
        raise Unknown("a further argument")
    own = []
    for key, node in given.items():
        if key in ("catch_response", "stream", "context"):
            continue
        value = names.value(node)
        if value is None:
            continue
        match key:
            case "name":
                out["name"] = value if isinstance(value, str) else ""
            case "headers":
                own = [[k, str(v)] for k, v in plain(value).items() if v is not None or names.fast]
            case "params":
                if isinstance(value, str):
                    out["url"] += ("&" if "?" in out["url"] else "?") + requoted_query(value)
                else:
                    out["query"] = pairs(value, node)
            case "json":
                out["json"] = dumps(value)
            case "data":
                if isinstance(value, (dict, list)):
                    out["form"] = flat(value, node) if names.fast else pairs(value, node)
                    out["isForm"] = bool(value)
                elif isinstance(value, str):
                    out["body"] = value
                    out["isBytes"] = isinstance(value, Text)
                else:
                    raise Unknown(source(node))
            case "auth" if isinstance(value, list) and len(value) == 2:
                out["auth"] = [str(v) for v in plain(value)]
            case "cookies" if isinstance(value, dict):
                own.append(["Cookie", "; ".join("%s=%s" % kv for kv in plain(value).items())])
            case "allow_redirects":
                if value is False:
                    out["follows"] = False
            case "verify":
                out["insecure"] = value is False
            case "timeout":
                leave(node, "timeout=" + source(node), "the experiment has no such setting for a request", "load.timeout is for all")
            case _:
                raise Unknown(key + "=" + source(node))
    session = names.values.get("self.client.headers", {})
    fields = {k.lower(): k for k, _ in own}
    out["headers"] = own + [[k, v] for k, v in session.items() if k.lower() not in fields]
    if "auth" not in out and "self.client.auth" in names.values:
        out["auth"] = names.values["self.client.auth"]
    if out.get("json") is not None:
        if not out["body"] and not out["form"]:
            out["body"], out["isJSON"] = out["json"], True
        del out["json"]
    return out


def think(node, names):
    """The pause between tasks."""
    if isinstance(node, ast.Call):
        try:
            args = [float(names.value(a)) for a in node.args]
            name = source(node.func).split(".")[-1]
            if name == "between" and len(args) == 2 or name == "constant" and len(args) == 1:
                return [args[0], args[-1]]
        except (Unknown, TypeError, ValueError):
            pass
    leave(node, "wait_time = " + source(node), "pauses are constant, or between two times", "think of a step has more; load.open.rate is a rate of iterations")
    return [0, 0]


class Walk:
    """What the statements of a function send, in their order."""

    def __init__(self, names, methods, functions, order=()):
        self.names, self.methods, self.functions, self.order, self.owner = names, methods, functions, order, None
        self.steps, self.depth, self.looked, self.returned = [], 0, set(), None
        names.send, names.result = self.send, self.result

    def send(self, call):
        """The request of a call within an expression."""
        r = self.add(call)
        if r is None or r.get("left"):
            raise Left()
        return r

    def result(self, call):
        """What a function of the file returns, which is carried out; None if it is not known."""
        before, self.returned = self.returned, None
        name = source(call.func)
        is_own = name in self.functions or name.startswith("self.") and any(name[5:] in self.methods.get(c, {}) for c in self.order)
        if is_own:
            self.called(name, call)
        v, self.returned = self.returned, before
        return v

    def statements(self, body):
        for s in body:
            self.statement(s)

    def statement(self, s):
        count[0] += 1
        if len(self.steps) > MOST_STEPS or count[0] > 100 * MOST_STEPS:
            raise Unknown("more than %d requests" % MOST_STEPS)
        before, self.looked = self.looked, set()
        if isinstance(s, (ast.If, ast.While)):
            self.look(s.test)
        self.carry(s)
        for e in [getattr(s, "iter", None)] + [i.context_expr for i in getattr(s, "items", [])] if hasattr(s, "body") else [s]:
            self.look(e)
        self.looked = before

    def look(self, e):
        """Adds the requests of an expression that was not understood as a whole."""
        for call in ast.walk(e) if e is not None else []:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and id(call) not in self.looked:
                if is_client(call.func):
                    self.add(call)
                elif call.func.attr == "rest":
                    leave(call, source(call), "the request is not sent: dyno does not know this client")

    def carry(self, s):
        match s:
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Global():
                pass
            case ast.Expr(value=ast.Call() as call):
                self.call(call)
            case ast.Assign(targets=[target], value=value):
                self.assign(target, value)
            case ast.AnnAssign(target=target, value=value) if value:
                self.assign(target, value)
            case ast.With(items=[item], body=body) if isinstance(item.context_expr, ast.Call):
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, item.context_expr)
                else:
                    self.call(item.context_expr)
                self.checks(body)
            case ast.If(test=test, body=body, orelse=orelse):
                if self.check(s):
                    return
                before = len(self.steps)
                self.statements(body)
                self.statements(orelse)
                if len(self.steps) > before:
                    leave(s, "if " + source(test), "its branches are carried over as they stand there", "a step can have a condition (if)")
                else:
                    leave(s, "if " + source(test), "conditions are not carried over", "assert and status of a step say what is expected")
            case ast.For(iter=i, target=ast.Name(id=name), body=body):
                try:
                    values = self.names.value(i) if not (isinstance(i, ast.Call) and source(i.func) == "range") else list(range(*[self.names.value(a) for a in i.args]))
                    if not isinstance(values, list) or len(values) > 50:
                        raise Unknown(source(i))
                except (Unknown, TypeError):
                    leave(s, "for " + name + " in " + source(i), "it is carried over once")
                    values = [mark("?" + name)]
                for v in values:
                    self.names.values[name] = v
                    self.statements(body)
            case ast.Try(body=body, orelse=orelse, finalbody=final):
                self.statements(body)
                self.statements(orelse)
                self.statements(final)
            case ast.Return(value=value) if value is not None:
                try:
                    v = Place(r) if isinstance(value, ast.Call) and (r := self.add(value)) and not r.get("left") else self.names.value(value)
                    self.returned = v if self.returned is None else self.returned
                except Left:
                    pass
                except Unknown:
                    if isinstance(value, ast.Call):
                        self.call(value)
            case ast.Return() | ast.Raise() | ast.Import() | ast.ImportFrom():
                pass
            case ast.Expr(value=ast.Await(value=ast.Call() as call)):
                self.call(call)
            case _:
                before = len(self.steps)
                for below in ("body", "orelse"):
                    self.statements(getattr(s, below, []) or [])
                leave(s, source(s).splitlines()[0], "it is carried over once" if len(self.steps) > before else "this statement is not carried over")

    def add(self, call):
        """Adds the request of a call, and returns it; None if it requests nothing."""
        if isinstance(call.func, ast.Attribute) and is_client(call.func):
            self.looked.add(id(call))
        try:
            r = request(call, self.names)
        except Left:
            return {"extract": [], "status": "", "left": True}
        except (Unknown, KeyError, AttributeError) as e:
            leave(call, source(call), "the request is not sent: what %s stands for is known only when the file runs" % e, "write it out")
            return {"extract": [], "status": "", "left": True}
        if r:
            self.steps.append(r)
        return r

    def call(self, call):
        name = source(call.func)
        if self.add(call) is not None:
            return
        try:
            if self.called(name, call):
                return
            if isinstance(call.func, ast.Attribute):  # such as .json() of a request
                before = len(self.steps)
                try:
                    self.names.value(call.func.value)
                except Unknown:
                    pass
                if len(self.steps) > before:
                    return
        except Left:
            return
        if name.split(".")[0] in ("print", "logging", "logger") or name.endswith((".success", ".failure", ".interrupt", ".raise_for_status")):
            return
        if name.split(".")[-1] in METHODS | {"request"}:
            leave(call, source(call), "the request is not sent: dyno does not know this client")
        else:
            leave(call, source(call), "this call is not carried over")

    def called(self, name, call):
        """What a call other than of the client does, if it is known."""
        first = name.split(".")[0]
        if name.endswith("sleep") and len(call.args) == 1:
            try:
                seconds = float(self.names.value(call.args[0]))
                self.steps.append({"line": call.lineno, "pause": [seconds, seconds]})
                return True
            except (Unknown, TypeError, ValueError):
                return False
        if name.endswith("client.headers.update") and len(call.args) == 1:
            try:
                value = plain(self.names.value(call.args[0]))
                self.names.values["self.client.headers"] = {**self.names.values.get("self.client.headers", {}), **{k: str(v) for k, v in value.items()}}
                return True
            except (Unknown, AttributeError):
                return False
        owners = []
        if first == "self" and name.count(".") == 1:
            owners = self.order
        elif name.startswith("super().") and self.owner in self.order:
            owners = self.order[self.order.index(self.owner) + 1 :]
        elif first in self.order:
            owners = self.order[self.order.index(first) :]
        method = name.split(".")[-1]
        for owner in owners:
            if method in self.methods.get(owner, {}):
                self.run(self.methods[owner][method], owner, call)
                return True
        if owners and name.startswith("super()"):
            return True  # a base of locust's own does nothing
        if name in self.functions:
            self.run(self.functions[name], None, call)
            return True
        return name.startswith("super().") and method in ("__init__", "on_start", "on_stop")

    def run(self, function, owner, call=None):
        """Carries out a function, with what it is called with."""
        if self.depth == 10:
            leave(function, function.name, "its calls are nested too deep")
            return
        names = [a.arg for a in function.args.args]
        if owner is not None and names:
            names = names[1:]
        defaults = dict(zip(names[len(names) - len(function.args.defaults) :], function.args.defaults)) if function.args.defaults else {}
        given = {**defaults, **dict(zip(names, call.args if call else [])), **{k.arg: k.value for k in (call.keywords if call else []) if k.arg}}
        bound = {}
        for name in names:
            try:
                bound[name] = self.names.value(given[name])
            except (Unknown, KeyError):
                pass
        kept, owner_before = dict(self.names.values), self.owner
        for name in names:
            self.names.values.pop(name, None)
        self.names.values.update(bound)
        self.depth, self.owner = self.depth + 1, owner
        self.statements(function.body)
        self.depth, self.owner = self.depth - 1, owner_before
        after = self.names.values
        self.names.values = {**kept, **{k: v for k, v in after.items() if k.startswith("self.")}}

    def assign(self, target, value):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            name = "self." + target.attr
        elif isinstance(target, ast.Name):
            name = target.id
        elif source(target).endswith("client.auth") or re.fullmatch(r".*client\.headers\[.*\]", source(target)):
            self.session(target, value)
            return
        elif isinstance(target, ast.Subscript) and self.put(target, value):
            return
        else:
            leave(target, source(target) + " = " + source(value), "this statement is not carried over")
            return
        if isinstance(value, ast.Call):
            r = self.add(value)
            if r is not None:
                self.names.values[name] = Place(r)
                if r.get("left"):
                    self.names.values.pop(name)
                return
        try:
            v = self.names.value(value)
            if isinstance(v, Place) and v.path != "$":
                v = v.text(name.removeprefix("self."))
            self.names.values[name] = v
        except Left:
            self.names.values.pop(name, None)
        except Unknown as e:
            self.names.values[name] = mark("?" + name.removeprefix("self."))
            leave(value, name + " = " + source(value), "what %s stands for is known only when the file runs" % e, "give the variable a value in load.scenario.variables")

    def put(self, target, value):
        """Puts a value into a dict."""
        name = source(target.value)
        of = self.names.values.get(name)
        try:
            if isinstance(of, dict):
                self.names.values[name] = {**of, self.names.value(target.slice): self.names.value(value)}
                return True
        except (Unknown, TypeError, Left):
            pass
        return False

    def session(self, target, value):
        """What a client sends with each request from now on."""
        try:
            v = plain(self.names.value(value))
            if isinstance(target, ast.Subscript):
                self.names.values["self.client.headers"] = {**self.names.values.get("self.client.headers", {}), self.names.text(target.slice): str(v)}
            elif isinstance(v, list) and len(v) == 2:
                self.names.values["self.client.auth"] = [str(x) for x in v]
            else:
                raise Unknown(source(value))
        except Left:
            pass
        except Unknown as e:
            leave(value, source(target) + " = " + source(value), "what %s stands for is known only when the file runs: it is not sent" % e)

    def checks(self, body):
        for s in body:
            if isinstance(s, ast.If) and self.check(s):
                continue
            self.statement(s)

    def check(self, s):
        """if r.status_code != 200: a failure."""
        fails = any(isinstance(c, ast.Call) and source(c.func).endswith(".failure") for c in ast.walk(s))
        match s.test:
            case ast.Compare(left=ast.Attribute(attr="status_code"), ops=[ast.NotEq() | ast.Eq()], comparators=[ast.Constant(value=int(code))]) if fails and self.steps and "status" in self.steps[-1]:
                if isinstance(s.test.ops[0], ast.NotEq) or any(source(c.func).endswith(".success") for c in ast.walk(s) if isinstance(c, ast.Call)):
                    self.steps[-1]["status"] = str(code)
                    for other in s.orelse:
                        if isinstance(other, ast.If) and not self.check(other):
                            leave(other, "if " + source(other.test), "conditions are not carried over", "assert and status of a step say what is expected")
                    return True
        return False


def weight_of(decorator, names):
    if isinstance(decorator, ast.Call) and source(decorator.func).split(".")[-1] == "task":
        try:
            return int(names.value(decorator.args[0])) if decorator.args else 1
        except (Unknown, TypeError, ValueError):
            return 1
    return 1 if source(decorator).split(".")[-1] == "task" else 0


class Classes:
    """The classes of a file, and what they inherit from each other."""

    def __init__(self, tree):
        self.nodes, self.functions, self.aliases = {}, {}, {}
        self.find(tree.body)
        for s in ast.walk(tree):
            if isinstance(s, ast.ImportFrom):
                self.aliases.update({a.asname: a.name for a in s.names if a.asname})
        for s in tree.body:
            if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions[s.name] = s
        self.methods = {name: {s.name: s for s in c.body if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef))} for name, c in self.nodes.items()}

    def find(self, body):
        for s in body:
            if isinstance(s, ast.ClassDef):
                self.nodes.setdefault(s.name, s)
                self.find(s.body)

    def bases(self, name):
        all = [source(b).split(".")[-1] for b in self.nodes[name].bases]
        return [self.aliases.get(b, b) for b in all]

    def order(self, name, depth=0):
        """The class and those that it inherits from, in the order in which Python looks members up."""
        if name not in self.nodes or depth > 20:
            return [name]
        lists = [self.order(b, depth + 1) for b in self.bases(name)] + [self.bases(name)]
        out = [name]
        while lists := [l for l in lists if l]:
            for l in lists:
                if not any(l[0] in other[1:] for other in lists):
                    break
            else:
                l = lists[0]
            first = l[0]
            out.append(first)
            lists = [[x for x in l if x != first] for l in lists]
        return out

    def derives(self, name, *bases):
        return any(b in bases for b in self.order(name)[1:])

    def is_user(self, name):
        return any(b not in self.nodes and b.endswith("User") for b in self.order(name)[1:])

    def own(self, name):
        """What the class itself assigns."""
        out = {}
        for s in self.nodes[name].body if name in self.nodes else []:
            if isinstance(s, ast.Assign):
                out.update({t.id: s.value for t in s.targets if isinstance(t, ast.Name)})
            elif isinstance(s, ast.AnnAssign) and s.value is not None and isinstance(s.target, ast.Name):
                out[s.target.id] = s.value
        return out

    def attribute(self, name, key):
        for c in self.order(name):
            if key in self.own(c):
                return self.own(c)[key]
        return None

    def tasks(self, name, names, depth=0):
        """The tasks of a class, as locust collects them: those of its bases, and its own. Each has an owner."""
        found = []
        if name not in self.nodes or depth > 20:
            return found
        for base in self.bases(name):
            found += self.tasks(base, names, depth + 1)
        node = self.own(name).get("tasks")
        if isinstance(node, ast.Dict):
            for k, v in zip(node.keys, node.values):
                try:
                    found.append((source(k), int(names.value(v)), name))
                except (Unknown, TypeError, ValueError):
                    leave(v, "tasks: " + source(k), "what its weight is is known only when the file runs: it is 1")
                    found.append((source(k), 1, name))
        elif isinstance(node, (ast.List, ast.Tuple)):
            found += [(source(k), 1, name) for k in node.elts]
        elif node is not None:
            leave(node, "tasks = " + source(node), "the tasks are known only when the file runs: they are not sent")
        for s in self.nodes[name].body:
            weights = [weight_of(d, names) for d in getattr(s, "decorator_list", [])]
            if max(weights, default=0) > 0:
                found.append((s.name, max(weights), name))
        return found


def tasks_of(name, names, classes, depth=0):
    """The tasks of a class, each with its weight and its steps, and what it sends at its start."""
    order = classes.order(name)
    names = Names(names)
    names.fast = names.fast or classes.derives(name, "FastHttpUser")
    for c in reversed(order):
        for key, node in classes.own(c).items():
            try:
                names.values["self." + key] = names.values[key] = names.value(node)
            except Unknown:
                pass
    walk = lambda: Walk(names, classes.methods, classes.functions, order)

    def steps(run):
        w = walk()
        try:
            run(w)
        except Unknown as e:
            leave(classes.nodes[name], "class " + name, "it ends early: %s" % e)
        return w.steps

    def method(key):
        return next(((c, classes.methods[c][key]) for c in order if key in classes.methods.get(c, {})), None)

    start, tasks = [], []
    if found := method("on_start"):
        start = steps(lambda w: w.run(found[1], found[0]))
    for key in ("on_stop", "teardown"):
        if found := method(key):
            leave(found[1], key, "nothing is sent after the load")
    if depth > 0 and classes.attribute(name, "wait_time") is not None:
        leave(classes.attribute(name, "wait_time"), "wait_time of " + name, "pauses are those of the user")
    for task, weight, owner in classes.tasks(name, names):
        local = classes.methods.get(owner, {}).get(task)
        if task in classes.nodes and depth < 5:
            inner_start, inner = tasks_of(task, names, classes, depth + 1)
            start += inner_start
            if classes.derives(task, "SequentialTaskSet"):
                tasks.append({"name": task, "weight": weight, "steps": [s for t in inner for s in t["steps"]]})
            else:
                tasks += [{**t, "weight": t["weight"] * weight} for t in inner]
            leave(classes.nodes[task], "class " + task, "users stay in a set of tasks until it ends itself; here its tasks are tasks of the user")
        elif local is not None:
            tasks.append({"name": task, "weight": weight, "steps": steps(lambda w: w.run(local, owner))})
        elif task in classes.functions:
            tasks.append({"name": task, "weight": weight, "steps": steps(lambda w: w.run(classes.functions[task], None))})
        else:
            leave(classes.nodes[name], "task " + task, "it is not in this file: it is not sent")
    return start, tasks


def main():
    print(flush=True)  # the limits of this process are set before it gets the file
    try:
        tree = ast.parse(sys.stdin.buffer.read())
    except SyntaxError as e:
        sys.exit("line %d: %s" % (e.lineno or 0, e.msg))
    except (ValueError, RecursionError, MemoryError) as e:
        sys.exit(str(e) or "the file is nested too deep")
    for s in ast.walk(tree):
        if isinstance(s, ast.Import):
            imported.update({a.asname: a.name for a in s.names if a.asname})
        elif isinstance(s, ast.ImportFrom):
            imported.update({a.asname or a.name: "%s.%s" % (s.module, a.name) for a in s.names})
    names = Names()
    classes = Classes(tree)
    users, shape = [], []
    for s in tree.body:
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                try:
                    names.values[name] = names.value(value)
                except Unknown as e:
                    leave(s, name, "what %s stands for is known only when the file runs" % e)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if s.decorator_list:
                    leave(s, "def " + s.name, "functions of events are not carried over", "load.scenario.setup and teardown are sent once, before the load and after it")
            case ast.ClassDef() if any("LoadTestShape" in source(b) for b in s.bases):
                shape = stages_of(s, names)
                if not shape:
                    leave(s, "class " + s.name, "a shape of the load is computed when the file runs", "load.stages has users that change")
            case ast.ClassDef() | ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                leave(s, source(s).splitlines()[0], "statements outside of users are not carried over")
    for cls in [s for s in tree.body if isinstance(s, ast.ClassDef)]:
        if not classes.is_user(cls.name):
            continue
        abstract = classes.own(cls.name).get("abstract")
        if abstract is not None and source(abstract) != "False":
            continue
        start, tasks = tasks_of(cls.name, names, classes)
        user = {"name": cls.name, "line": cls.lineno, "weight": 1, "host": "", "think": [0, 0], "start": start, "tasks": tasks, "fast": classes.derives(cls.name, "FastHttpUser")}
        for key in ("weight", "fixed_count", "host"):
            node = classes.attribute(cls.name, key)
            if node is None:
                continue
            try:
                value = names.value(node)
                if key == "fixed_count" and value:
                    leave(node, "fixed_count", "the users are a share of all of them: the number is a weight")
                if value is not None and (key != "fixed_count" or value):
                    user["weight" if key == "fixed_count" else key] = value
            except Unknown as e:
                leave(node, key, "what %s stands for is known only when the file runs" % e)
        node = classes.attribute(cls.name, "wait_time")
        if node is not None:
            user["think"] = think(node, names)
        elif any("wait_time" in classes.methods.get(c, {}) for c in classes.order(cls.name)):
            leave(cls, "wait_time of " + cls.name, "pauses are constant, or between two times: there is none", "give the steps think")
        users.append(user)
    json.dump({"shape": shape, "users": users, "items": items, "expressions": expressions}, sys.stdout)


def stages_of(cls, names):
    """The stages that a shape lists as dicts of duration, users and spawn_rate, as Locust's own examples do."""
    for s in cls.body:
        match s:
            case ast.Assign(targets=[ast.Name(id="stages")], value=value):
                try:
                    stages = names.value(value)
                    return [[float(x["duration"]), float(x["users"]), float(x.get("spawn_rate", 1))] for x in stages]
                except (Unknown, KeyError, TypeError, ValueError, AttributeError):
                    return []
    return []


main()
