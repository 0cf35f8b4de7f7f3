package archive

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"dyno/results/rundir"
)

// The bounds of Find.
const (
	MaxDepth   = 4 // folders below the root
	MaxFolders = 40_000
	MaxRuns    = 20_000
)

// A Found is a folder that holds a run.json, or one that cannot be read.
type Found struct {
	ID   string      // its path below the root
	Info fs.FileInfo // of run.json
	Err  error       // why the folder cannot be read
}

// Find returns the run folders below a root, in the order of their paths. It does not
// look inside a run folder, and does not follow symbolic links. It tells whether there is
// more than its bounds allow; deeper folders are ignored.
func Find(root *os.Root) (all []Found, more bool) {
	folders := 0
	var look func(id string, depth int)
	look = func(id string, depth int) {
		names, err := subfolders(root, id)
		if err != nil {
			all = append(all, Found{ID: id, Err: err})
			return
		}
		for _, name := range names {
			if folders++; folders > MaxFolders || len(all) == MaxRuns {
				more = true
				return
			}
			id := path.Join(id, name)
			if info, err := root.Lstat(path.Join(id, rundir.RunFile)); err == nil {
				all = append(all, Found{ID: id, Info: info})
			} else if depth < MaxDepth {
				look(id, depth+1)
			}
		}
	}
	look(".", 1)
	return all, more
}

// subfolders returns the names of the folders in one, in order.
func subfolders(root *os.Root, id string) (names []string, err error) {
	d, err := root.Open(id)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()      // nothing was written
	entries, err := d.ReadDir(MaxFolders) // a folder of a million files is not read to its end
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}
