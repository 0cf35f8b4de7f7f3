package rules

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// unlinked are modules that tests may use, and whose code must not be in the binary, with
// the reason.
var unlinked = map[string]string{
	"google.golang.org/grpc":            "dyno has a codec for gRPC of its own, and a server that is measured with another program's client shows that client's limits",
	"go.etcd.io/etcd":                   "the control plane is a program of its own: nobody who measures needs its store",
	"github.com/jackc/pgx":              "the bot gateway is a program of its own, and its clients of databases are no part of dyno",
	"modernc.org/sqlite":                "the bot gateway is a program of its own: its embedded database is as large as dyno",
	"go.opentelemetry.io/otel":          "only the bot gateway sends traces; dyno pushes results by a sender of its own",
	"dyno/services/bot":                 "the bot gateway is a program of its own",
	"dyno/services/control":             "the control plane is a program of its own",
	"github.com/charmbracelet/lipgloss": "its first users ask the terminal for its background at every start, and wait five seconds for one that does not answer",
	"github.com/envoyproxy":             "the control plane is a program of its own: the messages of xDS are larger than all else that dyno links",
}

// unlinkedByAll are modules that exist to be compared with what programs use, with the reason. No program in
// cmd may link them; those in experiments/subjects do.
var unlinkedByAll = map[string]string{
	"github.com/bytedance/sonic":    "report R2 compares it with the JSON library that the bot gateway uses",
	"github.com/google/flatbuffers": "report R0 compares its format with Protocol Buffers, which the programs use",
	"github.com/json-iterator/go":   "report R2 compares it with the JSON library that the bot gateway uses",
}

// linked are parts of these trees that may be in the binary after all, with the reason.
var linked = map[string]string{
	"dyno/services/control/backup":   "dyno ctl checks that the file it writes is whole",
	"dyno/services/control/client":   "dyno ctl asks the control plane as any program does; it needs nothing but net/http",
	"dyno/services/control/ctl":      "the control plane's command line for its users, who need not have the server",
	"dyno/services/control/imports":  "dyno ctl import reads files of other tools",
	"dyno/services/control/resource": "what they ask for",
}

// checkLinked returns the packages that must not be in the binary.
func checkLinked(packages []goPackage, unlinked map[string]string) (faults []string) {
	for _, p := range packages {
		excused := slices.ContainsFunc(slices.Collect(maps.Keys(linked)), func(tree string) bool { return within(p.ImportPath, tree) })
		for tree, reason := range unlinked {
			if !excused && within(p.ImportPath, tree) {
				faults = append(faults, fmt.Sprintf("%s: linked, and must not be: %s", p.ImportPath, reason))
			}
		}
	}
	return faults
}

func TestLinked(t *testing.T) {
	for programs, unlinked := range map[string]map[string]string{"./cmd/dyno": unlinked, "./cmd/...": unlinkedByAll} {
		packages := decode(t, goRun(t, root(t), "list", "-e", "-deps", "-json=ImportPath", programs))
		for _, f := range checkLinked(packages, unlinked) {
			t.Errorf("%s: %s", programs, f)
		}
		if len(packages) < 100 {
			t.Errorf("%s: %d packages: is go list right?", programs, len(packages))
		}
	}
}
