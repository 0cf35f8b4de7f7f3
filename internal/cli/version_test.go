package cli

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestBuiltFrom(t *testing.T) {
	if got := builtFrom(buildInfo()); !strings.HasPrefix(got, "dyno "+version()+"\n") {
		t.Errorf("%q: want the version that run.json has, %s", got, version())
	}
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}
	if got := builtFrom(info); !strings.HasPrefix(got, "dyno v1.2.3\ncommit   unknown\n") || !strings.HasSuffix(got, runtime.GOOS+"/"+runtime.GOARCH+"\n") {
		t.Errorf("outside of a repository: %q", got)
	}
	info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.modified", Value: "true"}}
	if got := builtFrom(info); !strings.Contains(got, "commit   0123abcd, with changes\n") {
		t.Errorf("with changes: %q", got)
	}
}
