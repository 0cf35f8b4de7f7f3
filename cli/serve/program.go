package serve

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"dyno/internal/exit"

	"github.com/spf13/cobra"
)

// A serviceProgram is a service in a program of its own, so that dyno does not link what
// it needs.
type serviceProgram struct {
	program        string // the file's name, and that of its folder below cmd
	service, short string
	about          string // what it is
	example        string // its flags
}

// programCommand returns the command that becomes the program: dyno's parent then has the
// service itself, with its signals, its exit code and its memory.
func programCommand(p serviceProgram) *cobra.Command {
	return &cobra.Command{
		Use:   p.service,
		Short: p.short,
		Long: p.short + ".\n\n" + p.about + `
It is a program of its own, ` + p.program + `, which is looked for next to dyno and on PATH.
All flags are its own: with the program built, --help lists them.`,
		Example:            "  dyno serve " + p.service + " " + p.example,
		DisableFlagParsing: true, // they are the program's
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := FindProgram(p.program)
			if err != nil && slices.ContainsFunc(args, func(s string) bool { return s == "--help" || s == "-h" }) {
				return cmd.Help()
			}
			if err != nil {
				return err
			}
			err = syscall.Exec(path, append([]string{path}, args...), os.Environ()) //nolint:gosec // it was found where dyno's programs are
			return fmt.Errorf("%s: %w", path, err)
		},
	}
}

// FindProgram returns where a program is: next to dyno's own, or on PATH.
func FindProgram(name string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("dyno's own program: %w", err)
	}
	folder := filepath.Dir(self)
	for _, place := range []string{filepath.Join(folder, name), name} {
		if path, err := exec.LookPath(place); err == nil {
			return path, nil
		}
	}
	return "", exit.Misused("in the folder of dyno's source: go build -o "+folder+"/ ./cmd/"+name,
		"%s is neither next to %s nor on PATH", name, self)
}
