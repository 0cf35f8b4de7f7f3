package cli

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/cli/command"
)

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
		got, faults := (&requestFlags{resolve: c.resolve, connectTo: c.connectTo}).address(c.address)
		switch {
		case c.fault == "" && (len(faults) > 0 || got != c.want):
			t.Errorf("%s: %s, %v; want %s", c.name, got, faults, c.want)
		case c.fault != "" && (len(faults) != 1 || !strings.Contains(faults[0].Error(), c.fault)):
			t.Errorf("%s: %v; want %s", c.name, faults, c.fault)
		}
	}
}

// Connections go elsewhere, and the name that the certificate is for, and Host, stay those of the
// URL.
func TestConnectToOverTLS(t *testing.T) {
	names := make(chan string, 2)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		names <- r.TLS.ServerName + " " + r.Host
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	address := server.Listener.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--connect-to", "example.com:443:" + address, "https://example.com/"},
		{"--resolve", "example.com:" + port + ":127.0.0.1", "https://example.com:" + port + "/"},
	} {
		var stdout, stderr strings.Builder
		if code := Main(t.Context(), append([]string{"http", "-q", "-n", "1", "-c", "1", "--cacert", ca}, args...), strings.NewReader(""), &stdout, &stderr); code != command.ExitDone {
			t.Fatalf("%v: exit code %d, %s", args, code, stderr.String())
		}
		if got, want := <-names, "example.com "+strings.TrimSuffix(strings.TrimPrefix(args[2], "https://"), "/"); got != want {
			t.Errorf("%v: the server was asked for %s, want %s", args, got, want)
		}
	}
}

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"user": "ann:hunter22\n", "colonless": "hunter22"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lookup := func(name string) (string, bool) { return "ann:$hunter22", name == "USER_1" }
	for given, want := range map[string]string{
		"ann:hunter22":             "ann:hunter22",
		"ann:":                     "ann:",
		"$ann:@hunter22:b":         "$ann:@hunter22:b",
		"@" + dir + "/user":        "ann:hunter22",
		"$USER_1":                  "ann:$hunter22",
		"${USER_1}":                "ann:$hunter22",
		"@" + dir + "/colonless":   "there is no colon; want user:password",
		"@" + dir + "/hunter22:pw": "the file cannot be read: no such file",
		"@ann:hunter22":            "the file cannot be read: no such file",
		"$hunter22":                "the environment has no such variable",
		"hunter22":                 "there is no colon; want user:password",
		"":                         "there is no colon",
	} {
		q := &quickLoad{request: requestFlags{basicAuth: given}}
		got, err := q.credentials(lookup)
		if err != nil {
			got = err.Error()
			if strings.Contains(got, "hunter22") {
				t.Errorf("%s: %s", given, got)
			}
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
	if got, want := userOf("a%40b:c%3Ad%zz").Value, "Basic YUBiOmMlM0FkJXp6"; got != want {
		t.Errorf("%s, want %s", got, want)
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
		body, kind, err := formBody([]string{"first=1", c.field}, "boundary", read)
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
