package remote

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dyno/host/target"
)

// Limits say what may be started and observed on a machine whose owner did not write the plan.
type Limits struct {
	Commands []string      // patterns of path.Match: the programs that may be started, with any arguments and any environment; none: no program
	Observe  bool          // processes that were not started may be observed
	Files    string        // the folder that programs run in, or below; empty: only where the agent runs
	Time     time.Duration // that a process may take
	Silence  time.Duration // until dyno is taken for lost
}

// A RefusedError says what a plan asks beyond the limits.
type RefusedError struct{ error }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.error }

func refused(format string, args ...any) error { return &RefusedError{fmt.Errorf(format, args...)} }

// admit refuses a program that may not be started, or not there. It puts the path of the program in the place of its
// name: this is the one that is started.
func (l *Limits) admit(s *target.Spec) error {
	if len(s.Args) == 0 {
		return errors.New("there is no command")
	}
	program, err := programOf(s.Args[0])
	if err != nil {
		return &target.Failure{Target: s.Name, Reason: target.ErrNotFound, Detail: err.Error()}
	}
	if !slices.ContainsFunc(l.Commands, func(pattern string) bool { ok, _ := path.Match(pattern, program); return ok }) {
		return refused("%s: the agent's owner does not allow this program to be started (dyno agent --command %s)", s.Args[0], program)
	}
	s.Args[0] = program
	if s.Dir == "" {
		return nil
	}
	if l.Files == "" {
		return refused("dir: %s: the agent's owner allows no folder (dyno agent --files)", s.Dir)
	}
	folder, err := filepath.EvalSymlinks(l.Files)
	if err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(s.Dir) // relative to the folder, in which this process runs
	if err == nil && filepath.IsAbs(dir) {
		dir, err = filepath.Rel(folder, dir)
	}
	if err != nil || !filepath.IsLocal(dir) {
		return refused("dir: %s: the agent's owner allows folders below %s, and there is no such folder (dyno agent --files)", s.Dir, l.Files)
	}
	s.Dir = filepath.Join(folder, dir)
	return nil
}

// programOf returns the path of a program on this machine, as it would be started. dyno is this one.
func programOf(name string) (string, error) {
	if name == "dyno" {
		return os.Executable()
	}
	found := name
	if !strings.Contains(name, "/") {
		var err error
		if found, err = exec.LookPath(name); err != nil {
			return "", err
		}
	}
	if !filepath.IsAbs(found) {
		return "", fmt.Errorf("%s is no absolute path on the agent's machine", name)
	}
	return filepath.Clean(found), nil
}

// admitSubject refuses to observe what was not started.
func (l *Limits) admitSubject(started bool) error {
	if started || l.Observe {
		return nil
	}
	return refused("the agent's owner does not allow processes to be observed that were not started for dyno (dyno agent --observe)")
}
