package rules

import (
	"fmt"
	"testing"
)

// unlinked are modules that tests may use, and whose code must not be in the binary, with
// the reason.
var unlinked = map[string]string{
	"google.golang.org/grpc": "dyno has a codec for gRPC of its own, and a server that is measured with another program's client shows that client's limits",
	"go.etcd.io/etcd":        "the control plane is a program of its own: nobody who measures needs its store",
	"github.com/jackc/pgx":   "the bot gateway is a program of its own, and its clients of databases are no part of dyno",
	"modernc.org/sqlite":     "the bot gateway is a program of its own: its embedded database is as large as dyno",
	"dyno/services/bot":      "the bot gateway is a program of its own",
	"dyno/services/control":  "the control plane is a program of its own",
}

// checkLinked returns the packages that must not be in the binary.
func checkLinked(packages []goPackage) (faults []string) {
	for _, p := range packages {
		for tree, reason := range unlinked {
			if within(p.ImportPath, tree) {
				faults = append(faults, fmt.Sprintf("%s: linked, and must not be: %s", p.ImportPath, reason))
			}
		}
	}
	return faults
}

func TestLinked(t *testing.T) {
	packages := decode(t, goRun(t, root(t), "list", "-e", "-deps", "-json=ImportPath", "./cmd/dyno"))
	for _, f := range checkLinked(packages) {
		t.Error(f)
	}
	if len(packages) < 100 {
		t.Errorf("%d packages: is go list right?", len(packages))
	}
}

func TestLinkedCanFail(t *testing.T) {
	expectFaults(t, checkLinked([]goPackage{
		{ImportPath: "google.golang.org/grpc"}, {ImportPath: "google.golang.org/grpc/codes"}, {ImportPath: "google.golang.org/grpcurl"}, {ImportPath: "fmt"},
		{ImportPath: "go.etcd.io/etcd/client/v3"}, {ImportPath: "go.etcd.io/bbolt"},
		{ImportPath: "github.com/jackc/pgx/v5"}, {ImportPath: "github.com/jackc/pgpassfile"}, {ImportPath: "dyno/services/bot/store"}, {ImportPath: "dyno/services/llm"},
	}), "google.golang.org/grpc: linked", "google.golang.org/grpc/codes: linked", "go.etcd.io/etcd/client/v3: linked", "github.com/jackc/pgx/v5: linked", "dyno/services/bot/store: linked")
}
