// Package measurement makes commands of programs that measure one thing once. The tags of a program's fields declare
// its flags (package fields).
package measurement

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"dyno/internal/command"
	"dyno/internal/exit"
	"dyno/internal/fields"
	"dyno/internal/settings"
)

// A Result holds the figures of a program, by name. The end of a name gives the unit:
// _seconds, _bytes or _per_second. Without one of these it is a plain number.
type Result map[string]float64

// A Program measures one thing.
type Program interface {
	// Run measures by a valid configuration. It fails when the context ends, or the machine
	// refuses the resources it needs.
	Run(ctx context.Context) (Result, error)
}

// A checker is a Program with rules across its fields.
type checker interface{ Check(r *fields.Report) }

func check(p any) func(*fields.Report) {
	if c, ok := p.(checker); ok {
		return c.Check
	}
	return func(*fields.Report) {}
}

// Validate reports all faults of a program's fields at once.
func Validate(p Program) error { return fields.Validate(p, check(p)) }

// long is what commands with programs say about them.
const long = `Each program measures one thing once and prints its figures as one line of JSON.
An experiment with "protocol: program" repeats and interleaves them.`

// NewCommand returns a command for programs, which Add adds.
func NewCommand(use, short string) *cobra.Command {
	return &cobra.Command{
		Use:               use,
		Short:             short,
		Long:              long,
		Args:              command.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
}

// Add adds a program to a command. It prints its figures as one line of JSON.
func Add[P Program](parent *cobra.Command, name, short string) {
	p := fields.Default[P]()
	s := settings.New(&p)
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Read()
			if err := s.Validate(check(&p)); err != nil {
				return exit.Misused(cmd.CommandPath()+" --help lists the flags", "%w", err)
			}
			result, err := p.Run(cmd.Context())
			if err == nil {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(result)
			}
			if err != nil && cmd.Context().Err() != nil {
				return exit.With(exit.Interrupted, err, "")
			}
			return err
		},
	}
	s.AddFieldFlags(cmd.Flags())
	parent.AddCommand(cmd)
}
