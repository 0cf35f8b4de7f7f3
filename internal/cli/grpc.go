package cli

import (
	"bytes"
	"context"
	"io"

	"dyno/internal/cli/command"
	"dyno/internal/cli/output"
	"dyno/internal/cli/quick"
	"dyno/lab/plan"
	"dyno/load/rpc"
)

// call loads a server with calls of a method; or it shows services, if no method is named.
func (a *app) call(ctx context.Context, q *quick.Load, args []string, out outputFlags) error {
	where := q.Locate(args)
	schema, err := q.FindMethod(ctx, where)
	if err != nil {
		return err
	}
	if schema != nil {
		return a.describe(schema, q.Method(), out)
	}
	return a.quick(ctx, q, plan.GRPC, where, out)
}

// describe shows services, or what a name means, in JSON where results would be.
func (a *app) describe(schema *rpc.Schema, name string, out outputFlags) error {
	if err := output.CheckJSON(a.stdout, out.json); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := describeGRPC(&b, schema, name, out.json != ""); err != nil {
		return command.Fail(command.ExitUsage, err, "")
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
