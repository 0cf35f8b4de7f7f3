package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

// controlProgram is the control plane. It links etcd and grpc-go, dyno links neither.
const controlProgram = "dyno-control"

func (a *app) serveControlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "control",
		Short: "Keep services, configuration and policies, and tell who watches",
		Long: `Keep services, configuration and policies, and tell who watches.

The control plane is a program of its own, ` + controlProgram + `, which is looked for beside dyno
and on PATH. All flags are its own.`,
		Example:            `  dyno serve control --listen 127.0.0.1:7100 --data control.d`,
		DisableFlagParsing: true, // they are the program's
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := findControl()
			if err != nil && slices.ContainsFunc(args, func(s string) bool { return s == "--help" || s == "-h" }) {
				return cmd.Help()
			}
			if err != nil {
				return err
			}
			// The process becomes the program: signals and the exit code are its own.
			err = syscall.Exec(path, append([]string{path}, args...), os.Environ()) //nolint:gosec // it was found where dyno's programs are
			return fmt.Errorf("%s: %w", path, err)
		},
	}
}

// findControl returns where the program is: beside dyno's own, or on PATH.
func findControl() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("dyno's own program: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), controlProgram)
	if path, err := exec.LookPath(beside); err == nil {
		return path, nil
	}
	if path, err := exec.LookPath(controlProgram); err == nil {
		return path, nil
	}
	return "", usage("in the folder of dyno's source: go build -o "+filepath.Dir(self)+"/ ./cmd/"+controlProgram,
		"%s is neither beside %s nor on PATH", controlProgram, self)
}
