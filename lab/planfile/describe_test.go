package planfile

import (
	"testing"

	"dyno/lab/plan"
)

func TestDescribe(t *testing.T) {
	for text, want := range map[string]string{
		"target: {protocol: http, url: http://127.0.0.1:80/a?b=c}\nload: {closed: {connections: 1}}":                                                      "GET http://127.0.0.1:80/a?b=c",
		"target: {protocol: http, url: http://127.0.0.1:80/a}\nload: {closed: {connections: 1}, request: {path: /b, body: x}}":                            "POST http://127.0.0.1:80/b",
		"target: {protocol: http, url: http://127.0.0.1:80/}\nload: {closed: {connections: 1}, scenario: {steps: [{name: a, path: /b}]}}":                 "scenario at http://127.0.0.1:80/",
		"target: {protocol: http, url: http://127.0.0.1:80/}\nload: {closed: {connections: 1}, scenario: {in_turn: true, steps: [{name: a}, {name: b}]}}": "2 requests in turn at http://127.0.0.1:80/",
		"target: {protocol: tcp, address: '127.0.0.1:80'}\nload: {closed: {connections: 1}}":                                                              "tcp 127.0.0.1:80",
		"target: {protocol: sse, url: http://127.0.0.1:80/e}\nload: {subscribers: {connections: 1}}":                                                      "events of http://127.0.0.1:80/e",
		"target: {protocol: llm, url: http://127.0.0.1:80/v1}\nload: {closed: {connections: 1}, ask: {model: m}}":                                         "answers of http://127.0.0.1:80/v1",
		"target: {protocol: grpc, url: http://127.0.0.1:80}\nload: {closed: {connections: 1}, call: {method: a.B/C, protoset: none}}":                     "a.B/C at http://127.0.0.1:80",
	} {
		e, err := Parse("x.yaml", []byte("name: x\n"+text+"\n"), Options{})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := e.Variants[0].Describe(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := plan.Unquote(plan.Quote("a {{b}} c")); got != "a {{b}} c" {
		t.Errorf("unquoted %q", got)
	}
}
