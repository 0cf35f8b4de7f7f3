package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

var k6 = tool{
	format:  "k6",
	program: "k6",
	command: func(file string) []string {
		return []string{"k6", "run", "--quiet", "--no-usage-report", "--iterations", "1", "--vus", "1", file}
	},
	own:     []omission{{`user-agent: Grafana k6/.*`, "it names itself"}},
	inOrder: true,
	general: func(i draft.Item) bool { return i.Line == 0 },
}

func TestK6(t *testing.T) { k6.compareFiles(t) }

func TestK6Generated(t *testing.T) {
	k6.compareGenerated(t, "script.js", func(r *rand.Rand) map[string]string {
		text := func() string {
			return choose(r, `'`+word(r)+`'`, `'a b'`, `'ü'`, `'@part-a.txt'`, `'<x>'`, `'a&b=c'`, `'q"q'`, `'1+1'`, `'[x]'`, `'{x}'`, `'%41%2f'`, `''`, `'{{ x }}'`, "`${WORD}-${7}`", `'(!*)~'`, `'x\\y'`)
		}
		value := func() string {
			return choose(r, text(), text(), "1", "1.5", "true", "null", "undefined", "[1, 'b']", "{x: 1, a: [2, null]}", "0.00001", "[]")
		}
		object := func(value func() string) string {
			var all []string
			for range r.IntN(4) {
				all = append(all, fmt.Sprintf("'%s': %s", choose(r, word(r), "a", "b[]", "k y", "ü"), value()))
			}
			return "{" + strings.Join(all, ", ") + "}"
		}
		params := func() string {
			var all []string
			if r.IntN(2) == 0 {
				all = append(all, "headers: {'X-A': "+choose(r, "'v'", "5", "['a', 'b']", "null", "WORD", "'a  b'")+", 'content-type': 'application/json'}")
			}
			if r.IntN(4) == 0 {
				all = append(all, "cookies: {a: "+choose(r, "'1'", "'x y'", "{value: 'w', replace: true}")+"}")
			}
			if r.IntN(4) == 0 {
				all = append(all, "tags: {name: 'named'}")
			}
			return "{" + strings.Join(all, ", ") + "}"
		}
		target := func() string {
			return "BASE + " + choose(r, `'/`+word(r)+`'`, `'/`+word(r)+`?a=1&b=%7B'`, `'/ä b/{x}/"a"|^/%41%2F;,:@#f'`, `'/a%2fb//c/../d'`, `'?a=[1]|&b=c+d'`, "`/${WORD}/x?y=${WORD}`", `'/q?a=b c&ü'`, `'/x?y="<>'`)
		}
		body := func() string {
			return choose(r, text(), object(value), "JSON.stringify("+object(value)+")", "new Uint8Array([1, 2, 255]).buffer", "new Uint8Array([1, 2, 255]).subarray(1)",
				"{f: http.file('a"+word(r)+"', 'n \"ü.txt', 'text/plain')}", "{f: http.file(new Uint8Array([0, 255]).buffer, 'b.bin')}", "null", "42", "[1, 2]", "{}")
		}
		// withBody returns a body and parameters: of parts without a content type, which would not have their boundary.
		withBody := func() string {
			content, more := body(), params()
			if strings.Contains(content, "http.file") {
				more = strings.ReplaceAll(more, "content-type", "x-b")
			}
			return content + ", " + more
		}
		var b strings.Builder
		b.WriteString("import http from 'k6/http';\nimport { check, group, sleep } from 'k6';\n\nconst BASE = 'http://" + written + "';\nconst WORD = '" + word(r) + "';\n\nexport default function () {\n")
		for range 1 + r.IntN(4) {
			switch r.IntN(8) {
			case 0:
				fmt.Fprintf(&b, "  http.get(%s, %s);\n", target(), params())
			case 1:
				fmt.Fprintf(&b, "  http.request('%s', %s, %s, %s);\n", choose(r, "GET", "get", "PURGE", "POST", "DELETE"), target(), text(), params())
			case 2:
				fmt.Fprintf(&b, "  http.batch([['POST', %s, %s]]);\n", target(), withBody())
			case 3:
				fmt.Fprintf(&b, "  {\n    const r = http.post(%s, '{}');\n    check(r, { ok: (r) => r.status === 200 });\n    http.get(`${BASE}/items/${r.json('items.1.id')}?t=${r.json().token}`);\n  }\n", target())
			case 4:
				fmt.Fprintf(&b, "  group('g', () => { http.del(%s, %s, %s); });\n", target(), text(), params())
			default:
				fmt.Fprintf(&b, "  http.%s(%s, %s);\n", choose(r, "post", "put", "patch"), target(), withBody())
			}
		}
		b.WriteString("}\n")
		return map[string]string{"script.js": b.String()}
	})
}
