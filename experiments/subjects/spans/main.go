// Command spans receives the spans of a service (OTLP over HTTP), and adds up how long they last, by name. GET /metrics has
// two counters for each name, such as check_total and check_seconds_total. They are there from the start: who scrapes them
// learns the names then.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"dyno/internal/command"
)

func main() {
	var listen string
	var names []string
	root := &cobra.Command{
		Use: "spans", Short: "Receive spans (OTLP over HTTP), and add up how long they last", Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), listen, names) },
	}
	root.Flags().StringVar(&listen, "listen", "127.0.0.1:4318", "where services send spans to, at /v1/traces")
	root.Flags().StringSliceVar(&names, "names", nil, "the names of spans that count, such as check,etcd")
	os.Exit(command.Main(context.Background(), root, os.Args[1:], os.Stdout, os.Stderr))
}

// serve answers until ctx ends.
func serve(ctx context.Context, address string, names []string) error {
	server := &http.Server{Addr: address, Handler: newSums(names), ReadTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // nothing is lost that counts
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// maxBody bounds a message, in bytes.
const maxBody = 16 << 20

// sums are the spans received so far, by name.
type sums struct {
	*http.ServeMux
	mu     sync.Mutex // guards totals
	totals map[string]total
}

type total struct {
	spans   int
	seconds float64
}

func newSums(names []string) *sums {
	s := &sums{ServeMux: http.NewServeMux(), totals: map[string]total{}}
	for _, name := range names {
		s.totals[name] = total{}
	}
	s.HandleFunc("POST /v1/traces", s.receive)
	s.HandleFunc("GET /metrics", s.show)
	return s
}

func (s *sums) receive(w http.ResponseWriter, r *http.Request) {
	var spans collector.ExportTraceServiceRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = proto.Unmarshal(body, &spans)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range spans.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				if t, known := s.totals[span.Name]; known {
					s.totals[span.Name] = total{t.spans + 1, t.seconds + time.Duration(span.EndTimeUnixNano-span.StartTimeUnixNano).Seconds()} //nolint:gosec // shorter than 292 years
				}
			}
		}
	}
}

func (s *sums) show(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.totals {
		fmt.Fprintf(w, "# TYPE %[1]s_total counter\n%[1]s_total %[2]d\n# TYPE %[1]s_seconds_total counter\n%[1]s_seconds_total %[3]g\n", name, t.spans, t.seconds)
	}
}
