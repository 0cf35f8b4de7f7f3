package program

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
	"dyno/internal/fields"
	"dyno/internal/terminal"
	"dyno/services/bot/imports"
)

// importCommand returns the command that makes a configuration of that of another gateway.
func importCommand() *cobra.Command {
	var out string
	var strict bool
	cmd := &cobra.Command{
		Use:   "import litellm FILE",
		Short: "Make a configuration of that of LiteLLM's proxy",
		Long: `Make a configuration of that of LiteLLM's proxy, on standard output or as a new file.

What has no place in it is listed on standard error, by line, with the reason. Secrets are
not copied: the first lines of the configuration say how their files are written. Other
values of os.environ/NAME are those of the environment.`,
		Example: "  dyno-bot import litellm -o bot.yaml config.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] != "litellm" {
				return exit.Misused("such as "+Name+" import litellm config.yaml", "want litellm and a file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := fields.ReadFile(args[1])
			if err != nil {
				return exit.With(exit.Usage, err, "")
			}
			r, err := imports.LiteLLM(args[1], text, os.LookupEnv)
			for _, l := range r.Left {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s:%d: %s: %s\n", args[1], l.Line, terminal.Line(l.What), terminal.Line(l.Why))
			}
			if err != nil {
				return exit.With(exit.Usage, err, "docs/services/from-litellm.md says what is read")
			}
			if out == "" {
				_, err = cmd.OutOrStdout().Write(r.Text)
			} else {
				err = create(out, r.Text)
			}
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%d deployments; %d settings have no place\n", r.Deployments, len(r.Left))
			if strict && len(r.Left) > 0 {
				return exit.With(exit.Failed, errors.New("--strict: settings have no place"), "")
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "the `FILE` to create (default: standard output)")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with code 1 if a setting has no place")
	return cmd
}

// create writes a file that is not there yet.
func create(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666) //nolint:gosec // it has no secrets
	if err != nil {
		return exit.With(exit.Usage, fmt.Errorf("--out: %w", err), "a file that is there is not overwritten")
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
