// Package sysctl sets kernel settings for a while and puts them back, whatever
// becomes of the program that asked for it:
//
//	s, err := sysctl.Set(map[string]string{"net.core.somaxconn": "65535"})
//	…
//	err = s.Restore()
//
// What sets them is a process of its own, which Set makes from this executable. It
// puts them back when its standard input ends, which the kernel does for the caller
// when that is gone: after an error, a panic or SIGKILL. If it is that process that
// is killed, Restore puts them back itself. Only when both are killed do the
// settings stay.
//
// Nobody else's settings are watched: of two programs that set the same one, the
// last to end puts back what it found.
package sysctl

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/child"
)

const (
	root     = "/proc/sys"
	patience = 10 * time.Second
	// maxOrder bounds the settings, and the answer, in bytes.
	maxOrder = 1 << 20
)

// Role is that of the process that puts settings back.
func Role() child.Role { return child.Role{Name: "__restore-sysctl", Main: run} }

// Settings are in force until they are restored. Its methods are for one goroutine.
type Settings struct {
	cmd   *exec.Cmd
	in    io.Closer
	out   *bufio.Reader
	found map[string]string
}

// An answer is a line that the process writes: one when the settings are in force or
// were refused, and one when they could not be put back.
type answer struct {
	Found  map[string]string
	Failed string
}

// Set sets all settings, by names such as net.core.somaxconn, or none; the error then
// names every fault. A value is read back: one that the kernel has made something
// else of is an error too. A process of its own puts them back (package child).
func Set(values map[string]string) (*Settings, error) {
	order, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("sysctl: %w", err)
	}
	if len(order) > maxOrder {
		return nil, fmt.Errorf("sysctl: %d bytes of settings; want at most %d", len(order), maxOrder)
	}
	cmd := Role().Command([]string{"GOMAXPROCS=1"})
	// A session of its own: no signal of a terminal reaches it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("sysctl: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("sysctl: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("sysctl: %w", err)
	}
	s := &Settings{cmd: cmd, in: in, out: bufio.NewReader(io.LimitReader(out, 4*maxOrder))}
	late := time.AfterFunc(patience, func() { _ = in.Close() }) // its sign to undo, and to end
	var a answer
	if _, err = in.Write(append(order, '\n')); err == nil {
		a, err = s.read()
	}
	inTime := late.Stop()
	switch {
	case err == nil && a.Failed == "" && inTime:
		s.found = a.Found
		return s, nil
	case err == nil && a.Failed == "":
		err = errors.New("its process took too long")
	case err == nil:
		err = errors.New(a.Failed)
	default:
		err = fmt.Errorf("its process did not start: %w", err)
	}
	_ = in.Close()
	// It has put back what it had set, and says so if it has not.
	if last, none := s.read(); none == nil && last.Failed != "" {
		err = errors.Join(err, errors.New(last.Failed))
	}
	_ = s.wait() // its exit code says nothing that its answers do not
	return nil, fmt.Errorf("sysctl: %w", err)
}

func (s *Settings) read() (a answer, err error) {
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(line, &a)
}

// wait returns how the process ended; one that does not end is killed.
func (s *Settings) wait() error {
	late := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	return s.cmd.Wait()
}

// Found returns the values that were in force before, by name.
func (s *Settings) Found() map[string]string { return maps.Clone(s.found) }

// Restore puts the settings back. The error names those that could not be.
func (s *Settings) Restore() error {
	_ = s.in.Close()                                                      // which is its sign to do so
	late := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() }) // which ends the reading
	last, none := s.read()
	late.Stop()
	switch err := s.wait(); {
	case err == nil:
		return nil
	case none == nil && last.Failed != "":
		return fmt.Errorf("sysctl: %s", last.Failed)
	}
	// It was killed.
	if err := kernel().restore(s.found); err != nil {
		return fmt.Errorf("sysctl: %w", err)
	}
	return nil
}

// run is the process that Set makes. It returns when the settings are put back, with
// the exit code.
func run([]string) int {
	// Whoever started this process decides when it ends. A dead one does not listen.
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	return keep(kernel(), os.Stdin, os.Stdout)
}

func keep(s store, in io.Reader, out io.Writer) int {
	say := func(a answer) {
		if b, err := json.Marshal(a); err == nil {
			_, _ = out.Write(append(b, '\n')) // nobody may be there to read
		}
	}
	lines := bufio.NewReader(in)
	order, err := lines.ReadBytes('\n')
	if err != nil {
		return 0 // whoever wanted something is gone
	}
	var values map[string]string
	if err = json.Unmarshal(order, &values); err == nil {
		var found map[string]string
		if found, err = s.set(values); err == nil {
			say(answer{Found: found})
			_, _ = io.Copy(io.Discard, lines) // to its end, however it ends
			if err = s.restore(found); err == nil {
				return 0
			}
		}
	}
	say(answer{Failed: err.Error()})
	return 1
}

// A store holds settings.
type store struct {
	read  func(name string) (string, error)
	write func(name, value string) error
}

// kernel returns the kernel's settings (proc_sys(5)).
func kernel() store {
	return store{
		read: func(name string) (string, error) {
			path, err := path(name)
			if err != nil {
				return "", err
			}
			b, err := os.ReadFile(path)
			return strings.TrimSuffix(string(b), "\n"), err
		},
		write: func(name, value string) error {
			path, err := path(name)
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString(value)
			return errors.Join(err, f.Close())
		},
	}
}

var isName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$`).MatchString

// path returns a setting's file, which is below root: a name holds no slash and no
// two dots in a row.
func path(name string) (string, error) {
	if !isName(name) {
		return "", errors.New("not the name of a setting; want one such as net.core.somaxconn")
	}
	return filepath.Join(root, strings.ReplaceAll(name, ".", "/")), nil
}

// set sets all values, by name, or none, and returns what they were.
func (s store) set(values map[string]string) (found map[string]string, err error) {
	found = make(map[string]string)
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		was, err := s.read(name)
		if err != nil {
			faults = append(faults, located(name, err))
			continue
		}
		if err := s.write(name, values[name]); err != nil {
			faults = append(faults, located(name, fmt.Errorf("set to %s: %w", values[name], err)))
			continue
		}
		found[name] = was
		is, err := s.read(name)
		switch {
		case err != nil:
			faults = append(faults, located(name, err))
		case !same(is, values[name]):
			faults = append(faults, fmt.Errorf("%s: the kernel has made %s of %s; want a value that it takes as it is", name, plain(is), plain(values[name])))
		}
	}
	if len(faults) == 0 {
		return found, nil
	}
	return nil, errors.Join(append(faults, s.restore(found))...)
}

// restore puts values back, all that it can.
func (s store) restore(found map[string]string) error {
	var faults []error
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(found))) {
		err := s.write(name, found[name])
		is := ""
		if err == nil {
			is, err = s.read(name)
		}
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: put back to %s: %w", name, plain(found[name]), err))
		case !same(is, found[name]):
			faults = append(faults, fmt.Errorf("%s: put back to %s, and it says %s", name, plain(found[name]), plain(is)))
		}
	}
	return errors.Join(faults...)
}

// located adds to an error the setting and what helps.
func located(name string, err error) error {
	remedy := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		remedy = " (this kernel has no such setting, or the module that brings it is not loaded)"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		remedy = " (run as root, in a container with a /proc/sys that can be written to, or remove the setting)"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		remedy = " (the kernel does not take this value)"
	}
	return fmt.Errorf("%s: %w%s", name, err, remedy)
}

// same compares values but for the blanks between their words.
func same(a, b string) bool { return plain(a) == plain(b) }

func plain(s string) string { return strings.Join(strings.Fields(s), " ") }
