package differential

import (
	"math/rand/v2"
	"strings"
	"testing"
)

var curl = tool{
	format:  "curl",
	program: "curl",
	live:    true,
	inOrder: true,
	command: func(file string) []string { return []string{"bash", file} },
	own:     []omission{{`accept-encoding: deflate, gzip.*`, "--compressed names what curl was built with"}},
}

func TestCurl(t *testing.T) { curl.compareFiles(t) }

// Values that mean something to curl, to a shell or to templates.
var specialValues = []string{
	"a=b", "@part-a.txt", "<part-a.txt", "a=@part-a.txt", "a=<part-b.html", "a b=c d", "=x", "x=", "a;b", "a=b;type=text/x", "a=b;filename=c.txt", "a=@part-b.html;type=x/y; z=1",
	`a="q;r" `, `{"a": "b\"c"}`, "{{ a }}", "a={{b}}&c=%7B", "ü=é", "a+b=c%20d", "$HOME", "a\tb", "'", `\`, "a=<b>", "@", "name@part-a.txt", "a=b&c=d", "[1,2]", "#c", "a: b", "a=;b", "a= b",
}

func TestCurlGenerated(t *testing.T) {
	curl.compareGenerated(t, "requests.sh", func(r *rand.Rand) map[string]string {
		var b strings.Builder
		quoted := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
		value := func() string { return quoted(choose(r, specialValues...)) }
		for range 1 + r.IntN(3) {
			b.WriteString("curl")
			form, bodies := r.IntN(3) == 0, []string{"-d", "--data-raw", "--data-binary", "--data-urlencode", "--json", "--data-ascii"}
			if form {
				bodies = []string{"-F", "--form-string"}
			}
			for range r.IntN(4) {
				b.WriteString(" " + choose(r, bodies...) + " " + value())
			}
			for range r.IntN(3) {
				switch r.IntN(8) {
				case 0:
					b.WriteString(" -H " + quoted("X-"+word(r)+": "+choose(r, specialValues...)))
				case 1:
					b.WriteString(" -H " + quoted(choose(r, "Content-Type: text/plain", "Content-Type:", "X-Empty;", "Accept: a/b", "Accept:", "Cookie: a=b", "User-Agent: x", "X-Gone:")))
				case 2:
					b.WriteString(" -X " + choose(r, "PUT", "DELETE", "PATCH", "OPTIONS", "GET", "POST"))
				case 3:
					b.WriteString(" -u " + quoted(choose(r, "ann:pw", "ann:", "a b:c:d", "ü:é")))
				case 4:
					b.WriteString(" -b " + quoted(choose(r, "a=b", "a=b; c=d", `a="b c"`)))
				case 5:
					b.WriteString(choose(r, " -G", " --compressed", " -sS", " -A "+quoted(word(r)), " -e http://r/"+word(r), " -r 0-5"))
				case 6:
					b.WriteString(" --url-query " + value())
				case 7:
					b.WriteString(choose(r, " -g", " -I", " --path-as-is", " -L", " -k", " -o /dev/null", " --http1.1"))
				}
			}
			b.WriteString(" " + quoted("http://"+choose(r, "", "", "", "ann:p%40w@")+written+"/"+choose(r, word(r), "a/../b", "[1-3]", "{x,y}", "a?b=c", "ü", "a%20b", "?q={a}", "a#b", "*", "~a", "a;b", "\\[")))
			b.WriteString("\n")
		}
		return map[string]string{"requests.sh": b.String(), "part-a.txt": "line 1\r\nline 2\n", "part-b.html": "<p>{{ a }}</p>"}
	})
}
