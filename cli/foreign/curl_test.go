package foreign

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUserInURL(t *testing.T) {
	if got, want := UserInURL("a%40b:c%3Ad%zz"), "Basic YUBiOmMlM0FkJXp6"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestConnect(t *testing.T) {
	for _, c := range []struct {
		name               string
		resolve, connectTo []string
		address, want      string
		fault              string // in the first one; empty: there is none
	}{
		{"neither", nil, nil, "a:80", "a:80", ""},
		{"resolve", []string{"a:80:127.0.0.1"}, nil, "a:80", "127.0.0.1:80", ""},
		{"case", []string{"A.B:80:127.0.0.1"}, nil, "a.b:80", "127.0.0.1:80", ""},
		{"the first that fits", []string{"b:80:127.0.0.1", "a:81:127.0.0.2", "a:80:127.0.0.3", "a:80:127.0.0.4"}, nil, "a:80", "127.0.0.3:80", ""},
		{"any host", []string{"*:80:127.0.0.1"}, nil, "a:80", "127.0.0.1:80", ""},
		{"a plus, as curl has it", []string{"+a:80:127.0.0.1"}, nil, "a:80", "127.0.0.1:80", ""},
		{"IPv6", []string{"[::1]:80:[::2]"}, nil, "[::1]:80", "[::2]:80", ""},
		{"IPv6 without brackets", []string{"a:80:::1"}, nil, "a:80", "[::1]:80", ""},
		{"another port", []string{"a:81:127.0.0.1"}, nil, "a:80", "", "--resolve: none is for a:80, where connections go; such as a:80:127.0.0.1"},
		{"a name", []string{"a:80:b"}, nil, "a:80", "", "names instead of addresses are for --connect-to"},
		{"several", []string{"a:80:127.0.0.1,127.0.0.2"}, nil, "a:80", "", "has several addresses"},
		{"no port", []string{"a:127.0.0.1"}, nil, "a:80", "", `--resolve: "a:127.0.0.1" cannot be read; want host:port:address`},
		{"a removal", []string{"-a:80"}, nil, "a:80", "", "cannot be read"},

		{"connect-to", nil, []string{"a:80:b:81"}, "a:80", "b:81", ""},
		{"whatever it is", nil, []string{"::b:81"}, "a:80", "b:81", ""},
		{"another port only", nil, []string{"a::b:"}, "a:80", "b:80", ""},
		{"another host only", nil, []string{":80::81"}, "a:80", "a:81", ""},
		{"IPv6 in both", nil, []string{"[::1]:80:[::2]:81"}, "[::1]:80", "[::2]:81", ""},
		{"the first", nil, []string{"c:80:d:81", "a:80:b:81", "a:80:e:81"}, "a:80", "b:81", ""},
		{"nothing fits", nil, []string{"b:80:c:81"}, "a:80", "", "--connect-to: none is for a:80, where the URL goes; such as a:80:127.0.0.1:8080"},
		{"too few", nil, []string{"a:80:b"}, "a:80", "", `--connect-to: "a:80:b" cannot be read; want host:port:host2:port2`},
		{"too many", nil, []string{"a:80:b:81:c"}, "a:80", "", "cannot be read"},
		{"bad port", nil, []string{"a:0:b:81"}, "a:80", "", "cannot be read"},
		{"after one that fits", nil, []string{"a:80:b:81", "x"}, "a:80", "", `--connect-to: "x" cannot be read`},

		{"one after the other", []string{"b:81:127.0.0.1"}, []string{"a:80:b:81"}, "a:80", "127.0.0.1:81", ""},
		{"a port that is not known yet", nil, []string{"a::127.0.0.1:"}, "a:{{port}}", "127.0.0.1:{{port}}", ""},
	} {
		got, faults := DialAddress(c.address, c.connectTo, c.resolve)
		switch {
		case c.fault == "" && (len(faults) > 0 || got != c.want):
			t.Errorf("%s: %s, %v; want %s", c.name, got, faults, c.want)
		case c.fault != "" && (len(faults) != 1 || !strings.Contains(faults[0].Error(), c.fault)):
			t.Errorf("%s: %v; want %s", c.name, faults, c.fault)
		}
	}
}

// What a form's fields are encoded as, the standard library reads.
func TestFormBody(t *testing.T) {
	read := func(name string) (string, error) {
		if name == "none" {
			return "", os.ErrNotExist
		}
		return "{" + name + "}\x00\r\n", nil
	}
	type part struct{ name, file, kind, content string }
	for _, c := range []struct {
		field string
		want  part
		fault string
	}{
		{"a=b", part{"a", "", "", "b"}, ""},
		{"a=", part{"a", "", "", ""}, ""},
		{"a=b=c;d", part{"a", "", "", "b=c"}, ""},
		{`a="b=c;d"`, part{"a", "", "", "b=c;d"}, ""},
		{`a=" \"b\\c\" "`, part{"a", "", "", ` "b\c" `}, ""},
		{"a= b ", part{"a", "", "", "b"}, ""},
		{"a=b;type=text/x;charset=utf-8", part{"a", "", "text/x;charset=utf-8", "b"}, ""},
		{"a=b;filename=c", part{"a", "c", "", "b"}, ""},
		{`a "q"=b`, part{`a %22q%22`, "", "", "b"}, ""},
		{"a=<d/e", part{"a", "", "", "{d/e}\x00\r\n"}, ""},
		{"a=@d/e.json", part{"a", "e.json", "application/octet-stream", "{d/e.json}\x00\r\n"}, ""},
		{"a=@d/e;type=x/y;filename=z.png", part{"a", "z.png", "x/y", "{d/e}\x00\r\n"}, ""},
		{"a=@e", part{"a", "e", "application/octet-stream", "{e}\x00\r\n"}, ""},
		{"a", part{}, "a field without =; want name=value or name=@FILE"},
		{"=b", part{"", "", "", "b"}, ""},
		{"a=@e,f", part{}, "a: several files in one field are not supported"},
		{"a=(;type=multipart/mixed", part{}, "forms within forms are not supported"},
		{"a=@x.json", part{"a", "x.json", "application/octet-stream", "{x.json}\x00\r\n"}, ""},
		{"a=<x.html", part{"a", "", "text/html", "{x.html}\x00\r\n"}, ""},
		{"a=@", part{}, "a: no file is named; want a=@FILE"},
		{"a=<", part{}, "a: no file is named"},
		{"a=@none", part{}, "a: file does not exist"},
		{"a=b;type=c\r\nd: e", part{}, "no content type"},
	} {
		body, kind, _, err := EncodeForm([]FormField{{Text: "first=1"}, {Text: c.field}}, "boundary", read)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %s", c.field, err, c.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.field, err)
			continue
		}
		_, parameters, err := mime.ParseMediaType(kind)
		if err != nil {
			t.Fatal(err)
		}
		r := multipart.NewReader(strings.NewReader(body), parameters["boundary"])
		var parts []part
		for {
			p, err := r.NextRawPart()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", c.field, err)
			}
			content, err := io.ReadAll(p)
			if err != nil {
				t.Fatalf("%s: %v", c.field, err)
			}
			parts = append(parts, part{p.FormName(), p.FileName(), p.Header.Get("Content-Type"), string(content)})
		}
		if diff := cmp.Diff([]part{{"first", "", "", "1"}, c.want}, parts, cmp.AllowUnexported(part{})); diff != "" {
			t.Errorf("%s: %s", c.field, diff)
		}
	}
}
