package scenario

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// agreePattern holds a pattern to package regexp.
func agreePattern(t interface{ Fatalf(string, ...any) }, expression string, group int, text []byte) {
	p, groups, err := newPattern(expression, group)
	if n := regexp.MustCompile(expression).NumSubexp(); err != nil || groups != n {
		t.Fatalf("%q: %d groups, want %d; %v", expression, groups, n, err)
	}
	if group == 0 && groups > 0 {
		group = 1
	}
	loc := regexp.MustCompile(expression).FindSubmatchIndex(text)
	wantOK := loc != nil && loc[2*group] >= 0
	var m machine
	for range 2 { // again, with what the first time has left
		begin, end, ok := m.find(p, text)
		if ok != wantOK || ok && (begin != loc[2*group] || end != loc[2*group+1]) {
			t.Fatalf("%q, group %d, of %q: %d to %d, %v; want %v", expression, group, text, begin, end, ok, loc)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		expression, text string
		group            int
	}{
		{`token="([^"]+)"`, `<a token="x"><b token="yz">`, 1},
		{`token=(\w+)`, `tok token= token=é token=a1`, 1},
		{`a|ab`, "xab", 0},
		{`(a|ab)(c|bcd)(d*)`, "abcd", 2},
		{`(a*)(b|abc)`, "aaabc", 1},
		{`(a*?)b`, "aab", 1},
		{`(?:(a)|b)*`, "ab", 1},
		{`(a)?b`, "b", 1},
		{`(?i)ÀB(c)`, "xàbC", 1},
		{`^x(.)`, "ax\nxb", 1},
		{`(?m)^x(.)$`, "ax\nxb\nxc", 1},
		{`(?s)a(.*)c`, "a\nb\nc", 1},
		{`a(.*)c`, "a\nbc ac", 1},
		{`\bfoo\b`, "afoo foo", 0},
		{`\Boo`, "oo foo", 0},
		{`$`, "abc", 0},
		{``, "abc", 0},
		{`x*`, "aax", 0},
		{`(é+)`, "aéé\xff", 1},
		{`.`, "\xff", 0},
		{`[^a]`, "aé", 0},
		{`\z`, "", 0},
		{`(?:x{2,3}){2}(y)`, strings.Repeat("x", 7) + "y", 1},
	} {
		agreePattern(t, tt.expression, tt.group, []byte(tt.text))
	}
}

func TestPatternsAgreeWithRegexp(t *testing.T) {
	atom := rapid.SampledFrom([]string{"a", "b", "é", ".", "[ab]", "[^a]", `\w`, "^", "$", `\b`, "(?m:^)", "(?i:A)", "\n"})
	var expression func(t *rapid.T, depth int) string
	expression = func(t *rapid.T, depth int) string {
		if depth == 0 {
			return atom.Draw(t, "atom")
		}
		part := func() string { return expression(t, depth-1) }
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return part() + part()
		case 1:
			return "(" + part() + "|" + part() + ")"
		case 2:
			return "(" + part() + ")" + rapid.SampledFrom([]string{"*", "+", "?", "*?", "+?", "??", "{2}"}).Draw(t, "times")
		case 3:
			return "(?:" + part() + ")*"
		default:
			return part()
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		e := expression(t, 3)
		text := rapid.StringOf(rapid.RuneFrom([]rune("abAé\n "))).Draw(t, "text")
		group := rapid.IntRange(0, regexp.MustCompile(e).NumSubexp()).Draw(t, "group")
		agreePattern(t, e, group, []byte(text))
	})
}

// FuzzPattern: a pattern finds what package regexp finds.
func FuzzPattern(f *testing.F) {
	f.Add(`token="([^"]+)"`, []byte(`token="x"`), 1)
	f.Add(`(a|ab)(c|bcd)(d*)`, []byte("abcd"), 3)
	f.Add(`(?i)\bé(.)`, []byte("É\xff"), 1)
	f.Fuzz(func(t *testing.T, expression string, text []byte, group int) {
		if len(expression) > 100 || len(text) > 1000 {
			return
		}
		re, err := regexp.Compile(expression)
		if err != nil || group < 0 || group > re.NumSubexp() {
			return
		}
		agreePattern(t, expression, group, text)
	})
}

// Time is proportional to the text, also where a machine that goes back would take 2ⁿ
// steps.
func TestPatternsDoNotExplode(t *testing.T) {
	p, _, err := newPattern("(a*)*(a*)*(a*)*b", 1)
	if err != nil {
		t.Fatal(err)
	}
	var m machine
	if _, _, ok := m.find(p, []byte(strings.Repeat("a", 20_000))); ok {
		t.Error("found a b")
	}
}

func BenchmarkPattern(b *testing.B) {
	page := []byte(strings.Repeat(`<p class="x">some text of a page</p>`+"\n", 100) + `<input name="csrf" value="0123456789abcdef">`)
	for _, bb := range []struct{ name, expression string }{
		{"with-prefix", `name="csrf" value="([^"]*)"`},
		{"without-prefix", `\w+="csrf" value="([^"]*)"`},
	} {
		b.Run(bb.name, func(b *testing.B) {
			p, _, err := newPattern(bb.expression, 1)
			if err != nil {
				b.Fatal(err)
			}
			var m machine
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, ok := m.find(p, page); !ok {
					b.Fatal("nothing found")
				}
			}
		})
	}
}
