package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

// locustOnce has locust's own client carry out the start and each task of each user once: a run draws tasks at random.
const locustOnce = `
import sys, time
from locust.env import Environment
from locust.exception import InterruptTaskSet, RescheduleTask
from locust.util.load_locustfile import load_locustfile

def run(task, owner):
    try:
        if isinstance(task, type):
            tasks = task(owner)
            tasks.on_start()
            for t in dict.fromkeys(tasks.tasks):
                run(t, tasks)
        else:
            task(owner)
    except (InterruptTaskSet, RescheduleTask):
        pass

time.sleep = lambda s: None
classes = load_locustfile(sys.argv[1])[0]
environment = Environment(user_classes=list(classes.values()))
for c in sorted(classes.values(), key=lambda c: c.__name__):
    user = c(environment)
    user.on_start()
    for t in dict.fromkeys(user.tasks):
        run(t, user)
`

var locust = tool{
	format:  "locust",
	program: "locust",
	command: func(file string) []string { return []string{"python3", "-c", locustOnce, file} },
	own: []omission{
		{`accept-encoding: gzip, deflate(, br)?(, zstd)?`, "the import lists that it is not sent"},
		{`user-agent: python/gevent-http-client-.*`, "it names itself"},
	},
	general: func(i draft.Item) bool { return i.Line == 0 },
}

func TestLocust(t *testing.T) { locust.compareFiles(t) }

func TestLocustGenerated(t *testing.T) {
	locust.compareGenerated(t, "locustfile.py", func(r *rand.Rand) map[string]string {
		text := func() string {
			return choose(r, `"`+word(r)+`"`, `"a b"`, `"ü"`, `"@x"`, `"a&b=c"`, `'q"q'`, `"1+1"`, `"[x]"`, `"{x}"`, `"%41%2f"`, `""`, `"x\\y"`, `WORD`, `f"{WORD}-{NUMBER}"`, `"%s/%d" % (WORD, NUMBER)`, `"{}!".format(WORD)`, `self.word`)
		}
		value := func() string {
			return choose(r, text(), text(), "1", "1.5", "True", "None", "[1, 2]", `["a", None]`, "NUMBER", "NUMBER + 1", "-1")
		}
		dict := func(value func() string) string {
			var all []string
			for range r.IntN(4) {
				all = append(all, fmt.Sprintf("%q: %s", choose(r, word(r), "a", "b", "k y", "ü"), value()))
			}
			return "{" + strings.Join(all, ", ") + "}"
		}
		call := func() string {
			method := choose(r, "get", "post", "put", "patch", "delete", "options", "head")
			url := fmt.Sprintf(`"/%s%s"`, word(r), choose(r, "", "?a=1", "?a=b c", "/a b/{x}", "/%41%2f", "/ü?ü=ü", "?a[]=1&b=[2]", "/../x/./y", "?q='\\\"<>|", "?a=%zz"))
			args := []string{choose(r, url, `f"/`+word(r)+`/{self.word}"`)}
			if r.IntN(3) == 0 {
				args = append(args, "params="+choose(r, dict(value), dict(value), `[("a", 1), ("a", 2)]`, `"x=1&y=a b"`))
			}
			if r.IntN(3) == 0 {
				args = append(args, "headers="+dict(func() string { return choose(r, `"v"`, "WORD", "self.word", `"a, b"`) }))
				args[len(args)-1] = strings.NewReplacer("k y", "k-y", "ü", "u").Replace(args[len(args)-1])
			}
			switch r.IntN(5) {
			case 0:
				args = append(args, "json="+choose(r, dict(value), `{"a": {"b": [1, None, True]}}`, `[1, "ü"]`))
			case 1:
				args = append(args, "data="+choose(r, dict(value), `[("a", "1"), ("a", 2)]`, `"a=b&c"`, `b"\x00\xff"`, `"@file"`))
			case 2:
				args = append(args, `auth=("u", "p:w")`)
			}
			return fmt.Sprintf("self.client.%s(%s)", method, strings.Join(args, ", "))
		}
		var b strings.Builder
		b.WriteString("from locust import HttpUser, FastHttpUser, task, between\n\nWORD = \"" + word(r) + "\"\nNUMBER = 7\n\n\nclass Base(HttpUser):\n    abstract = True\n    host = \"http://" + written + "\"\n    word = \"w\"\n\n    def login(self):\n        " + call() + "\n\n    def on_start(self):\n        self.token = self.client.post(\"/login\", json={\"u\": WORD}).json()[\"token\"]\n\n\n")
		for i := range 1 + r.IntN(2) {
			fmt.Fprintf(&b, "class User%d(Base):\n    word = %q\n\n    @task(%d)\n    def one(self):\n", i, word(r), 1+r.IntN(3))
			for range 1 + r.IntN(3) {
				switch r.IntN(6) {
				case 0:
					fmt.Fprintf(&b, "        with %s as response:\n            if response.status_code != 200:\n                response.failure(\"no\")\n", strings.TrimSuffix(call(), ")")+", catch_response=True)")
				case 1:
					fmt.Fprintf(&b, "        for i in %s:\n            self.client.get(f\"/i/{i}\", headers={\"X-Token\": self.token})\n", choose(r, "range(2)", "[\"a\", \"b c\"]"))
				case 2:
					b.WriteString("        self.login()\n")
				default:
					b.WriteString("        " + call() + "\n")
				}
			}
			b.WriteString("\n\n")
		}
		return map[string]string{"locustfile.py": b.String()}
	})
}
