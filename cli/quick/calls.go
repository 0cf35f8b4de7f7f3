package quick

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"dyno/cli/foreign"
	"dyno/cli/planflags"
	"dyno/internal/errno"
	"dyno/internal/exit"
	"dyno/lab/detect"
	"dyno/lab/plan"
	"dyno/lab/protocols"
	"dyno/load/engine"
	"dyno/load/rpc"
)

// callFlags are the flags of calls by gRPC that are not fields of the file.
type callFlags struct {
	metadata []string // objects in JSON, as ghz has them
	files    []string // that hold such objects
	rows     []string // files with rows for the message
	method   string
	tls      bool

	connections repeatedInt
}

// flags registers them, and that for the number of connections.
func (c *callFlags) flags(f *pflag.FlagSet, connections *int, usage string) {
	c.connections.to = connections
	*connections = 50
	f.VarP(&c.connections, "connections", "c", usage)
	f.StringArrayVarP(&c.metadata, "metadata", "m", nil, `metadata of each call as an `+"`object`"+` in JSON, such as '{"authorization": "Bearer x"}'; may be repeated`)
	f.StringArrayVarP(&c.files, "metadata-file", "M", nil, "a `FILE` with such an object; may be repeated")
	f.StringArrayVar(&c.rows, "rows", nil, "a `FILE` of rows, CSV or JSON Lines; its columns stand for {{name}} in --data, in which {{ '{{' }} stands for braces, or in --scenario; may be repeated")
	f.StringVar(&c.method, "call", "", "the `method`, instead of after the address")
	f.BoolVar(&c.tls, "tls", false, "speak TLS, as with https:// before the address")
}

// A repeatedInt is a number that knows how often it was given.
type repeatedInt struct {
	to    *int
	times int
}

var _ pflag.Value = (*repeatedInt)(nil)

// String implements pflag.Value.
func (r *repeatedInt) String() string {
	if r.to == nil {
		return ""
	}
	return strconv.Itoa(*r.to)
}

// Type implements pflag.Value.
func (*repeatedInt) Type() string { return "int" }

// Set implements pflag.Value.
func (r *repeatedInt) Set(text string) (err error) {
	r.times++
	*r.to, err = strconv.Atoi(text)
	return err
}

// scheme completes an address: with TLS if a flag is of use only with it.
func (c *callFlags) scheme(where string, given func(string) bool) string {
	if strings.Contains(where, "://") || where == "" {
		return where
	}
	if c.tls || slices.ContainsFunc([]string{"cacert", "cert", "key", "server-name", "tls-min", "tls-max", "tls-tickets"}, given) {
		return "https://" + where
	}
	return where
}

// fill gives the call of a plan what these flags say.
func (c *callFlags) fill(v *plan.Variant) (faults []error) {
	call := v.Load.Call
	call.Method = c.method
	call.ImportPaths = foreign.SplitLists(call.ImportPaths)
	call.Protos = foreign.SplitLists(call.Protos)
	add := func(flag, text string) {
		more, err := foreign.ReadMetadata(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
		}
		call.Metadata = append(call.Metadata, more...)
	}
	for _, text := range c.metadata {
		add("metadata", text)
	}
	for _, file := range c.files {
		content, err := planflags.ReadFile(file)
		if err != nil {
			faults = append(faults, fmt.Errorf("--metadata-file: %w", err))
			continue
		}
		add("metadata-file", content)
	}
	for _, file := range c.rows {
		call.Data = append(call.Data, plan.DefaultData(dataName(file, call.Data), file))
	}
	if c.connections.times > 1 {
		faults = append(faults, errors.New("--connections (-c) is given twice: in ghz, -c is the number of calls under way; here, say how many there are on each connection with --streams"))
	}
	return faults
}

// Locate returns the target's address, and takes over the method where it stands after that.
func (q *Load) Locate(args []string) (where string) {
	if q.unix == "" {
		where, args = args[0], args[1:]
	}
	if len(args) > 0 {
		q.calls.method = args[0]
	}
	return where
}

// Method is the name of the method to call.
func (q *Load) Method() string { return q.calls.method }

// FindMethod completes the name of the method to what a description has, unless users carry out a
// scenario. Where it names no method it returns the description instead: of the server, or of files.
func (q *Load) FindMethod(ctx context.Context, where string) (*rpc.Schema, error) {
	name := q.calls.method
	e, faults := q.unjudged(plan.GRPC, where)
	if err := errors.Join(faults...); err != nil {
		return nil, exit.With(exit.Usage, err, "")
	}
	if q.scenario != "" {
		return nil, nil
	}
	v := &e.Variants[0]
	if err := v.Fill(nil); err != nil {
		return nil, exit.With(exit.Usage, err, "")
	}
	if strings.Contains(name, "/") {
		// Faults of the flags are reported before the server is asked for anything.
		if _, err := q.Plan(plan.GRPC, where); err != nil {
			return nil, exit.With(exit.Usage, err, "")
		}
	}
	if v.Load.Call.Kind != plan.KindAuto {
		return nil, nil
	}
	asked := len(v.Load.Call.Protos) == 0 && v.Load.Call.Protoset == ""
	schema, err := protocols.Schema(ctx, v)
	if err != nil && asked {
		return nil, notDescribed(ctx, &v.Target, err)
	}
	if err != nil {
		return nil, exit.With(exit.Usage, err, "")
	}
	method, err := schema.Method(name)
	switch {
	case err == nil:
		q.calls.method = method.Path
	case asked && misdescribed(schema, name):
		return nil, exit.With(exit.Target, err, "")
	case strings.Contains(name, "/"):
		return nil, exit.With(exit.Usage, err, "")
	default:
		return schema, nil
	}
	return nil, nil
}

// notDescribed is the error of a server that does not say what its services are.
func notDescribed(ctx context.Context, t *plan.Target, err error) error {
	switch {
	case errno.Is(err, syscall.ECONNREFUSED):
		return &engine.Unreachable{Address: t.Address, Err: err}
	case strings.HasPrefix(t.URL, "http://") && detect.SpeaksTLS(ctx, "tcp", t.Address):
		return exit.With(exit.Target, fmt.Errorf("%s speaks TLS, and was spoken to in plain text: %w", t.Address, err), "give --tls")
	}
	return exit.With(exit.Target, err, "")
}

// misdescribed tells whether the server's description of a service is unusable. The name is
// the service's, or that of one of its methods.
func misdescribed(schema *rpc.Schema, name string) bool {
	name = strings.TrimPrefix(name, "/")
	return slices.ContainsFunc(schema.Services(), func(s rpc.Service) bool {
		rest, ok := strings.CutPrefix(name, s.Name)
		return s.Err != nil && ok && (rest == "" || rest[0] == '/' || rest[0] == '.')
	})
}
