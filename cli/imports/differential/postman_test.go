package differential

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

var postman = tool{
	format:  "postman",
	program: "newman",
	command: func(file string) []string { return []string{"newman", "run", file, "--reporters", "progress"} },
	own: []omission{
		{`accept-encoding: gzip, deflate, br`, "the import lists that it is not sent"},
		{`cache-control: no-cache`, "the import lists that it is not sent"},
		{`postman-token: .*`, "the import lists that it is not sent"},
	},
	inOrder: true,
	general: func(i draft.Item) bool { return i.Line == 0 },
}

func TestPostman(t *testing.T) { postman.compareFiles(t) }

func TestPostmanGenerated(t *testing.T) {
	postman.compareGenerated(t, "c.json", func(r *rand.Rand) map[string]string {
		files := map[string]string{}
		odd := func() string {
			return choose(r, word(r), "a b", "ü", "@part-a.txt", "<part-a.txt", "a;type=text/html", "{{v}}", "{{w}}-{{v}}", "a&b=c", `q"q`, "'", "1+1=2", "[x]", "{x}", "%41", "", "x\\y", "(!*)~", "a|b^c`d")
		}
		type object = map[string]any
		pairs := func() (all []object) {
			for range r.IntN(4) {
				pair := object{"key": choose(r, word(r), "a", "b[]", "k y"), "value": odd()}
				if r.IntN(5) == 0 {
					pair["disabled"] = true
				}
				all = append(all, pair)
			}
			return all
		}
		var items []object
		for range 1 + r.IntN(3) {
			host := object{"host": []string{"{{base}}"}, "path": []string{word(r), strings.NewReplacer("?", "", "#", "").Replace(odd()), "end"}, "query": pairs()}
			var url any = host
			if r.IntN(3) == 0 {
				url = "http://" + written + "/" + word(r) + "?x=" + odd() + "&y=" + odd()
			}
			request := object{"method": choose(r, "GET", "POST", "PUT", "DELETE", "post"), "url": url}
			var header []object
			for _, name := range []string{"X-A", "x-b", "Content-Type", "Accept"}[:r.IntN(5)] {
				header = append(header, object{"key": name, "value": choose(r, word(r), "{{v}}", "{{w}}", "a, b", "<x>", "@x"), "disabled": r.IntN(3) == 0})
			}
			request["header"] = header
			switch r.IntN(6) {
			case 0:
				request["body"] = object{"mode": "raw", "raw": choose(r, "@part-a.txt", `{"a": "{{v}}", "b": "ü"}`, "{{w}}", "a=b", "{{v}}\r\n"), "options": object{"raw": object{"language": choose(r, "json", "xml", "text", "html", "javascript")}}}
			case 1:
				request["body"] = object{"mode": "urlencoded", "urlencoded": pairs()}
			case 2:
				form := pairs()
				for _, f := range form {
					if f["type"] = "text"; r.IntN(3) == 0 {
						f["type"], f["src"] = "file", choose(r, "part-a.txt", "part-b.json")
						files["part-a.txt"], files["part-b.json"] = "text {{v}}", "{}"
						delete(f, "value")
					}
				}
				request["body"] = object{"mode": "formdata", "formdata": form}
			case 3:
				request["body"] = object{"mode": "graphql", "graphql": object{"query": "{ x(a: \"ü\") }", "variables": choose(r, "", `{"a": 1}`, `{"a": "{{v}}"}`)}}
			}
			switch r.IntN(5) {
			case 0:
				request["auth"] = object{"type": "bearer", "bearer": []object{{"key": "token", "value": odd()}}}
			case 1:
				request["auth"] = object{"type": "apikey", "apikey": []object{{"key": "key", "value": "k"}, {"key": "value", "value": odd()}, {"key": "in", "value": choose(r, "query", "header")}}}
			}
			items = append(items, object{"name": word(r), "request": request})
		}
		if r.IntN(2) == 0 {
			items = []object{{"name": "folder", "item": items, "auth": object{"type": "basic", "basic": []object{{"key": "username", "value": "{{v}}"}, {"key": "password", "value": "p:w"}}}}}
		}
		text, err := json.MarshalIndent(object{
			"info":     object{"name": "c", "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"},
			"variable": []object{{"key": "base", "value": "http://" + written}, {"key": "v", "value": word(r)}, {"key": "w", "value": choose(r, "{{v}}x", "a b", "1", `q"q`, "ü")}},
			"item":     items,
		}, "", " ")
		if err != nil {
			panic(err)
		}
		files["c.json"] = string(text)
		return files
	})
}
