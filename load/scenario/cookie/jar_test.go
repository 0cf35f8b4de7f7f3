package cookie

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var example = &Site{Host: "www.example.com"}

const second = int64(time.Second)

func TestJar(t *testing.T) {
	for _, tt := range []struct {
		name   string
		site   *Site
		set    []string // PATH field
		path   string
		after  int64 // seconds
		expect string
	}{
		{"plain", example, []string{"/ a=1", "/ b=2; HttpOnly; SameSite=Lax"}, "/x", 0, "a=1; b=2"},
		{"replaced", example, []string{"/ a=1", "/ b=2", "/ a=3"}, "/", 0, "a=3; b=2"},
		{"blanks and quotes", example, []string{"/  a = \"x y\" ;Path = / "}, "/", 0, `a="x y"`},
		{"empty value", example, []string{"/ a="}, "/", 0, "a="},
		{"no name", example, []string{"/ =1", "/ a", "/ ", "/ ;Path=/"}, "/", 0, ""},
		{"default path", example, []string{"/x/y a=1", "/x b=2", "nothing c=3"}, "/x/z", 0, "a=1; b=2; c=3"},
		{"default path elsewhere", example, []string{"/x/y a=1"}, "/xy", 0, ""},
		{"paths", example, []string{"/ a=1; Path=/x/", "/ b=2; path=/x", "/ c=3; PATH=x", "/ d=4; Path="}, "/x/y", 0, "a=1; b=2; c=3; d=4"},
		{"longer paths first", example, []string{"/ a=1", "/ b=2; Path=/x/y", "/ c=3; Path=/x", "/ d=4; Path=/x"}, "/x/y", 0, "b=2; c=3; d=4; a=1"},
		{"one name, two paths", example, []string{"/ a=1", "/ a=2; Path=/x"}, "/x", 0, "a=2; a=1"},
		{"the last path counts", example, []string{"/ a=1; Path=/x; Path=/y"}, "/y", 0, "a=1"},
		{"domains", example, []string{"/ a=1; Domain=example.com", "/ b=2; Domain=.EXAMPLE.com", "/ c=3; Domain=www.example.com", "/ d=4; Domain="}, "/", 0, "a=1; b=2; c=3; d=4"},
		{"foreign domains", example, []string{"/ a=1; Domain=example.org", "/ b=2; Domain=ample.com", "/ c=3; Domain=x.www.example.com", "/ d=4; Domain=www.example.com.org"}, "/", 0, ""},
		{"one name, two domains", example, []string{"/ a=1; Domain=example.com", "/ a=2"}, "/", 0, "a=1; a=2"},
		{"an address", &Site{Host: "10.0.0.1", Address: true}, []string{"/ a=1; Domain=0.0.1", "/ b=2; Domain=10.0.0.1"}, "/", 0, "b=2"},
		{"Max-Age", example, []string{"/ a=1; Max-Age=10", "/ b=2; Max-Age=9", "/ c=3; max-age=0", "/ d=4; Max-Age=-1", "/ e=5; Max-Age=x"}, "/", 9, "a=1; e=5"},
		{"a huge Max-Age", example, []string{"/ a=1; Max-Age=99999999999999999999999"}, "/", 1e9, "a=1"},
		{"removed", example, []string{"/ a=1", "/ b=2", "/ a=; Max-Age=0"}, "/", 0, "b=2"},
		{"Expires", example, []string{"/ a=1; Expires=Thu, 01 Jan 1970 00:00:10 GMT", "/ b=2; Expires=Thu, 01-Jan-70 00:00:09 GMT", "/ c=3; expires=nonsense"}, "/", 9, "a=1; c=3"},
		{"Max-Age counts more", example, []string{"/ a=1; Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:01 GMT", "/ b=2; Expires=Thu, 01 Jan 2070 00:00:01 GMT; Max-Age=5"}, "/", 9, "a=1"},
		{"Secure without TLS", example, []string{"/ a=1; Secure", "/ b=2"}, "/", 0, "b=2"},
		{"Secure with TLS", &Site{Host: "h", Secure: true}, []string{"/ a=1; Secure", "/ b=2"}, "/", 0, "a=1; b=2"},
		{"control characters", example, []string{"/ a=1\x00", "/ a\n=1", "/ b=1; Path=/\n"}, "/", 0, ""},
		{"too large", example, []string{"/ a=" + strings.Repeat("x", maxCookieBytes), "/ b=2"}, "/", 0, "b=2"},
	} {
		var j Jar
		for _, line := range tt.set {
			path, field, _ := strings.Cut(line, " ")
			j.Set([]byte(field), []byte(path), tt.site, 0)
		}
		if got := string(j.AppendHeader(nil, []byte(tt.path), tt.site, tt.after*second)); got != tt.expect {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.expect)
		}
		if j.Clear(); len(j.AppendHeader(nil, []byte(tt.path), tt.site, 0)) > 0 {
			t.Errorf("%s: cookies after clear", tt.name)
		}
	}
}

// A jar is bounded: those that have expired go first, then the oldest.
func TestJarIsBounded(t *testing.T) {
	var j Jar
	j.Set([]byte("old=1; Path=/long/path"), []byte("/"), example, 0)
	for i := range maxCookies - 2 {
		j.Set(fmt.Appendf(nil, "c%d=1", i), []byte("/"), example, 0)
	}
	j.Set([]byte("short=1; Max-Age=1"), []byte("/"), example, 0)
	j.Set([]byte("x=1"), []byte("/"), example, 2*second)
	got := string(j.AppendHeader(nil, []byte("/long/path"), example, 2*second))
	if strings.Contains(got, "short") || !strings.Contains(got, "old=1") || !strings.Contains(got, "x=1") {
		t.Errorf("after the expired one should have gone: %s", got)
	}
	j.Set([]byte("y=1"), []byte("/"), example, 2*second)
	got = string(j.AppendHeader(nil, []byte("/long/path"), example, 2*second))
	if strings.Contains(got, "old=1") || !strings.Contains(got, "y=1") || strings.Count(got, "=") != maxCookies {
		t.Errorf("after the oldest should have gone: %s", got)
	}
}

// A jar sends what net/http's jar sends.
func TestJarAgreesWithNetHTTP(t *testing.T) {
	paths := []string{"/", "/a", "/a/", "/a/b", "/ab", "/a/b/c"}
	rapid.Check(t, func(t *rapid.T) {
		secure := rapid.Bool().Draw(t, "secure")
		site, scheme := &Site{Host: "www.example.com", Secure: secure}, "http"
		if secure {
			scheme = "https"
		}
		theirs, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		var ours Jar
		now := time.Now().UnixNano()
		for range rapid.IntRange(1, 12).Draw(t, "fields") {
			field := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name") + "=" + rapid.SampledFrom([]string{"1", "2", ""}).Draw(t, "value")
			for _, attribute := range rapid.SliceOfN(rapid.SampledFrom([]string{
				"Path=/", "Path=/a", "path=/a/", "Path=/a/b", "Path=x", "Domain=example.com", "Domain=.www.example.com", "Domain=example.org", "Domain=ample.com",
				"Max-Age=0", "Max-Age=1000", "max-age=-5", "Expires=Wed, 01 Jan 2003 00:00:00 GMT", "Expires=Wed, 01 Jan 2200 00:00:00 GMT", "Secure", "HttpOnly", "Odd=1",
			}), 0, 3).Draw(t, "attributes") {
				field += "; " + attribute
			}
			path := rapid.SampledFrom(paths).Draw(t, "path")
			ours.Set([]byte(field), []byte(path), site, now)
			cookie, err := http.ParseSetCookie(field)
			if err != nil {
				t.Fatal(err)
			}
			theirs.SetCookies(&url.URL{Scheme: scheme, Host: site.Host, Path: path}, []*http.Cookie{cookie})
		}
		for _, path := range paths {
			var want []string
			for _, c := range theirs.Cookies(&url.URL{Scheme: scheme, Host: site.Host, Path: path}) {
				want = append(want, c.Name+"="+c.Value)
			}
			if got := string(ours.AppendHeader(nil, []byte(path), site, now)); got != strings.Join(want, "; ") {
				t.Fatalf("to %s: %q, want %q", path, got, want)
			}
		}
	})
}

func TestParseDate(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string // empty: no date
	}{
		{"Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"},
		{"Sun, 06-Nov-1994 08:49:37 GMT", "1994-11-06T08:49:37Z"},
		{"Sun, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"},
		{"Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"},
		{"Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37Z"},
		{"Wed, 29 Feb 2023 00:00:00 GMT", ""},
		{"Sun, 01 Jan 2023 24:00:00 GMT", ""},
		{"tomorrow", ""},
		{"", ""},
	} {
		at, ok := parseDate([]byte(tt.text))
		got := ""
		if ok {
			got = time.Unix(0, at).UTC().Format(time.RFC3339)
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
	for text, want := range map[string]int64{"Fri, 31 Dec 9999 23:59:59 GMT": math.MaxInt64, "Mon, 01 Jan 1601 00:00:00 GMT": math.MinInt64} {
		if at, ok := parseDate([]byte(text)); !ok || at != want {
			t.Errorf("%s: %d, %v", text, at, ok)
		}
	}
}

// FuzzSetCookie: no field makes a jar panic, go beyond its bounds, or send what would
// break a request.
func FuzzSetCookie(f *testing.F) {
	f.Add([]byte("a=1; Path=/x; Domain=example.com; Max-Age=5; Secure"), []byte("/x/y?z"), int64(0))
	f.Add([]byte("a=1; Expires=Sun, 06 Nov 1994 08:49:37 GMT"), []byte(""), int64(1e18))
	f.Add([]byte(";;=;a==b"), []byte("x"), int64(-1))
	f.Fuzz(func(t *testing.T, field, path []byte, now int64) {
		var j Jar
		for _, line := range strings.Split(string(field), "\n") {
			j.Set([]byte(line), path, example, now)
		}
		if len(j.cookies) > maxCookies {
			t.Fatalf("%d cookies", len(j.cookies))
		}
		for i := range j.cookies {
			if c := &j.cookies[i]; len(c.text) > maxCookieBytes || c.name == 0 || c.text[c.path] != '/' || i > 0 && c.before(&j.cookies[i-1]) {
				t.Fatalf("cookie %d: %+v", i, c)
			}
		}
		if value := j.AppendHeader(nil, path, example, now); bytes.ContainsFunc(value, isControl) || len(bytes.TrimSpace(value)) < len(value) {
			t.Fatalf("%q", value)
		}
	})
}
