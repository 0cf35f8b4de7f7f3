// Package storetest starts real servers for tests: Redis and PostgreSQL. Each has a temporary folder with a Unix
// socket. So it takes no port, and leaves the machine's own servers alone.
package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// ErrMissing says that a server is not installed: the test is to be skipped.
var ErrMissing = errors.New("not installed")

// A Server is a server process, which can be restarted.
type Server struct {
	dir    string
	start  func() *exec.Cmd
	ready  string // what it prints when it is ready
	stop   os.Signal
	cmd    *exec.Cmd
	output chan struct{} // closed when it prints no more
}

// startTimeout bounds a start.
const startTimeout = time.Minute

// Start starts it, and waits until it is ready.
func (s *Server) Start() error {
	s.cmd = s.start()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.cmd.Stdout, s.cmd.Stderr = w, w
	if s.cmd.SysProcAttr == nil {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	s.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL // tests that panic leave no server
	err = s.cmd.Start()
	_ = w.Close() // the program has its own
	if err != nil {
		return errors.Join(err, r.Close())
	}
	ready := make(chan error, 1)
	s.output = make(chan struct{})
	go func() {
		defer close(s.output)
		defer r.Close() //nolint:errcheck // was read to its end
		said := ""
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if strings.Contains(lines.Text(), s.ready) {
				ready <- nil
				_, _ = io.Copy(io.Discard, r) // until it ends
				return
			}
			said += lines.Text() + "\n"
		}
		ready <- fmt.Errorf("%s has ended: %s", s.cmd.Path, said)
	}()
	select {
	case err = <-ready:
	case <-time.After(startTimeout):
		err = errors.New(s.cmd.Path + " does not answer")
	}
	if err != nil {
		s.Kill()
	}
	return err
}

// Kill ends it as a power cut would.
func (s *Server) Kill() { s.end(os.Kill) }

// Stop ends it in order.
func (s *Server) Stop() { s.end(s.stop) }

func (s *Server) end(signal os.Signal) {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(signal) // it may have ended
	_ = s.cmd.Wait()                 // how it ended does not matter
	<-s.output
	s.cmd = nil
}

// Pause stops it, with all its processes: connections stay, and it does not answer.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume is the opposite of Pause.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

// signal goes to the server first, which starts no more processes then. Each of
// PostgreSQL's is in a group of its own.
func (s *Server) signal(signal syscall.Signal) error {
	pid := s.cmd.Process.Pid
	if err := syscall.Kill(pid, signal); err != nil {
		return err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return err
	}
	for _, text := range strings.Fields(string(children)) {
		child, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		if err := syscall.Kill(child, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// Close ends it, and removes what it has kept.
func (s *Server) Close() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}

// folder makes a temporary folder with a short name: a socket's address is 107 bytes at
// most.
func folder() (string, error) { return os.MkdirTemp("", "dyno") }

// Redis starts a Redis that keeps what it acknowledges, and returns its address:
// unix:PATH.
func Redis() (*Server, string, error) { return RedisWith() }

// RedisWith is Redis with more arguments.
func RedisWith(args ...string) (*Server, string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, "", fmt.Errorf("redis-server (Debian: redis-server): %w", ErrMissing)
	}
	dir, err := folder()
	if err != nil {
		return nil, "", err
	}
	socket := filepath.Join(dir, "s")
	s := &Server{dir: dir, ready: "eady to accept connections", stop: syscall.SIGTERM, start: func() *exec.Cmd {
		return exec.Command(path, append([]string{"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"}, args...)...) //nolint:gosec // a fixed program
	}}
	if err := s.Start(); err != nil {
		return nil, "", errors.Join(err, s.Close())
	}
	return s, "unix:" + socket, nil
}

// postgresBinaries returns the folder of the server's programs: Debian has them next to
// the path.
func postgresBinaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err == nil && len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("initdb (Debian: postgresql): %w", ErrMissing)
	}
	return filepath.Dir(path), nil
}

// Postgres starts a PostgreSQL with an empty database, and returns its connection
// string.
func Postgres() (_ *Server, _ string, err error) {
	programs, err := postgresBinaries()
	if err != nil {
		return nil, "", err
	}
	dir, err := folder()
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	attributes, err := unprivileged(dir)
	if err != nil {
		return nil, "", err
	}
	data := filepath.Join(dir, "data")
	initialize := exec.Command(filepath.Join(programs, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync") //nolint:gosec // a fixed program
	initialize.SysProcAttr, initialize.Dir = attributes, dir
	if said, err := initialize.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("initdb: %w: %s", err, said)
	}
	s := &Server{dir: dir, ready: "database system is ready to accept connections", stop: syscall.SIGINT, start: func() *exec.Cmd {
		c := exec.Command(filepath.Join(programs, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "max_connections=50", "-c", "shared_buffers=16MB") //nolint:gosec // a fixed program
		c.SysProcAttr, c.Dir = attributes, dir
		return c
	}}
	if err := s.Start(); err != nil {
		return nil, "", err
	}
	return s, "host=" + dir + " user=postgres database=postgres sslmode=disable", nil
}

// unprivileged makes a program run as another user if this is root: PostgreSQL refuses to run as root. The folder
// then belongs to that user.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nothing to change
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, os.Chown(dir, int(uid), int(gid)) //nolint:gosec // 32 bits
}

// Clear empties a database.
func Clear(ctx context.Context, url string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, `DROP SCHEMA public CASCADE; CREATE SCHEMA public`)
	return errors.Join(err, c.Close(ctx))
}

// ClearRedis empties a Redis, at an address as Redis returns it.
func ClearRedis(ctx context.Context, address string) error {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: strings.TrimPrefix(address, "unix:")})
	return errors.Join(c.FlushAll(ctx).Err(), c.Close())
}
