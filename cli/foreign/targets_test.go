package foreign

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/load/scenario"
	"dyno/load/scenario/template"
)

// readNamed is a file that holds its name.
func readNamed(name string) (string, error) {
	if name == "none" {
		return "", os.ErrNotExist
	}
	return "<" + name + ">", nil
}

func TestReadTargets(t *testing.T) {
	headers := func(texts ...string) (all []scenario.Header) {
		for i := 0; i < len(texts); i += 2 {
			all = append(all, scenario.Header{Name: texts[i], Value: texts[i+1]})
		}
		return all
	}
	for _, c := range []struct {
		name, src, base, url string
		want                 []Target
	}{
		{"vegeta's", "# why\n\nGET http://h:80/a?b=c#d\nX-A: b: c\n# more\nx-b:\n\n  POST\thttp://h/\n@ f \n\n\nPUT http://h/{x}\n@f\nDELETE http://h", "", "http://h:80", []Target{
			{"GET", "/a?b=c", headers("X-A", "b: c", "x-b", ""), ""}, {"POST", "/", nil, "<f>"}, {"PUT", "/%7Bx%7D", nil, "<f>"}, {"DELETE", "/", nil, ""},
		}},
		{"JSON", `{"method":"GET","url":"https://h/a"}` + "\r\n\n" + `{"method":"POST","url":"https://h:443/b","body":"eHkA","header":{"B":["1","2"],"A":["3"]}}`, "", "https://h", []Target{
			{"GET", "/a", nil, ""}, {"POST", "/b", headers("A", "3", "B", "1", "B", "2"), "xy\x00"},
		}},
		{"both", "GET http://h/a\n{\"method\":\"GET\",\"url\":\"/b\"}\n", "", "http://h", []Target{{"GET", "/a", nil, ""}, {"GET", "/b", nil, ""}}},
		{"paths", "GET /a\nGET http://h:8080/b\n", "http://h:8080/c", "http://h:8080/c", []Target{{"GET", "/a", nil, ""}, {"GET", "/b", nil, ""}}},
		{"paths of a port that is not known yet", "GET /a\n", "http://h:{{port}}/", "http://h:{{port}}/", []Target{{"GET", "/a", nil, ""}}},
		{"a user", "GET http://ann:p%77@h/a\nX: y\n", "", "http://h", []Target{{"GET", "/a", headers("Authorization", "Basic YW5uOnB3", "X", "y"), ""}}},
	} {
		got, url, err := ReadTargets("t", c.src, c.base, readNamed)
		if err != nil || url != c.url {
			t.Errorf("%s: %s, %v", c.name, url, err)
			continue
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(Target{})); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestReadTargetsFaults(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", "t: there is no request; want lines such as GET http"},
		{"# GET http://h/\n", "t: there is no request"},
		{"X: y\n", "t:1: no request begins here; want a method and a URL"},
		{"http://h/\n", "t:1: no request begins here"},
		{"GET http://h/\n\nX: y\n", "t:3: no request begins here"},
		{"GET http://h/\n@f\nX: y\n", "t:3: no request begins here"},
		{"GET http://h/\n@f\n@f\n", "t:3: no request begins here"},
		{"GET http://h/\nX\n", "t:2: the line has no colon; want 'Name: value', @FILE"},
		{"GET http://h/\nx y: z\n", "t:2: the header field's name is no word"},
		{"GET http://h/\nX: a\x01b\n", "t:2: the value of X holds a control character"},
		{"GET http://h/\ncontent-length: 3\n", "t:2: dyno sets content-length itself, from the body; remove it"},
		{"GET http://h/\n@none\n", "t:2: file does not exist"},
		{"GET http://h/\n@large\n", "t:2: the body has 1048577 bytes; want at most 1048576"},
		{"GET h/\n", `t:1: url "h/": no scheme`},
		{"GET ftp://h/\n", `t:1: url "ftp://h/": scheme "ftp": want http or https`},
		{"GET /a\n", "t:1: a path without a host; write GET http://host/path, or give dyno the URL, too"},
		{"GET http://ann:hunter22@h:x/\n", `t:1: url "http://h:x/": `},
		{"GET http://h/\nGET http://i/\n", `t:2: "http://i/" is on another host than http://h; all requests of a run go to one`},
		{"GET http://h/\nGET http://h:81/\n", `t:2: "http://h:81/" is on another host`},
		{"GET http://h:443/\nGET https://h/\n", `t:2: "https://h/" is on another host`},
		{`{"method":"GET"}`, `t:1: url "": no scheme`},
		{`{"url":"http://h/"}`, "t:1: the method is missing, or no word"},
		{`{"method":"G T","url":"http://h/"}`, "t:1: the method is missing, or no word"},
		{`{"method":"GET","url":"http://h/","headers":{}}`, `t:1: this is no request in JSON; want {"method"`},
		{`{"method":"GET","url":"http://h/","body":"?"}`, "t:1: this is no request in JSON"},
		{"{\n\"method\":\"GET\"}", "t:1: this is no request in JSON"},
		{strings.Repeat("GET http://h/\n", scenario.MaxSteps+1), "t:1001: more than 1000 requests; any number of paths can be rows of --data-file"},
	} {
		_, _, err := ReadTargets("t", c.src, "", func(name string) (string, error) {
			if name == "large" {
				return strings.Repeat("x", template.MaxText+1), nil
			}
			return readNamed(name)
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%.60q: %v, want %s", c.src, err, c.want)
		}
	}
}

func TestListedName(t *testing.T) {
	for path, want := range map[string]string{
		"/": "7-GET", "/users/7?token=x": "7-GET-users-7", "*": "7-GET", "/a%20b/é": "7-GET-a-20b", "/" + strings.Repeat("x", 200): "7-GET-" + strings.Repeat("x", 94),
	} {
		if got := (&Target{Method: "GET", Path: path}).Name(7); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// Requests that are read from any file can be written as JSON, and are the same when that is
// read. Otherwise the error names a line.
func FuzzReadTargets(f *testing.F) {
	f.Add("GET http://h/a\nX: y\n\nPOST http://h/\n@f\n", "")
	f.Add(`{"method":"GET","url":"http://h/a","header":{"A":["b"]},"body":"eA=="}`, "")
	f.Add("A /://@", "0")
	f.Add("GET /a b\n#\nPUT /*\n", "http://h/")
	f.Fuzz(func(t *testing.T, src, base string) {
		requests, url, err := ReadTargets("t", src, base, readNamed)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "t:") {
				t.Errorf("not located: %v", err)
			}
			return
		}
		var lines strings.Builder
		for _, r := range requests {
			header := map[string][]string{}
			for _, h := range r.Headers {
				header[h.Name] = append(header[h.Name], h.Value)
			}
			line, err := json.Marshal(map[string]any{"method": r.Method, "url": r.Path, "header": header, "body": []byte(r.Body)})
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(line, '\n'))
		}
		again, _, err := ReadTargets("t", lines.String(), url, func(string) (string, error) { return "", errors.New("a file was read") })
		if err != nil {
			t.Fatalf("%v in\n%s", err, lines.String())
		}
		sorted := cmp.Transformer("byName", func(all []scenario.Header) map[string][]string {
			m := map[string][]string{}
			for _, h := range all {
				m[h.Name] = append(m[h.Name], h.Value)
			}
			return m
		})
		if diff := cmp.Diff(requests, again, cmp.AllowUnexported(Target{}), sorted); diff != "" {
			t.Error(diff)
		}
	})
}
