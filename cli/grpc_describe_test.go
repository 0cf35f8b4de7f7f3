package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dyno/load/rpc"
)

func TestDescribeGRPC(t *testing.T) {
	s, err := rpc.FromProtos(t.Context(), []string{"echo.proto"}, []string{"../services/echo/rpc"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		golden, name string
		asJSON       bool
	}{
		{"services.txt", "", false},
		{"services.json", "", true},
		{"service.txt", "dyno.echo.v1.Echo", false},
		{"service.json", "dyno.echo.v1.Echo", true},
		{"method.txt", "dyno.echo.v1.Echo/Expand", false},
		{"method.json", "dyno.echo.v1.Echo/Expand", true},
		{"message.txt", "dyno.echo.v1.EchoResponse", false},
		{"message.json", "dyno.echo.v1.EchoResponse", true},
	} {
		var b bytes.Buffer
		if err := describeGRPC(&b, s, tt.name, tt.asJSON); err != nil {
			t.Errorf("%s: %v", tt.golden, err)
			continue
		}
		if tt.asJSON && !json.Valid(b.Bytes()) {
			t.Errorf("%s: this is no JSON:\n%s", tt.golden, &b)
		}
		path := filepath.Join("testdata", "grpc", tt.golden)
		if *update {
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s (go test -run DescribeGRPC -update writes it):\n%s\nwant\n%s", path, &b, want)
		}
	}
}

func TestDescribeGRPCOfWhatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.proto"), []byte(`syntax = "proto3"; message A {}`), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := rpc.FromProtos(t.Context(), []string{"a.proto"}, []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	for asJSON, want := range map[bool]string{false: "There are no services.\n", true: "{\n  \"services\": []\n}\n"} {
		var b bytes.Buffer
		if err := describeGRPC(&b, s, "", asJSON); err != nil || b.String() != want {
			t.Errorf("%q, %v; want %q", &b, err, want)
		}
		b.Reset()
		if err := describeGRPC(&b, s, "B.C", asJSON); err == nil || !strings.Contains(err.Error(), `neither a service nor a message "B.C"`) || b.Len() > 0 {
			t.Errorf("%q, %v", &b, err)
		}
	}
}
