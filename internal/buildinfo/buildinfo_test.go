package buildinfo

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	if got := Text(); !strings.HasPrefix(got, Version()+"\n") {
		t.Errorf("%q: want the version that run.json has, %s", got, Version())
	}
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}
	if got := text(info); !strings.HasPrefix(got, "v1.2.3\ncommit   unknown\n") || !strings.HasSuffix(got, runtime.GOOS+"/"+runtime.GOARCH) {
		t.Errorf("outside of a repository: %q", got)
	}
	info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.modified", Value: "true"}}
	if got := text(info); !strings.Contains(got, "commit   0123abcd, with changes\n") {
		t.Errorf("with changes: %q", got)
	}
}
