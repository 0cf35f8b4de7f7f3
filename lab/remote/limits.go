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

// Limits bound the programs and observers of a plan on the machine of another owner.
type Limits struct {
	Commands []string            // patterns of path.Match: the programs that may be started, with any arguments and any environment; none: no program
	Observe  bool                // processes that were already running may be observed, and named
	Networks []generator.Network // networks for probes of a program's readiness; none: all
	Files    string              // the folder that programs run in, or below; empty: only where the agent runs
	Time     time.Duration       // bound on a process's time
	Silence  time.Duration       // until dyno counts as lost
}

// A RefusedError says how a plan exceeds the limits.
type RefusedError struct{ error }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.error }

func refused(format string, args ...any) error { return &RefusedError{fmt.Errorf(format, args...)} }

// Admit refuses a forbidden program or folder, and a probe outside of the networks. It replaces the program's name by
// its path: that program is started.
func (l *Limits) Admit(ctx context.Context, s *target.Spec) error {
	if err := errors.Join(l.AdmitCommand(s), l.admitProbe(ctx, &s.Ready)); err != nil {
		return err
	}
	s.HidesOthers = !l.Observe
	return nil
}

// admitProbe replaces the name in an address by a number: no other address is probed later.
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
				host = net.JoinHostPort(u.Hostname(), u.Scheme) // the scheme is the name of a port
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

// below reports whether a path without symbolic links is in a folder.
func below(path, folder string) bool {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// AdmitCommand refuses a forbidden program or folder.
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

// programOf returns the path of a program on this machine. dyno is this program.
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

// AdmitSubject refuses to observe a process that was not started here.
func (l *Limits) AdmitSubject(started bool) error {
	if started || l.Observe {
		return nil
	}
	return refused("the machine's owner does not allow processes to be observed that were not started for dyno (--observe)")
}
