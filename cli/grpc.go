package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"dyno/cli/output"
	"dyno/cli/quick"
	"dyno/internal/exit"
	"dyno/lab/plan"
	"dyno/load/rpc"
)

// call loads a server with calls of a method; or it shows services, if no method is named.
func (a *app) call(ctx context.Context, q *quick.Load, args []string, out outputFlags) error {
	where := q.Locate(args)
	end := a.meanwhile(out.quiet, "asking "+where+" for its methods")
	schema, err := q.FindMethod(ctx, where)
	end()
	if err != nil {
		return err
	}
	if schema != nil {
		if err := a.describe(schema, q.Method(), out); err != nil || !a.redirected {
			return err
		}
		return exit.Misused(fmt.Sprintf("as in: dyno grpc %s %s", where, firstMethod(schema)), "%s serves gRPC: say which method to call", where)
	}
	return a.quick(ctx, q, plan.GRPC, where, out)
}

// firstMethod is the first method of a schema that is not one of gRPC's own services.
func firstMethod(s *rpc.Schema) string {
	for _, service := range s.Services() {
		if len(service.Methods) > 0 && !strings.HasPrefix(service.Name, "grpc.") {
			return strings.TrimPrefix(service.Methods[0].Path, "/")
		}
	}
	return "pkg.Service/Method"
}

// describe shows services, or what a name means, in JSON where results would be.
func (a *app) describe(schema *rpc.Schema, name string, out outputFlags) error {
	if err := output.CheckJSON(a.stdout, out.json); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := describeGRPC(&b, schema, name, out.json != ""); err != nil {
		return exit.With(exit.Usage, err, "")
	}
	write := func(w io.Writer) error {
		_, err := w.Write(b.Bytes())
		return err
	}
	if out.json == "" || out.json == "-" {
		return write(a.stdout)
	}
	return output.Replace(out.json, write)
}
