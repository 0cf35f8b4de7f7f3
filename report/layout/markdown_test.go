package layout

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Escaped text has nothing left that ends a cell, begins HTML, or is formatted.
func TestMarkdownEscapes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a|b", `a\|b`}, {"`x`", "\\`x\\`"}, {"<script>", "&lt;script&gt;"}, {"a & b", "a &amp; b"}, {"**a**", `\*\*a\*\*`},
		{"target.cpu_per_request", "target.cpu_per_request"}, {"_a_", `\_a\_`}, {"[1] x", `\[1\] x`}, {"~ (1)", `\~ (1)`},
		{"- a", `\- a`}, {"1. a", `1\. a`}, {"12) a", `12\) a`}, {"1.5 ms", "1.5 ms"}, {"+1.5%", "+1.5%"}, {"a\nb", "a b"}, {`\`, `\\`}, {"# a", `\# a`}, {"$x$", `\$x\$`},
		{"![a](b)", `\!\[a\](b)`}, {"---", `\-\-\-`}, {"1.", `1\.`}, {"a\x1bb", "a&lt;U+001B&gt;b"}, {"", ""},
	} {
		if got := EscapeMarkdown(c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		out := EscapeMarkdown(rapid.StringOf(rapid.SampledFrom([]rune("|`*_<>&[]\\~\n\r #-a1.)é\x00"))).Draw(t, "text"))
		bare := strings.NewReplacer("&lt;", "", "&gt;", "", "&amp;", "", `\\`, "", `\|`, "", "\\`", "", `\*`, "", `\[`, "", `\]`, "", `\~`, "", `\#`, "").Replace(out)
		if i := strings.IndexAny(bare, "|`*<>&[]~#\n\r\x00"); i >= 0 {
			t.Errorf("%q is left of %q", bare[i:], out)
		}
	})
}
