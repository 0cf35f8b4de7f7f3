package wrk

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

// readScript imports a script for a server.
func readScript(t *testing.T, script string) (*draft.Result, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("in.lua", []byte(script), 0o666); err != nil {
		t.Fatal(err)
	}
	return draft.Read([]draft.Format{Format()}, draft.Source{Format: "wrk", File: "in.lua", URL: "http://127.0.0.1:1/at/first", Out: "out.yaml"})
}

func listed(r *draft.Result) (text string) {
	for _, i := range r.Items {
		text += fmt.Sprintf("%d %s: %s\n", i.Line, i.What, i.Why)
	}
	return text
}

// Requests that never repeat are rows of a file, as many as there are calls: counters count on, and random values are drawn.
func TestRows(t *testing.T) {
	for script, want := range map[string][2]string{
		"n = 0\nfunction request() n = n + 1; return wrk.format('POST', '/orders/' .. n, nil, 'order ' .. n) end": {`{"body":"order 1000","path":"orders/1000"}`, "it is called 1000 times"},
		"function request() return wrk.format(nil, '/ü/' .. math.random(1, 1000000)) end":                         {`"path":"%c3%bc/`, "it is called 1000 times"},
	} {
		r, err := readScript(t, script)
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		if len(r.Files) != 1 || strings.Count(string(r.Files[0].Content), "\n") != most || !strings.Contains(string(r.Files[0].Content), want[0]) ||
			!strings.Contains(string(r.Text), "path: \"/{{ path }}\"") || !strings.Contains(listed(r), want[1]) {
			t.Errorf("%s:\n%.2000s%s%.2000v", script, r.Text, listed(r), r.Files)
		}
	}
}

// What a script does that wrk would not survive, or that an import cannot know, is listed with its line.
func TestListed(t *testing.T) {
	const request = "\nfunction request() return wrk.format() end"
	for script, want := range map[string]string{
		"init = function(args)\n  client.timeout = 5\nend" + request:                                                               "1 init: it fails, where wrk would end: in.lua:2: attempt to index a non-table object(nil)",
		"function response(status, headers, body)\n  token = body.token.x\nend" + request:                                          "1 response: it fails without a real response",
		"\n\nfunction done() end" + request:                                                                                        "3 done: figures are in the result",
		"n = 0\nfunction request() n = n + 1; if n > 30 then error('enough') end; return wrk.format(nil, '/' .. n) end":            "2 request: call 31 fails: in.lua:2: enough",
		"function request() return wrk.format() .. wrk.format() end":                                                               "it returns several requests at once",
		"wrk.path = '/x'\nfunction delay() return 5 end":                                                                           "the script does not say how much is sent",
		"local t = setmetatable({}, {__index = function() return 1 end})\nfunction setup(thread) thread:set('a', 1) end" + request: "2 setup: wrk has a state of the script in each thread",
	} {
		r, err := readScript(t, script)
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		if !strings.Contains(listed(r), want) {
			t.Errorf("%s: listed %swant %s", script, listed(r), want)
		}
	}
}

// Running any script ends, and scripts reach nothing but files below their folder.
func TestScriptsAreBounded(t *testing.T) {
	for script, want := range map[string]string{
		"while true do end": "the script needs more than",
		"local t = {}\nwhile true do t[#t + 1] = string.rep('x', 1e6) end": "the script needs more than",
		"function request() return request() .. 'x' end":                   "stack overflow",
		"function request() return string.rep('x', 1e5) end":               "request returns 100000 bytes",
		"function request() return 7 end":                                  "request returns number, and no text",
		"request = wrk.format(":                                            "in.lua",
		"wrk.path = io.open('/etc/passwd'):read('*a')":                     "attempt to index",
		"os.execute('true')":                                               "attempt to call a non-function",
		"local json = require 'cjson'":                                     "dyno has no modules of Lua: cjson",
		"wrk.path = dofile('in.lua')":                                      "attempt to call a non-function",
		"function request() return 'GET' end":                              "the script requests nothing",
	} {
		if _, err := readScript(t, script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
}
