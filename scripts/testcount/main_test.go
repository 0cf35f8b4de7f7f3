package main

import (
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		want   string
		failed int
	}{
		"subtests count, their parent does not": {[]string{
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"run","Package":"p","Test":"A/x"}`,
			`{"Action":"pass","Package":"p","Test":"A/x"}`, `{"Action":"run","Package":"p","Test":"A/y"}`,
			`{"Action":"fail","Package":"p","Test":"A/y"}`, `{"Action":"fail","Package":"p","Test":"A"}`,
			`{"Action":"fail","Package":"p"}`,
		}, "1 passed, 1 failed, 0 skipped", 1},
		"a parent that fails by itself": {[]string{
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"run","Package":"p","Test":"A/x"}`,
			`{"Action":"pass","Package":"p","Test":"A/x"}`, `{"Action":"fail","Package":"p","Test":"A"}`,
			`{"Action":"fail","Package":"p"}`,
		}, "1 passed, 1 failed, 0 skipped", 1},
		"a package that does not build": {[]string{
			`{"ImportPath":"p","Action":"build-output","Output":"no such thing\n"}`, `{"Action":"fail","Package":"p"}`,
		}, "0 passed, 1 failed, 0 skipped", 1},
		"a test that never ends": {[]string{
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"fail","Package":"p"}`,
		}, "0 passed, 1 failed, 0 skipped", 1},
		"a package that never ends": {[]string{
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"pass","Package":"p","Test":"A"}`,
		}, "1 passed, 1 failed, 0 skipped", 1},
		"a skip, with its reason": {[]string{
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:1: no wrk\n"}`,
			`{"Action":"skip","Package":"p","Test":"A"}`, `{"Action":"pass","Package":"p"}`,
		}, "0 passed, 0 failed, 1 skipped", 0},
		"left out by -short": {[]string{
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:1: -short: takes a minute\n"}`,
			`{"Action":"skip","Package":"p","Test":"A"}`, `{"Action":"pass","Package":"p"}`,
		}, "0 passed, 0 failed, 1 skipped", 0},
		"one run of several fails": {[]string{
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"pass","Package":"p","Test":"A"}`,
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"fail","Package":"p","Test":"A"}`,
			`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"pass","Package":"p","Test":"A"}`,
			`{"Action":"run","Package":"p","Test":"B"}`, `{"Action":"pass","Package":"p","Test":"B"}`,
			`{"Action":"fail","Package":"p"}`,
		}, "1 passed, 1 failed, 0 skipped", 1},
		"nothing": {nil, "0 passed, 1 failed, 0 skipped", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			failed, err := count(strings.NewReader(strings.Join(c.events, "\n")), &out)
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if err != nil || failed != c.failed || lines[len(lines)-1] != c.want {
				t.Errorf("failed %d, %v, output:\n%s\nwant %d and %q", failed, err, &out, c.failed, c.want)
			}
			if strings.Contains(name, "reason") && !strings.Contains(out.String(), "skip  p A: a_test.go:1: no wrk") {
				t.Errorf("no reason in:\n%s", &out)
			}
			if strings.Contains(name, "-short") && (strings.Contains(out.String(), "skip ") || lines[len(lines)-2] != "1 of the skipped are left out by -short") {
				t.Errorf("listed, or not counted:\n%s", &out)
			}
		})
	}
}
