package rules

import (
	"fmt"
	"testing"
)

// measured are trees that only programs of experiments may have in their binaries, with the reason.
var measured = map[string]string{
	"dyno/experiments":            "variants are measured, not used",
	"github.com/bytedance/sonic":  "only experiments compare JSON libraries",
	"github.com/json-iterator/go": "only experiments compare JSON libraries",
}

// production are the programs that users run.
var production = []string{"./cmd/dyno", "./cmd/dyno-bot", "./cmd/dyno-control"}

// checkMeasured returns the packages that must not be in a binary of production.
func checkMeasured(program string, packages []goPackage) (faults []string) {
	for _, p := range packages {
		for tree, reason := range measured {
			if within(p.ImportPath, tree) {
				faults = append(faults, fmt.Sprintf("%s links %s, and must not: %s", program, p.ImportPath, reason))
			}
		}
	}
	return faults
}

func TestMeasured(t *testing.T) {
	for _, program := range production {
		packages := decode(t, goRun(t, root(t), "list", "-e", "-deps", "-json=ImportPath", program))
		for _, f := range checkMeasured(program, packages) {
			t.Error(f)
		}
		if len(packages) < 100 {
			t.Errorf("%s: %d packages: is go list right?", program, len(packages))
		}
	}
}

func TestMeasuredCanFail(t *testing.T) {
	expectFaults(t, checkMeasured("p", []goPackage{
		{ImportPath: "fmt"}, {ImportPath: "dyno/services/bot"}, {ImportPath: "github.com/bytedance/sonic/encoder"}, {ImportPath: "dyno/experiments/subjects/bot/tcp"},
	}), "p links github.com/bytedance/sonic/encoder, and must not: only experiments", "p links dyno/experiments/subjects/bot/tcp, and must not: variants")
}
