package provenance

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"dyno/lab/plan"
	"dyno/lab/protocols"
)

// maxSum is the largest file that is summed up, so that a record takes at most a second.
const maxSum = 256 << 20

// Digests returns the SHA-256 of the files that an experiment's commands name, and of those that its loads
// read. Commands name programs, and scripts, archives or settings among their arguments. Unreadable or
// large files and other arguments are left out. So is dyno's own program, whose version has its build.
func Digests(e *plan.Experiment) map[string]string {
	files := map[string]string{}
	type summed struct {
		file os.FileInfo
		sum  string
	}
	var all []summed
	add := func(name, path string) {
		file, err := os.Stat(path)
		if _, seen := files[name]; seen || err != nil {
			return
		}
		at := slices.IndexFunc(all, func(s summed) bool { return os.SameFile(s.file, file) })
		if at < 0 {
			at, all = len(all), append(all, summed{file, sum(path, file)})
		}
		if sum := all[at].sum; sum != "" {
			files[name] = sum
		}
	}
	command := func(p *plan.Process) {
		if p.Agent != "" {
			return // the files are another machine's
		}
		for i, arg := range p.Start {
			if i == 0 && filepath.Base(arg) == arg {
				if file, err := exec.LookPath(arg); err == nil { // else starting it says so
					add(arg, file)
				}
				continue
			}
			if p.Dir != "" && !filepath.IsAbs(arg) {
				arg = filepath.Join(p.Dir, arg)
			}
			add(arg, arg)
		}
	}
	for i := range e.Variants {
		v := &e.Variants[i]
		command(&v.Target.Process)
		for j := range v.Services {
			command(&v.Services[j].Process)
		}
		protocols.EachFile(v, func(field, file string) {
			if field != "load.scenario.secrets" { // a sum lets others try what a short secret is
				add(file, file)
			}
		})
	}
	return files
}

// sum returns the SHA-256 of a regular file, or nothing.
func sum(name string, info os.FileInfo) string {
	if !info.Mode().IsRegular() || info.Size() > maxSum {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was read only
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxSum)); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
