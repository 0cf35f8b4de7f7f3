package rpc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"dyno/services/echo/rpc/contract"
)

// grpcurl is the tool by which people try out services, in the version that the tests build. It is
// no part of this module: it has many times its dependencies.
const grpcurl = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"

// reflective are the programs in Go that find their way by reflection.
var reflective = []string{"plain", "tuned", "connect"}

// install builds a tool. The test is skipped where it cannot be built.
func install(t *testing.T, tool string) (path string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	folder := t.TempDir()
	cmd := exec.CommandContext(ctx, "go", "install", tool)
	cmd.Env = append(os.Environ(), "GOBIN="+folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("it cannot be built here; go install %s says: %v\n%s", tool, err, out)
	}
	name, _, _ := strings.Cut(filepath.Base(tool), "@")
	return filepath.Join(folder, name)
}

// says runs a tool, and returns its exit code and all that it says.
func says(t *testing.T, command string, args ...string) (code int, said string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, err := exec.CommandContext(ctx, command, args...).CombinedOutput()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	} else if err != nil {
		code = ended.ExitCode()
	}
	return code, string(out)
}

// A toolCase is a call, or a question, and what the tool is to say of it.
type toolCase struct {
	name string
	args []string // after which the server and the method stand
	on   string   // what is called, or asked about
	code int
	want []string // patterns, each of which matches what it says
}

func (c toolCase) run(t *testing.T, command string, args ...string) {
	t.Run(c.name, func(t *testing.T) {
		code, said := says(t, command, args...)
		if code != c.code {
			t.Errorf("exit code %d, want %d", code, c.code)
		}
		for _, want := range c.want {
			if !regexp.MustCompile(want).MatchString(said) {
				t.Errorf("no match for %q", want)
			}
		}
		if t.Failed() {
			t.Log(said)
		}
	})
}

// TestGrpcurl has grpcurl find its way in Go programs by reflection, and make calls of each
// kind.
func TestGrpcurl(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds grpcurl")
	}
	command := install(t, grpcurl)
	folder := buildGo(t)
	failed := func(code codes.Code) int { return 64 + int(code) } // as grpcurl's exit codes are
	for _, program := range reflective {
		t.Run(program, func(t *testing.T) {
			address := contract.Start(t, []string{folder + program}, "--listen", "127.0.0.1:0")
			for _, c := range []toolCase{
				{"list", nil, "list", 0, []string{`(?m)^dyno\.echo\.v1\.Echo$`, `(?m)^grpc\.health\.v1\.Health$`}},
				{"list methods", nil, "list dyno.echo.v1.Echo", 0, []string{`(?m)^dyno\.echo\.v1\.Echo\.Echo$`, `\.Collect`, `\.Expand`, `\.Chat`}},
				{"describe a service", nil, "describe dyno.echo.v1.Echo", 0, []string{`rpc Chat \( stream \.dyno\.echo\.v1\.EchoRequest \) returns \( stream \.dyno\.echo\.v1\.EchoResponse \);`}},
				{"describe a message", nil, "describe dyno.echo.v1.EchoRequest", 0, []string{`string text = 1;`, `uint32 delay_ms = 4;`}},
				{"unary", []string{"-d", `{"text": "käse 🧀", "payload": "AAEC"}`}, "dyno.echo.v1.Echo/Echo", 0, []string{`"text": "käse 🧀"`, `"payload": "AAEC"`}},
				{"client stream", []string{"-d", `{"text": "a"} {"text": "bc"} {}`}, "dyno.echo.v1.Echo/Collect", 0, []string{`"messages": "3"`, `"bytes": "3"`}},
				{"server stream", []string{"-d", `{"message": {"text": "again"}, "count": 3}`}, "dyno.echo.v1.Echo/Expand", 0, []string{`(?s)(again.*){3}`}},
				{"both", []string{"-d", `{"text": "first"} {"text": "second"}`}, "dyno.echo.v1.Echo/Chat", 0, []string{`(?s)first.*second`}},
				{"metadata", []string{"-v", "-H", "x-grpc-test-echo-initial: there and back", "-H", "x-grpc-test-echo-trailing-bin: q6ur"}, "dyno.echo.v1.Echo/Echo", 0,
					[]string{`(?s)Response headers.*x-grpc-test-echo-initial: there and back.*Response trailers`, `(?s)Response trailers.*x-grpc-test-echo-trailing-bin: q6ur`}},
				{"health", nil, "grpc.health.v1.Health/Check", 0, []string{`"status": "SERVING"`}},
				{"an error", []string{"-d", `{"status": 5, "text": "no \"käse\" here"}`}, "dyno.echo.v1.Echo/Echo", failed(codes.NotFound), []string{`Code: NotFound`, `Message: no "käse" here`}},
				{"an error after messages", []string{"-d", `{"text": "first"} {"status": 9, "text": "enough"}`}, "dyno.echo.v1.Echo/Chat", failed(codes.FailedPrecondition), []string{`(?s)first.*Code: FailedPrecondition\s+Message: enough`}},
				{"a deadline", []string{"-max-time", "1.5", "-d", `{"delay_ms": 60000}`}, "dyno.echo.v1.Echo/Echo", failed(codes.DeadlineExceeded), []string{`Code: DeadlineExceeded`}},
				{"no such service", nil, "dyno.echo.v1.Nothing/Echo", 1, []string{`(?i)not found|does not (include|expose)`}},
				{"no such message", nil, "describe dyno.echo.v1.Nothing", 1, []string{`(?i)not found`}},
			} {
				c.run(t, command, append(append([]string{"-plaintext"}, c.args...), append([]string{address}, strings.Fields(c.on)...)...)...)
			}
		})
	}
}
