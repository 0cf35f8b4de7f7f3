package target

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lookup finds the program as execvp would do in the new process: a name with a slash
// relative to dir, any other name in the PATH of env. If it finds none, it fails with
// ErrNotFound and says where it looked.
func lookup(name, dir string, env []string) (path, detail string, err error) {
	if strings.Contains(name, "/") {
		full := name
		if !filepath.IsAbs(full) && dir != "" {
			full = filepath.Join(dir, full)
		}
		if err := executable(full); err != nil {
			return "", full + ": " + err.Error(), ErrNotFound
		}
		// The name stays relative, because the supervisor changes to dir before it
		// executes it.
		return name, "", nil
	}
	search := getenv(env, "PATH")
	unusable := ""
	for _, d := range filepath.SplitList(search) {
		if !filepath.IsAbs(d) {
			continue // which program runs must not depend on where dyno was started
		}
		full := filepath.Join(d, name)
		err := executable(full)
		if err == nil {
			return full, "", nil
		}
		if unusable == "" && !errors.Is(err, fs.ErrNotExist) {
			unusable = "; " + full + ": " + err.Error()
		}
	}
	return "", name + ": searched PATH " + search + unusable, ErrNotFound
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			return pe.Err
		}
		return err
	}
	if info.IsDir() {
		return unix.EISDIR
	}
	return unix.Access(path, unix.X_OK)
}

// getenv returns the last value of name in env.
func getenv(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}
