package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

var vegeta = tool{
	format:  "vegeta",
	program: "vegeta",
	command: func(file string) []string {
		format := "http"
		if strings.HasSuffix(file, ".json") {
			format = "json"
		}
		// Lazily, it ends after the last target, however long it takes.
		return []string{"vegeta", "attack", "-format", format, "-lazy", "-rate", "0", "-workers", "1", "-max-workers", "1", "-targets", file, "-output", "attacked"}
	},
	own:     []omission{{`accept-encoding: gzip`, "Go's client asks for it, and decodes it itself"}, {`x-vegeta-seq: .*`, "it numbers what vegeta sends"}},
	inOrder: true,
}

func TestVegeta(t *testing.T) { vegeta.compareFiles(t) }

func TestVegetaGenerated(t *testing.T) {
	vegeta.compareGenerated(t, "targets.txt", func(r *rand.Rand) map[string]string {
		files := map[string]string{}
		var b strings.Builder
		for range 1 + r.IntN(3) {
			fmt.Fprintf(&b, "%s http://%s/%s", choose(r, "GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"), written, word(r))
			if r.IntN(2) == 0 {
				fmt.Fprintf(&b, "?%s=%s", word(r), choose(r, word(r), "a%20b", "a+b", "{x}", "ü", "a|b", "%7Bx%7D", "[1]", "'", "@x", "$1"))
			}
			b.WriteString("\n")
			names := []string{"X-A", "x-b", "Accept", "User-Agent", "Content-Type", "Cookie", "Authorization"}
			for _, n := range r.Perm(len(names))[:r.IntN(3)] {
				fmt.Fprintf(&b, "%s: %s\n", names[n], choose(r, word(r), "a, b", "@file", "{{ a }}", "<x>", "ü", "a:b", "a  b", "#c"))
			}
			if r.IntN(3) == 0 {
				name := "part-" + word(r)
				files[name] = choose(r, "", "{\"a\": 1}", "a=b&c=@d", "@x", "{{ b }}", "a\r\nb\n", "\x00\xff", "ü")
				fmt.Fprintf(&b, "@%s\n", name)
			}
			b.WriteString(choose(r, "\n", "\n\n", "\n# a comment\n"))
		}
		files["targets.txt"] = b.String()
		return files
	})
}

// word returns a short word.
func word(r *rand.Rand) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	var b strings.Builder
	for range 1 + r.IntN(8) {
		b.WriteByte(letters[r.IntN(len(letters))])
	}
	return b.String()
}

// choose returns one of several texts.
func choose(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }
