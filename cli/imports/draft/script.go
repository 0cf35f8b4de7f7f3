package draft

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	process "dyno/host/child"
)

// RunScript has a process of its own run a script, within its limits. It gets the task as JSON, and its output is the
// session.
func RunScript(role process.Role, limits process.Limits, task, session any) error {
	input, err := json.Marshal(task)
	if err != nil {
		return err
	}
	output, err := process.Ask(role.Command(os.Environ()), input, limits)
	limit, failed := (*process.LimitError)(nil), (*process.FailedError)(nil)
	switch {
	case errors.As(err, &limit):
		return fmt.Errorf("the script needs %w", err)
	case errors.As(err, &failed):
		first, _, _ := strings.Cut(failed.Says, "\n")
		return fmt.Errorf("the interpreter failed: %w: %s", err, first)
	case err != nil:
		return err
	}
	return json.Unmarshal(output, session)
}
