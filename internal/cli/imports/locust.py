# Reads a locustfile from standard input without running it, and prints what its users do as JSON.
#
# Values are texts, numbers, lists and dicts of Python. What varies is text between MARK characters: a template's
# expression, or the name of a variable after "?".
import ast
import json
import sys

BEGIN, END = "\ue002", "\ue003"
METHODS = {"get", "post", "put", "patch", "delete", "head", "options"}
items = []


class Unknown(Exception):
    pass


def leave(node, what, why, hint=""):
    items.append({"line": getattr(node, "lineno", 0), "what": what, "why": why, "hint": hint})


def source(node):
    return ast.unparse(node)


def mark(expression):
    return BEGIN + expression + END


class Names:
    """What names stand for: constants, and places of responses."""

    def __init__(self, outer=None):
        self.values = dict(outer.values) if outer else {}

    def value(self, node):
        match node:
            case ast.Constant(value=v) if isinstance(v, (str, int, float, bool)) or v is None:
                return v
            case ast.Constant(value=v) if isinstance(v, bytes):
                return v.decode("latin-1")
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
                if name in self.values:
                    return self.values[name]
                raise Unknown(name)
            case ast.JoinedStr(values=parts):
                return "".join(self.text(p.value if isinstance(p, ast.FormattedValue) else p) for p in parts)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                a, b = self.value(left), self.value(right)
                return a + b if type(a) is type(b) else str(a) + str(b)
            case ast.BinOp(left=ast.Constant(value=str(form)), op=ast.Mod(), right=right):
                values = [self.text(v) for v in (right.elts if isinstance(right, ast.Tuple) else [right])]
                parts = form.replace("%d", "%s").split("%s")
                if len(parts) != len(values) + 1:
                    raise Unknown(source(node))
                return "".join(p + v for p, v in zip(parts, values + [""]))
            case ast.Dict(keys=keys, values=values) if all(keys):
                return {self.text(k): self.value(v) for k, v in zip(keys, values)}
            case ast.List(elts=elts) | ast.Tuple(elts=elts):
                return [self.value(e) for e in elts]
            case ast.UnaryOp(op=ast.USub(), operand=v):
                return -self.value(v)
            case ast.Call():
                return self.call(node)
            case ast.Subscript(value=v, slice=i):
                of, at = self.value(v), self.value(i)
                if isinstance(of, Place):
                    return of.below(at)
                if isinstance(of, (dict, list)):
                    try:
                        return of[at]
                    except (KeyError, IndexError, TypeError):
                        raise Unknown(source(node))
        raise Unknown(source(node))

    def call(self, node):
        name, args = source(node.func), node.args
        match name:
            case "random.randint" | "randint" | "random.randrange" | "randrange" if len(args) == 2:
                low, high = self.value(args[0]), self.value(args[1])
                if isinstance(low, int) and isinstance(high, int):
                    return mark("random_int(%d, %d)" % (low, high - ("range" in name)))
            case "random.choice" | "choice" if len(args) == 1:
                choices = self.value(args[0])
                if isinstance(choices, list) and choices and all(isinstance(c, (str, int, float)) for c in choices):
                    return mark("random_choice(%s)" % ", ".join(json.dumps(str(c), ensure_ascii=False) for c in choices))
            case "uuid.uuid4" | "uuid4":
                return mark("uuid()")
            case "time.time":
                return mark("timestamp()")
            case "str" | "int" | "float" if len(args) == 1:
                return self.value(args[0])
            case "json.dumps" if len(args) == 1:
                return dumps(self.value(args[0]))
            case "os.getenv" | "os.environ.get" if args:
                if len(args) == 2:
                    return self.value(args[1])
                return mark("?" + self.text(args[0]))
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("json", "get"):
            of = self.value(node.func.value)
            if isinstance(of, Place) and (node.func.attr == "json" or len(args) >= 1):
                return of if node.func.attr == "json" else of.below(self.value(args[0]))
        raise Unknown(source(node))

    def text(self, node):
        v = self.value(node)
        if isinstance(v, Place):
            return v.text()
        if isinstance(v, (dict, list)) or v is None:
            raise Unknown(source(node))
        return str(v)


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
        name = name or "".join(c if c.isalnum() else "_" for c in self.path.split(".")[-1])
        self.request["extract"].append({"variable": name, "json": self.path})
        return mark(name)


def dumps(v):
    def plain(v):
        if isinstance(v, Place):
            return v.text()
        if isinstance(v, dict):
            return {k: plain(x) for k, x in v.items()}
        if isinstance(v, list):
            return [plain(x) for x in v]
        return v

    return json.dumps(plain(v), ensure_ascii=False)


def request(call, names):
    """A call of self.client, or None."""
    f = call.func
    if not (isinstance(f, ast.Attribute) and f.attr in METHODS | {"request"} and source(f.value).endswith("client")):
        return None
    out = {"line": call.lineno, "method": f.attr.upper(), "url": "", "name": "", "headers": [], "form": [], "body": "", "extract": [], "status": ""}
    args = list(call.args)
    given = {k.arg: k.value for k in call.keywords if k.arg}
    if f.attr == "request" and args:
        out["method"] = names.text(args.pop(0)).upper()
    out["url"] = names.text(args[0] if args else given.pop("url"))
    if len(args) > 1:
        given.setdefault("data" if f.attr != "get" else "params", args[1])
    query = []
    for key, node in given.items():
        try:
            value = names.value(node)
            if key == "name":
                out["name"] = value if isinstance(value, str) else ""
            elif key == "headers":
                out["headers"] = [[k, v.text() if isinstance(v, Place) else str(v)] for k, v in value.items()]
            elif key == "params":
                query = [[k, v.text() if isinstance(v, Place) else str(v)] for k, v in value.items()]
            elif key == "json":
                out["body"] = dumps(value)
                out["json"] = True
            elif key == "data":
                if isinstance(value, dict):
                    out["form"] = [[k, v.text() if isinstance(v, Place) else str(v)] for k, v in value.items()]
                else:
                    out["body"] = str(value)
            elif key == "auth" and isinstance(value, list) and len(value) == 2:
                out["auth"] = [str(v) for v in value]
            elif key == "allow_redirects" and value is False:
                out["follows"] = False
            elif key in ("catch_response", "allow_redirects", "stream"):
                pass
            elif key == "verify":
                out["insecure"] = value is False
            else:
                leave(node, key + "=" + source(node), "the experiment has no such setting for a request")
        except Unknown as e:
            leave(node, key + "=" + source(node), "what %s stands for is known only when the file runs: it is left out" % e)
    out["query"] = query
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

    def __init__(self, names, functions):
        self.names, self.functions, self.steps, self.depth = names, functions, [], 0

    def statements(self, body):
        for s in body:
            self.statement(s)

    def statement(self, s):
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
            case ast.Try(body=body):
                self.statements(body)
            case ast.Return() | ast.Raise() | ast.Import() | ast.ImportFrom():
                pass
            case _:
                before = len(self.steps)
                for below in ("body", "orelse"):
                    self.statements(getattr(s, below, []) or [])
                leave(s, source(s).splitlines()[0], "it is carried over once" if len(self.steps) > before else "this statement is not carried over")

    def add(self, call):
        try:
            r = request(call, self.names)
        except (Unknown, KeyError) as e:
            leave(call, source(call), "what %s stands for is known only when the file runs" % e, "write it out")
            return {"extract": [], "status": ""}
        if r:
            self.steps.append(r)
        return r

    def call(self, call):
        name = source(call.func)
        if self.add(call) is not None:
            return
        if name.endswith("sleep") and len(call.args) == 1:
            try:
                seconds = float(self.names.value(call.args[0]))
                self.steps.append({"line": call.lineno, "pause": [seconds, seconds]})
                return
            except (Unknown, TypeError, ValueError):
                pass
        if name.startswith("self.") and name[5:] in self.functions and self.depth < 10:
            self.depth += 1
            self.statements(self.functions[name[5:]].body)
            self.depth -= 1
            return
        if name.split(".")[0] in ("print", "logging", "logger") or name.endswith((".success", ".failure", ".interrupt", ".raise_for_status")):
            return
        leave(call, source(call), "this call is not carried over")

    def assign(self, target, value):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            name = target.attr
        elif isinstance(target, ast.Name):
            name = target.id
        else:
            leave(target, source(target) + " = " + source(value), "this statement is not carried over")
            return
        if isinstance(value, ast.Call):
            r = self.add(value)
            if r is not None:
                self.names.values[name] = Place(r)
                return
        try:
            v = self.names.value(value)
            if isinstance(v, Place) and v.path != "$":
                v = v.text(name)
            self.names.values[name] = v
        except Unknown as e:
            self.names.values[name] = mark("?" + name)
            leave(value, name + " = " + source(value), "what %s stands for is known only when the file runs" % e, "give the variable a value in load.scenario.variables")

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


def tasks_of(cls, names, classes, depth=0):
    """The tasks of a class, each with its weight and its steps."""
    functions = {s.name: s for s in cls.body if isinstance(s, ast.FunctionDef)}
    names = Names(names)
    explicit = None
    for s in cls.body:
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
            if s.targets[0].id == "tasks":
                explicit = s.value
            else:
                try:
                    names.values[s.targets[0].id] = names.value(s.value)
                except Unknown:
                    pass
    start, tasks = [], []
    if "on_start" in functions:
        w = Walk(names, functions)
        w.statements(functions["on_start"].body)
        start = w.steps
    for name in ("on_stop", "teardown"):
        if name in functions:
            leave(functions[name], name, "nothing is sent after the load")
    found = []
    if isinstance(explicit, ast.Dict):
        found = [(source(k), v.value if isinstance(v, ast.Constant) else 1) for k, v in zip(explicit.keys, explicit.values)]
    elif isinstance(explicit, ast.List):
        found = [(source(k), 1) for k in explicit.elts]
    for s in cls.body:
        weights = [weight_of(d, names) for d in getattr(s, "decorator_list", [])]
        if max(weights, default=0) > 0:
            found.append((s.name, max(weights)))
    known = {**classes, **{s.name: s for s in cls.body if isinstance(s, ast.ClassDef)}}
    for name, weight in found:
        if name in known and depth < 5:
            inner_start, inner = tasks_of(known[name], names, classes, depth + 1)
            start += inner_start
            if any("Sequential" in source(b) for b in known[name].bases):
                tasks.append({"name": name, "weight": weight, "steps": [s for t in inner for s in t["steps"]]})
            else:
                tasks += [{**t, "weight": t["weight"] * weight} for t in inner]
            leave(known[name], "class " + name, "users stay in a set of tasks until it ends itself; here its tasks are tasks of the user")
        elif name in functions or name in classes:
            w = Walk(Names(names), functions)
            w.names.values = names.values
            w.statements(functions[name].body)
            tasks.append({"name": name, "weight": weight, "steps": w.steps})
        else:
            leave(cls, "task " + name, "it is not in this file")
    return start, tasks


def main():
    print(flush=True)  # the limits of this process are set before it gets the file
    try:
        tree = ast.parse(sys.stdin.buffer.read())
    except SyntaxError as e:
        sys.exit("line %d: %s" % (e.lineno or 0, e.msg))
    except (ValueError, RecursionError, MemoryError) as e:
        sys.exit(str(e) or "the file is nested too deep")
    names = Names()
    classes = {s.name: s for s in tree.body if isinstance(s, ast.ClassDef)}
    users = []
    for s in tree.body:
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                try:
                    names.values[name] = names.value(value)
                except Unknown as e:
                    leave(s, name, "what %s stands for is known only when the file runs" % e)
            case ast.FunctionDef():
                leave(s, "def " + s.name, "functions outside of users are not carried over")
            case ast.ClassDef() if any("LoadTestShape" in source(b) for b in s.bases):
                leave(s, "class " + s.name, "a shape of the load is computed when the file runs", "load.stages has rates that change")
            case ast.ClassDef() | ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                leave(s, source(s).splitlines()[0], "statements outside of users are not carried over")
    for cls in classes.values():
        bases = [source(b).split(".")[-1] for b in cls.bases]
        if not any(b.endswith("User") for b in bases):
            continue
        attributes = {t.id: s.value for s in cls.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)}
        if "abstract" in attributes:
            continue
        start, tasks = tasks_of(cls, names, classes)
        user = {"name": cls.name, "line": cls.lineno, "weight": 1, "host": "", "think": [0, 0], "start": start, "tasks": tasks}
        for key in ("weight", "fixed_count", "host"):
            if key in attributes:
                try:
                    user["weight" if key == "fixed_count" else key] = names.value(attributes[key])
                except Unknown as e:
                    leave(attributes[key], key, "what %s stands for is known only when the file runs" % e)
        if "wait_time" in attributes:
            user["think"] = think(attributes["wait_time"], names)
        users.append(user)
    json.dump({"users": users, "items": items}, sys.stdout)


main()
