package rundir

import (
	"fmt"
	"os"
	"path/filepath"
)

// ReadRun reads run.json of a run folder, and nothing of its trials. It is for code that
// looks at many runs, or at runs that were already judged. A run.json that is missing,
// not valid or of another version is an error.
func ReadRun(dir string) (*Run, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	run := &Run{}
	if _, err := readRun(root, dir, run); err != nil {
		return nil, err
	}
	return run, nil
}

// readRun reads and checks run.json in the root, which is the folder dir. The run is without the
// credentials that an earlier version of dyno kept in it.
func readRun(root *os.Root, dir string, into *Run) (*secrets, error) {
	err := readJSON(root, RunFile, into)
	if err == nil {
		err = into.check()
	}
	if err != nil {
		return nil, fmt.Errorf("run folder: %s: %w", filepath.Join(dir, RunFile), err)
	}
	s := secretsOf(into)
	*into = *s.run(into)
	return s, nil
}
