package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
)

var nginxLog = tool{
	format: "nginx-log", url: "http://" + written,
	general: func(i draft.Item) bool { return strings.HasPrefix(i.Why, "a log does not have") },
}

func TestNginxLog(t *testing.T) { nginxLog.compareFiles(t) }

// A log has methods and targets only.
func TestNginxLogGenerated(t *testing.T) {
	nginxLog.compareKnown(t, "access.log", func(r *rand.Rand) (content string, known []request) {
		var b strings.Builder
		seen := map[string]bool{}
		for n := range 1 + r.IntN(5) {
			method := choose(r, "GET", "GET", "POST", "DELETE", "HEAD", "PROPFIND")
			target := "/" + choose(r, word(r), "a b", `q"uote`, `back\slash`, "ü\xff", "<b>|^`", "{{ x }}", "%zz", "a/../b", "/double", "@f", "a#b", "tab\tx", "[1]")
			if r.IntN(2) == 0 {
				target += "?" + choose(r, "a=b", "q=blue shoes", "x=@file&y=<file", "u=http://h/", "a=\"b\"", "%20+")
			}
			if protocol := choose(r, "HTTP/1.1", "HTTP/2.0", "HTTP/1.0"); !seen[method+target] {
				known = append(known, request{method: method, target: target})
				fmt.Fprintf(&b, "%s - %s [29/Mar/2026:03:00:%02d +0200] \"%s %s %s\" %s 12 \"-\" \"agent \\x22x\\x22\"\n",
					choose(r, "127.0.0.1", "::1", "2001:db8::1"), choose(r, "-", "ann"), n, method, escapedByNginx(target), protocol, choose(r, "200", "404", "499", "444", "503", "304", "000"))
			}
			seen[method+target] = true
		}
		return b.String(), known
	})
}

// escapedByNginx returns a text as nginx writes it into a log.
func escapedByNginx(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c == '"' || c == '\\' || c < ' ' || c >= 0x7f {
			fmt.Fprintf(&b, `\x%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
