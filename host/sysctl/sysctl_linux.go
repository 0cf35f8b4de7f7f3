// Package sysctl sets kernel settings for a while and restores them, whatever happens to
// the program that asked for it:
//
//	s, err := sysctl.Set(map[string]string{"net.core.somaxconn": "65535"})
//	…
//	err = s.Restore()
//
// A separate process, which Set starts from this executable, changes the settings. It
// restores them when its standard input ends. The kernel closes that input when the caller
// is gone: after an error, a panic or SIGKILL. If the separate process itself is killed,
// Restore restores the settings. They stay changed only if both processes are killed.
//
// The package does not watch for changes by others: if two programs change the same
// setting, the last to end restores the value that it found.
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
	root    = "/proc/sys"
	timeout = 10 * time.Second
	// maxOrder bounds the list of settings, and the answer, in bytes.
	maxOrder = 1 << 20
)

// Role is the role of the process that restores settings.
func Role() child.Role { return child.Role{Name: "__restore-sysctl", Main: run} }

// Settings are in force until they are restored. The methods are for one goroutine.
type Settings struct {
	cmd   *exec.Cmd
	in    io.Closer
	out   *bufio.Reader
	found map[string]string
}

// An answer is a line that the process writes: one when the settings are in force or were
// refused, and one if they could not be restored.
type answer struct {
	Found  map[string]string
	Failed string
}

// Set changes all settings, by names such as net.core.somaxconn, or none. If it changes
// none, the error names every fault. Set reads each value back: it is an error if the
// kernel has turned it into another value. A separate process restores the settings
// (package child).
func Set(values map[string]string) (*Settings, error) {
	order, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("sysctl: %w", err)
	}
	if len(order) > maxOrder {
		return nil, fmt.Errorf("sysctl: %d bytes of settings; want at most %d", len(order), maxOrder)
	}
	cmd := Role().Command([]string{"GOMAXPROCS=1"})
	// In a session of its own the process gets no signal from a terminal.
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
	late := time.AfterFunc(timeout, func() { _ = in.Close() }) // tells the process to restore the settings and to end
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
	// The process has restored what it had changed, or says that it could not.
	if last, none := s.read(); none == nil && last.Failed != "" {
		err = errors.Join(err, errors.New(last.Failed))
	}
	_ = s.wait() // the answers already say all that the exit code does
	return nil, fmt.Errorf("sysctl: %w", err)
}

func (s *Settings) read() (a answer, err error) {
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(line, &a)
}

// wait returns how the process ended. It kills a process that does not end.
func (s *Settings) wait() error {
	late := time.AfterFunc(timeout, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	return s.cmd.Wait()
}

// Found returns the values that were in force before, by name.
func (s *Settings) Found() map[string]string { return maps.Clone(s.found) }

// Restore restores the settings. The error names those that could not be restored.
func (s *Settings) Restore() error {
	_ = s.in.Close()                                                     // tells the process to restore them
	late := time.AfterFunc(timeout, func() { _ = s.cmd.Process.Kill() }) // ends the reading
	last, none := s.read()
	late.Stop()
	switch err := s.wait(); {
	case err == nil:
		return nil
	case none == nil && last.Failed != "":
		return fmt.Errorf("sysctl: %s", last.Failed)
	}
	// The process was killed.
	if err := kernel().restore(s.found); err != nil {
		return fmt.Errorf("sysctl: %w", err)
	}
	return nil
}

// run is the main function of the process that Set starts. It returns the exit code when
// the settings are restored.
func run([]string) int {
	// The caller decides when this process ends, so it ignores these signals. A killed
	// process could not listen to the caller.
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	return keep(kernel(), os.Stdin, os.Stdout)
}

func keep(s store, in io.Reader, out io.Writer) int {
	say := func(a answer) {
		if b, err := json.Marshal(a); err == nil {
			_, _ = out.Write(append(b, '\n')) // the reader may be gone
		}
	}
	lines := bufio.NewReader(in)
	order, err := lines.ReadBytes('\n')
	if err != nil {
		return 0 // the caller is gone
	}
	var values map[string]string
	if err = json.Unmarshal(order, &values); err == nil {
		var found map[string]string
		if found, err = s.set(values); err == nil {
			say(answer{Found: found})
			_, _ = io.Copy(io.Discard, lines) // up to the end of input, whether or not with an error
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

// path returns a setting's file, which is always below root: a valid name contains no
// slash and no two dots in a row.
func path(name string) (string, error) {
	if !isName(name) {
		return "", errors.New("not the name of a setting; want one such as net.core.somaxconn")
	}
	return filepath.Join(root, strings.ReplaceAll(name, ".", "/")), nil
}

// set changes all values, by name, or none, and returns the values they had.
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
			faults = append(faults, fmt.Errorf("%s: the kernel has turned %[3]s into %[2]s; want a value that it takes unchanged", name, plain(is), plain(values[name])))
		}
	}
	if len(faults) == 0 {
		return found, nil
	}
	return nil, errors.Join(append(faults, s.restore(found))...)
}

// restore restores all values that it can.
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
			faults = append(faults, fmt.Errorf("%s: restored to %s, but it reads %s", name, plain(found[name]), plain(is)))
		}
	}
	return errors.Join(faults...)
}

// located adds the setting's name and a hint to an error.
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

// same compares two values, ignoring the blanks between their words.
func same(a, b string) bool { return plain(a) == plain(b) }

func plain(s string) string { return strings.Join(strings.Fields(s), " ") }
