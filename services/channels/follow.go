package channels

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// headBytes is how much of a file's start is compared to recognise the file, because
// inode numbers are reused.
const headBytes = 256

// A position is a place in a file. The file is identified by its inode and its first
// bytes.
type position struct {
	fileID
	Offset  int64  `json:"offset"`
	Head    int    `json:"head_bytes"` // min(Offset, headBytes)
	HeadSum uint32 `json:"head_crc32c"`
}

// A state is the saved state of a channel whose source is a file. Everything up to
// Position is delivered or dropped, and the last record before it has the number Seq in
// Stream.
type state struct {
	Version  int      `json:"version"`
	Stream   StreamID `json:"stream"`
	Seq      uint64   `json:"sequence"`
	Position position `json:"position"`
	Next     []fileID `json:"next,omitempty"` // files that had the path after the file of Position, in order
}

// A fileID identifies a file while it exists.
type fileID struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// loadState returns nil if there is no state yet.
func loadState(path string) (*state, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read position: %w", err)
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil || s.Version != 1 || s.Position.Offset < 0 || s.Position.Head < 0 || s.Position.Head > headBytes {
		return nil, errors.Join(fmt.Errorf("%s: not a position saved by this program: remove it to start again", path), err)
	}
	return &s, nil
}

// save replaces the state atomically: after a crash there is either the old one or the
// new one.
func (s *state) save(path string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("save position: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("save position: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("save position: %w", errors.Join(err, os.Remove(f.Name())))
	}
	if err := syncFolder(path); err != nil {
		return fmt.Errorf("save position: %w", err)
	}
	return nil
}

// syncFolder has the name of a file outlive a crash.
func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EINVAL) {
		err = nil // the file system keeps names in its own way
	}
	return errors.Join(err, d.Close())
}

// isRemoved reports whether an open file has no name any more.
func isRemoved(info os.FileInfo) bool { return info.Sys().(*syscall.Stat_t).Nlink == 0 }

// A followSource follows a file that is appended to, rotated and truncated. It only reads
// its files, so an error on closing one loses nothing.
type followSource struct {
	config Source
	count  *counters
	log    *slog.Logger

	file  *os.File
	at    position // after the last whole record
	read  int64    // offset of the next read
	head  []byte   // the start of the file, as far as it has been read
	split splitter
	buf   []byte
	path  pathWatch

	quietSince time.Time // nothing came since
	replaced   bool      // the file has been rotated away or removed, as far as is known
	atEnd      bool      // the last read found nothing
}

func (s *followSource) close() error {
	s.path.close()
	if s.file != nil {
		_ = s.file.Close()
	}
	return nil
}

func (s *followSource) run(ctx, hard context.Context, b *buffer) error {
	s.split = splitter{lengths: s.config.Framing == Length, max: s.config.MaxRecordBytes}
	s.buf = make([]byte, 64<<10)
	defer func() { _ = s.close() }() // it has no error
	changes := s.path.watch(ctx, s.log)
	poll := time.NewTimer(0)
	defer poll.Stop()
	s.quietSince = time.Now()
	failing := ""
	for ctx.Err() == nil {
		wait, err := s.turn(hard, b)
		switch {
		case hard.Err() != nil && err != nil:
			return err
		case err != nil:
			s.count.sourceErrors.Add(1)
			wait = s.config.Poll
			if failing != err.Error() {
				failing = err.Error()
				s.log.Warn("source failed, will try again", "path", s.config.Path, "in", wait, "err", err)
			}
		case failing != "":
			failing = ""
			s.log.Info("source goes on", "path", s.config.Path)
		}
		if wait <= 0 {
			continue
		}
		poll.Reset(wait)
		select {
		case <-changes:
		case <-poll.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// turn looks at the path and reads a piece of the file. It returns how long there is nothing to
// do, unless something changes.
func (s *followSource) turn(hard context.Context, b *buffer) (wait time.Duration, err error) {
	if err := s.path.look(); err != nil {
		return 0, err
	}
	if s.file == nil {
		f := s.path.next()
		if f == nil {
			return s.config.Poll, nil
		}
		if err := s.begin(f, 0); err != nil {
			return 0, err
		}
		b.resumeAt(s.at)
		s.quietSince, s.replaced = time.Now(), false
	}
	n, err := s.step(hard, b)
	if err != nil {
		return 0, err
	}
	info, err := s.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("follow: %w", err)
	}
	if info.Size() < s.read {
		s.truncated(b)
		n++
	}
	if n > 0 {
		s.quietSince = time.Now()
		return 0, nil
	}
	removed := isRemoved(info)
	if !removed && !s.path.replaced() {
		return s.config.Poll, nil
	}
	if !s.replaced {
		// The writer may not have noticed the rotation yet.
		s.quietSince, s.replaced = time.Now(), true
	}
	if wait = min(s.config.Poll, s.config.RotateWait-time.Since(s.quietSince)); wait <= 0 {
		s.finish(hard, b, removed)
	}
	return wait, nil
}

// open opens the file at the path, for the first time. A file that does not exist yet is not an error.
func (s *followSource) open(b *buffer) error {
	offset := int64(0)
	if s.config.From == FromEnd {
		offset = -1
	}
	f, err := openRegular(s.config.Path)
	if err != nil {
		return err
	}
	if f != nil {
		if err := s.begin(f, offset); err != nil {
			return err
		}
		s.path.begin([]fileID{s.at.fileID}, nil)
	}
	b.resumeAt(s.at)
	return nil
}

// find opens the file that an earlier process was reading, whatever its name is now, and those after it. gone reports
// whether any of them is gone.
func (s *followSource) find(resume *state) (gone bool, err error) {
	pos := resume.Position
	folders := []string{filepath.Dir(s.config.Path)}
	if target, err := filepath.EvalSymlinks(s.config.Path); err == nil && !slices.Contains(folders, filepath.Dir(target)) {
		folders = append(folders, filepath.Dir(target))
	}
	found, err := findFiles(folders, append(slices.Clone(resume.Next), pos.fileID))
	defer func() {
		if err != nil {
			for _, f := range found {
				_ = f.Close()
			}
		}
	}()
	if err != nil {
		return false, fmt.Errorf("look for the file to continue with: %w", err)
	}
	var seen []fileID
	if f := found[pos.fileID]; f != nil {
		head := make([]byte, pos.Head)
		info, err := f.Stat()
		if err != nil {
			return false, fmt.Errorf("continue with a file: %w", err)
		}
		if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("continue with a file: %w", err)
		}
		if info.Size() >= pos.Offset && castagnoli(0, head) == pos.HeadSum {
			s.file, s.at, s.read, s.head = f, pos, pos.Offset, head
			seen = append(seen, pos.fileID)
		} else {
			_ = f.Close()
		}
	}
	gone = s.file == nil && pos.Inode != 0
	if gone {
		s.log.Warn("the file of the saved position is gone or was truncated: continuing with the next, from its beginning", "path", s.config.Path)
	}
	var files []*os.File
	for _, id := range resume.Next {
		if f := found[id]; f != nil {
			seen, files = append(seen, id), append(files, f)
		} else {
			gone = true
			s.log.Warn("a file that was rotated away is gone before it was read", "path", s.config.Path)
		}
	}
	s.path.begin(seen, files)
	return gone, nil
}

// findFiles opens the regular files of some folders that have the given identities,
// whatever their names. One listing of a folder may miss a file that is being
// renamed, so there are up to three.
func findFiles(folders []string, ids []fileID) (map[fileID]*os.File, error) {
	found := map[fileID]*os.File{}
	for range 3 {
		for _, folder := range folders {
			if err := findIn(folder, ids, found); err != nil {
				return found, err
			}
		}
		if !slices.ContainsFunc(ids, func(id fileID) bool { return id.Inode != 0 && found[id] == nil }) {
			break
		}
	}
	return found, nil
}

// findIn adds what it finds in one folder.
func findIn(folder string, ids []fileID, found map[fileID]*os.File) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !slices.Contains(ids, identity(info)) || found[identity(info)] != nil {
			continue
		}
		f, err := os.Open(filepath.Join(folder, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
			_ = f.Close()
			continue
		}
		found[identity(info)] = f
	}
	return nil
}

// openRegular opens the file at a path, nil if there is none. Opening something else could wait
// without end.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // it has just been removed
	}
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	return f, nil
}

// begin begins to read a file at an offset. If the offset is negative, it begins at the end.
func (s *followSource) begin(f *os.File, offset int64) error {
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("follow: %w", err)
	}
	s.file, s.head, s.read, s.atEnd = f, nil, offset, false
	s.at = position{fileID: identity(info)}
	if offset < 0 {
		s.read = info.Size()
		head := make([]byte, min(headBytes, s.read))
		n, _ := f.ReadAt(head, 0) // missing bytes are not compared
		s.head = head[:n]
		s.mark(s.read)
	}
	return nil
}

func identity(info os.FileInfo) fileID {
	st := info.Sys().(*syscall.Stat_t)
	return fileID{st.Dev, st.Ino}
}

// step reads once and pushes the complete records.
func (s *followSource) step(hard context.Context, b *buffer) (int, error) {
	n, err := s.file.ReadAt(s.buf, s.read)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("follow: %w", err)
	}
	if n > 0 && s.atEnd && !s.isSame() {
		s.truncated(b)
		return n, nil
	}
	s.atEnd = n == 0
	if missing := headBytes - len(s.head); missing > 0 && s.read == int64(len(s.head)) {
		s.head = append(s.head, s.buf[:min(missing, n)]...)
	}
	for p := s.buf[:n]; len(p) > 0; {
		record, used, ok, err := s.split.next(p)
		p = p[used:]
		s.read += int64(used)
		if err != nil {
			s.count.rejected.Add(1)
			s.log.Warn("skipped a record", "path", s.config.Path, "before", s.read, "err", err)
		}
		if !ok {
			continue
		}
		s.mark(s.read)
		if became, _ := b.push(hard, 0, record, s.at); became == abandoned {
			return n, context.Cause(hard)
		}
	}
	return n, nil
}

// mark moves the position after the last whole record to offset.
func (s *followSource) mark(offset int64) {
	s.at.Offset = offset
	if head := int(min(offset, int64(len(s.head)))); head != s.at.Head {
		s.at.Head, s.at.HeadSum = head, castagnoli(0, s.head[:head])
	}
}

// isSame reports whether the file's beginning is unchanged. Otherwise it was truncated, and has grown beyond the read
// part.
func (s *followSource) isSame() bool {
	head := make([]byte, len(s.head))
	n, _ := s.file.ReadAt(head, 0) // a failed read proves nothing
	return n < len(head) || bytes.Equal(head, s.head)
}

// truncated starts to read a file again that was truncated.
func (s *followSource) truncated(b *buffer) {
	s.count.truncations.Add(1)
	s.log.Info("the followed file was truncated", "path", s.config.Path)
	s.leave(func([]byte) bool { return false })
	s.read, s.head, s.atEnd = 0, nil, false
	s.at.Offset, s.at.Head, s.at.HeadSum = 0, 0, 0
	b.resumeAt(s.at)
}

// finish closes a file that was rotated away or removed.
func (s *followSource) finish(hard context.Context, b *buffer, removed bool) {
	s.leave(func(line []byte) bool {
		s.mark(s.read)
		b.push(hard, 0, line, s.at)
		return true
	})
	if removed {
		s.path.forget(s.at.fileID) // another file may get its inode
		b.resumeAt(position{})
	}
	_ = s.file.Close()
	s.file = nil
	s.count.rotations.Add(1)
	s.log.Info("the followed file was rotated", "path", s.config.Path, "removed", removed)
}

// leave passes the bytes after the last newline to keep, and counts them as torn if they
// are not kept.
func (s *followSource) leave(keep func(line []byte) bool) {
	line, ok, torn := s.split.end()
	if torn || ok && !keep(line) {
		s.count.torn.Add(1)
	}
}

// maxSuccessors bounds the rotated files held open during the reading of their predecessors, for example behind a
// full buffer. A further file is lost if it is rotated away before there is room.
const maxSuccessors = 64

// A pathWatch opens each file that appears at a path, so that it misses none, however often the path changes.
type pathWatch struct {
	path string

	mu    sync.Mutex
	seen  []fileID   // guarded by mu; files that had the path, oldest first, from the settled position on
	files []*os.File // guarded by mu; files not yet read, oldest first
}

// look opens the file at the path if it is a new one.
func (w *pathWatch) look() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if info, err := os.Stat(w.path); err == nil && w.isLast(identity(info)) || len(w.files) == maxSuccessors {
		return nil
	}
	f, err := openRegular(w.path)
	if f == nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("follow: %w", err)
	}
	if w.isLast(identity(info)) {
		return f.Close()
	}
	w.seen = append(w.seen, identity(info))
	w.files = append(w.files, f)
	return nil
}

// forget forgets a file that has been removed, and was read.
func (w *pathWatch) forget(id fileID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = slices.DeleteFunc(w.seen, func(seen fileID) bool { return seen == id })
}

func (w *pathWatch) isLast(id fileID) bool { return len(w.seen) > 0 && w.seen[len(w.seen)-1] == id }

// begin sets the files that are known from before, and which of them are to be read. It
// leaves out files that are gone: another file may have their inode.
func (w *pathWatch) begin(seen []fileID, files []*os.File) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen, w.files = seen, files
}

// after returns the files that had the path after the file of a position, and forgets
// earlier ones.
func (w *pathWatch) after(pos position) []fileID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.seen, pos.fileID); i >= 0 {
		w.seen = w.seen[i:]
		return slices.Clone(w.seen[1:])
	}
	return slices.Clone(w.seen)
}

// next returns the next file to read, nil if there is none.
func (w *pathWatch) next() *os.File {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.files) == 0 {
		return nil
	}
	f := w.files[0]
	w.files = w.files[1:]
	return f
}

func (w *pathWatch) replaced() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.files) > 0
}

func (w *pathWatch) close() {
	for f := w.next(); f != nil; f = w.next() {
		_ = f.Close()
	}
}

// watch calls look at each event in the path's directory until ctx is done. Then it signals the channel that it
// returns. If the kernel cannot report changes, watch never signals, and polling takes its place.
func (w *pathWatch) watch(ctx context.Context, log *slog.Logger) <-chan struct{} {
	changes := make(chan struct{}, 1)
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		log.Warn("cannot watch for changes, will poll", "err", err)
		return changes
	}
	f := os.NewFile(uintptr(fd), "inotify")
	dir := filepath.Dir(w.path)
	const events = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE
	if _, err := unix.InotifyAddWatch(fd, dir, events); err != nil {
		_ = f.Close()
		log.Warn("cannot watch for changes, will poll", "dir", dir, "err", err)
		return changes
	}
	context.AfterFunc(ctx, func() { _ = f.Close() })
	go func() {
		buf := make([]byte, 16<<10)
		for {
			if _, err := f.Read(buf); err != nil {
				return // the watch was closed
			}
			_ = w.look() // the source looks too, and reports errors
			select {
			case changes <- struct{}{}:
			default:
			}
		}
	}()
	return changes
}
