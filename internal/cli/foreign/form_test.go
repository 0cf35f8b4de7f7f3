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
		{"a=b=c;d", part{"a", "", "", "b=c;d"}, ""},
		{"a=b;type=text/x;charset=utf-8", part{"a", "", "text/x;charset=utf-8", "b"}, ""},
		{"a=b;filename=c", part{"a", "c", "", "b"}, ""},
		{`a "q"=b`, part{`a "q"`, "", "", "b"}, ""},
		{"a=<d/e", part{"a", "", "", "{d/e}\x00\r\n"}, ""},
		{"a=@d/e.json", part{"a", "e.json", "application/json", "{d/e.json}\x00\r\n"}, ""},
		{"a=@d/e;type=x/y;filename=z.png", part{"a", "z.png", "x/y", "{d/e}\x00\r\n"}, ""},
		{"a=@e", part{"a", "e", "application/octet-stream", "{e}\x00\r\n"}, ""},
		{"a", part{}, "a field without a name or =; want name=value or name=@FILE"},
		{"=b", part{}, "a field without a name"},
		{"a=@", part{}, "a: no file is named; want a=@FILE"},
		{"a=<", part{}, "a: no file is named"},
		{"a=@none", part{}, "a: file does not exist"},
		{"a=b;type=c\r\nd: e", part{}, "a: the type holds a line break"},
	} {
		body, kind, err := EncodeForm([]string{"first=1", c.field}, "boundary", read)
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
