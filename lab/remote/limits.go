package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dyno/host/target"
	"dyno/lab/generator"
)

// Limits say what may be started and observed on a machine whose owner did not write the plan.
type Limits struct {
	Commands []string            // patterns of path.Match: the programs that may be started, with any arguments and any environment; none: no program
	Observe  bool                // processes that were not started may be observed, and named
	Networks []generator.Network // where probes may go that find out whether a program is ready; none: anywhere
	Files    string              // the folder that programs run in, or below; empty: only where the agent runs
	Time     time.Duration       // that a process may take
	Silence  time.Duration       // until dyno is taken for lost
}

// A RefusedError says what a plan asks beyond the limits.
type RefusedError struct{ error }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.error }

func refused(format string, args ...any) error { return &RefusedError{fmt.Errorf(format, args...)} }

// Admit refuses a program that may not be started, or not there, and a probe of something elsewhere. It puts the path of the
// program in the place of its name: this is the one that is started.
func (l *Limits) Admit(ctx context.Context, s *target.Spec) error {
	if err := errors.Join(l.AdmitCommand(s), l.admitProbe(ctx, &s.Ready)); err != nil {
		return err
	}
	s.HidesOthers = !l.Observe
	return nil
}

// admitProbe puts the number of an address in the place of its name: no other is asked later.
func (l *Limits) admitProbe(ctx context.Context, p *target.Probe) (err error) {
	networks := generator.Limits{Networks: l.Networks}
	switch {
	case p.TCP != "":
		p.TCP, err = networks.AdmitAddress(ctx, p.TCP)
	case p.HTTP != "":
		var u *url.URL
		if u, err = url.Parse(p.HTTP); err == nil {
			host := u.Host
			if u.Port() == "" {
				host = net.JoinHostPort(u.Hostname(), u.Scheme) // whose name is that of a port
			}
			if host, err = networks.AdmitAddress(ctx, host); err == nil && len(l.Networks) > 0 {
				u.Host = host
				p.HTTP = u.String()
			}
		}
	case p.Unix != "" && len(l.Networks) > 0:
		if folder, bad := filepath.EvalSymlinks(filepath.Dir(p.Unix)); bad != nil || l.Files == "" || !below(folder, l.Files) {
			err = fmt.Errorf("the machine's owner does not allow connections to %s (--files)", p.Unix)
		}
	}
	if err != nil {
		return refused("ready: %w", err)
	}
	return nil
}

// below tells whether a path without symbolic links is in a folder.
func below(path, folder string) bool {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// AdmitCommand refuses a program that may not be started, or not there.
func (l *Limits) AdmitCommand(s *target.Spec) error {
	if len(s.Args) == 0 {
		return errors.New("there is no command")
	}
	program, err := programOf(s.Args[0])
	if err != nil {
		return &target.Failure{Target: s.Name, Reason: target.ErrNotFound, Detail: err.Error()}
	}
	if !slices.ContainsFunc(l.Commands, func(pattern string) bool { ok, _ := path.Match(pattern, program); return ok }) {
		return refused("%s: the machine's owner does not allow this program to be started (--command %s)", s.Args[0], program)
	}
	s.Args[0] = program
	if s.Dir == "" {
		return nil
	}
	if l.Files == "" {
		return refused("dir: %s: the machine's owner allows no folder (--files)", s.Dir)
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
		return refused("dir: %s: the machine's owner allows folders below %s, and there is no such folder (--files)", s.Dir, l.Files)
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

// AdmitSubject refuses to observe what was not started.
func (l *Limits) AdmitSubject(started bool) error {
	if started || l.Observe {
		return nil
	}
	return refused("the machine's owner does not allow processes to be observed that were not started for dyno (--observe)")
}
