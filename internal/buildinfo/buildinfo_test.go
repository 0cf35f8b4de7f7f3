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

// TestBuildOf: a build is the linker's ID, in each format of programs. Without an ID there is only the
// version.
func TestBuildOf(t *testing.T) {
	for head, want := range map[string]string{
		"\x7fELF\x00\x04\x00\x00\x00S\x00\x00\x00\x04\x00\x00\x00Go\x00\x00YKvu/zRzs/d_u5VE/SAh2-upFEn_MV-FwJTNu\x00": "build SAh2-upFEn_M",
		"\xcf\xfa\xed\xfe\xff Go build ID: \"aa/bb/cc/0123456789abcdef\"\n \xff":                                      "build 0123456789ab",
		"\x7fELF": "",
	} {
		if got := buildOf([]byte(head)); got != want {
			t.Errorf("%q: %q, want %q", head, got, want)
		}
	}
	if got := Build(); !strings.HasPrefix(got, Version()) {
		t.Errorf("%q: want the version, %s, first", got, Version())
	}
}
