package program

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// given remembers the flags that were given, and returns what sets them again: over what
// a file has set meanwhile. Lists are set whole.
func given(cmd *cobra.Command) (again func() error) {
	var sets []func() error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values := list.GetSlice()
			sets = append(sets, func() error { return list.Replace(values) })
			return
		}
		text := f.Value.String()
		sets = append(sets, func() error { return f.Value.Set(text) })
	})
	return func() error {
		var errs []error
		for _, set := range sets {
			errs = append(errs, set())
		}
		return errors.Join(errs...)
	}
}
