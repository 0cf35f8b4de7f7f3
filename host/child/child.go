// Package child starts dyno's own program again, in a role that is no command of a
// person's: what must outlive dyno, or must not share its runtime, is a process of its own.
//
// A package that needs such a process has a Role. The program's main function hands over
// before it does anything else:
//
//	if code, ran := child.Run(os.Args[1:], target.Role(), sysctl.Role()); ran {
//		os.Exit(code)
//	}
package child

import (
	"os"
	"os/exec"
	"strings"
)

// A Role is what the program does when it is started with the role's name as its first
// argument.
type Role struct {
	Name string                  // no command has it
	Main func(args []string) int // args are those behind the name; returns the exit code
}

// Run runs the role that args name, and tells whether they name one.
func Run(args []string, roles ...Role) (code int, ran bool) {
	for _, r := range roles {
		if len(args) > 0 && args[0] == r.Name {
			return r.Main(args[1:]), true
		}
	}
	return 0, false
}

// Command returns the command that starts the role. It goes by way of /proc, because a
// rebuilt binary may have taken the place of the one that runs. Its environment is that
// given, and what instrumented builds need of this process's.
func (r Role) Command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append([]string{r.Name}, args...)...) //nolint:gosec // this very program
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(env, instrumented()...)
	return cmd
}

// instrumented is the environment of builds that count coverage or find races. The latter
// would wait for a second when they end.
func instrumented() []string {
	env := []string{"GORACE=" + strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")}
	if v, ok := os.LookupEnv("GOCOVERDIR"); ok {
		env = append(env, "GOCOVERDIR="+v)
	}
	return env
}
