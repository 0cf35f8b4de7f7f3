package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// No flag of any command answers a bad value with what a Go package says to programmers.
func TestFlagsRefuseInWords(t *testing.T) {
	refused := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, below := range cmd.Commands() {
			walk(below)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{"", "10k", "1e3.5", "-", "99999999999999999999", "5 apples"} {
				err := cmd.Flags().Set(f.Name, value)
				if err == nil {
					continue // it takes any text
				}
				refused++
				text := cmd.FlagErrorFunc()(cmd, err).Error()
				for _, technical := range []string{"strconv", "time:", "invalid argument", "parsing", "syntax"} {
					if strings.Contains(text, technical) {
						t.Errorf("%s --%s=%q: %s", cmd.CommandPath(), f.Name, value, text)
					}
				}
			}
		})
	}
	walk(Root())
	if refused < 500 {
		t.Errorf("only %d values were refused", refused)
	}
}
