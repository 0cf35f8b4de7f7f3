// Package filelog keeps a hub's history in a file, so that a restarted hub continues
// where it ended: with the same updates, the same IDs, and continued sequence numbers.
//
// An update is acknowledged after it is written to the file, which is not forced to the disk. So everything that was
// acknowledged survives a process that is killed at any moment. After a power cut the latest updates may be missing,
// and the file may be damaged. Open refuses a damaged file and leaves it as it is.
package filelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"dyno/hub/journal"
	"dyno/internal/filelock"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// A Log is a journal whose entries are also in a file. Its methods may be called from any
// goroutine.
type Log struct {
	db      *bbolt.DB
	file    *os.File // of db
	journal *journal.Journal

	queue   chan *request
	stop    chan struct{}
	ended   chan struct{} // closed when nothing will be written any more
	stopped sync.Once
	closing error

	// Only the writer uses these, and Close when the writer has ended.
	oldest uint64 // in the file
	broken error  // what the library panicked over
}

// A request is an update that waits to be written.
type request struct {
	update journal.Update
	done   chan error // buffered, so that the writer never waits for the caller
	entry  *journal.Entry
}

// The bounds of the queue for writing. When the queue is full, Append waits.
const (
	queueLength = 1024
	batchLength = 256 // updates in one transaction
)

// lockTimeout is how long to wait for another process that has the file open.
const lockTimeout = time.Second

// The buckets and keys of the file. The keys of entries are sequence numbers, in big
// endian.
var (
	bucketEntries = []byte("entries")
	bucketState   = []byte("state")
	keyEpoch      = []byte("epoch")
	keyFormat     = []byte("format")
)

const format = "dyno events 1"

// Open opens or creates the file, and reads it into a journal with c's bounds. The
// journal's epoch and head come from the file, not from c. Only one process at a time can
// have the file open.
func Open(path string, c journal.Config) (*Log, error) {
	l := &Log{queue: make(chan *request, queueLength), stop: make(chan struct{}), ended: make(chan struct{})}
	err := l.open(path)
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("history file %s: another process has it open", path)
	}
	if err == nil {
		err = l.load(c)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("history file %s: %w", path, err), l.release(err))
	}
	go l.write()
	return l, nil
}

// open opens the file. The free pages are kept in it: the library would look for them on its own goroutine, whose
// panics over damaged pages cannot be recovered.
func (l *Log) open(path string) (err error) {
	defer recovered(&err)()
	const private = 0o600
	l.db, err = bbolt.Open(path, private, &bbolt.Options{
		Timeout: lockTimeout, NoSync: true, NoGrowSync: true,
		FreelistType: bbolt.FreelistMapType,
		OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
			var err error
			if l.file, err = os.OpenFile(path, flag, mode); err != nil {
				return nil, err
			}
			info, err := l.file.Stat()
			if err == nil && info.Mode().Perm()&^private != 0 { // it was made by another program, or copied
				err = l.file.Chmod(private)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("keep it from other users: %w", err), l.file.Close())
			}
			return l.file, nil
		},
	})
	return err
}

// release closes the file, with which another process may open it. A library that has panicked may
// hold its own locks without end, and would wait for them: then the file is closed without it, and
// what is mapped of it stays in memory until the process ends. A mapped file keeps its lock when it
// is closed.
func (l *Log) release(err error) error {
	switch {
	case errors.Is(err, ErrDamaged):
		return errors.Join(filelock.Release(l.file), l.file.Close())
	case l.db != nil:
		return l.db.Close()
	}
	return nil // the library has closed it
}

// recovered turns the library's panics over damaged pages into errors. It also does so for the kernel's signals for
// pages beyond the file's end. The function that it returns is to be deferred.
func recovered(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			*err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}
}

// load reads the file, or creates its buckets.
func (l *Log) load(c journal.Config) (err error) {
	defer recovered(&err)()
	return l.db.Update(func(tx *bbolt.Tx) error {
		entries, err := tx.CreateBucketIfNotExists(bucketEntries)
		if err != nil {
			return err
		}
		state, err := tx.CreateBucketIfNotExists(bucketState)
		if err != nil {
			return err
		}
		if found := state.Get(keyFormat); found != nil && string(found) != format {
			return fmt.Errorf("has format %q, want %q", found, format)
		}
		c.Epoch, c.Head = string(state.Get(keyEpoch)), 0
		// If there ever was an entry, there is one now: entries leave the file only
		// together with a batch of new ones.
		first, _ := entries.Cursor().First()
		if len(first) == 8 {
			c.Head = binary.BigEndian.Uint64(first) - 1
		}
		if l.journal, err = journal.New(c); err != nil {
			return err
		}
		l.oldest = c.Head + 1
		if err := errors.Join(state.Put(keyFormat, []byte(format)), state.Put(keyEpoch, []byte(l.journal.Epoch()))); err != nil {
			return err
		}
		return entries.ForEach(func(key, value []byte) error {
			if len(key) != 8 || binary.BigEndian.Uint64(key) != l.journal.Head()+1 {
				return fmt.Errorf("has entry %x after entry %d", key, l.journal.Head())
			}
			at, u, err := journal.DecodeRecord(value)
			if err != nil {
				return fmt.Errorf("entry %d: %w", l.journal.Head()+1, err)
			}
			if _, err := l.journal.AppendAt(at, u); err != nil {
				return fmt.Errorf("entry %d: %w", l.journal.Head()+1, err)
			}
			return nil
		})
	})
}

// Journal returns the journal that subscribers read. Only the Log appends to it.
func (l *Log) Journal() *journal.Journal { return l.journal }

// ErrDamaged is returned for a file that cannot be read, as a power cut may leave it.
var ErrDamaged = errors.New("is damaged, and can only be replaced by a new one")

// ErrClosed is returned for updates that come after Close.
var ErrClosed = errors.New("history file is closed")

// Append writes u to the file and then to the journal, and returns its ID. If ctx ends
// first, u may still be written.
func (l *Log) Append(ctx context.Context, u journal.Update) (id string, err error) {
	if err := l.journal.Check(&u); err != nil {
		return "", err
	}
	r := &request{update: u, done: make(chan error, 1)}
	select {
	case l.queue <- r:
	case <-l.stop:
		return "", ErrClosed
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	select {
	case err := <-r.done:
		if err != nil {
			return "", err
		}
		return r.entry.ID, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-l.ended:
	}
	select {
	case err := <-r.done: // the last batch has written it
		if err != nil {
			return "", err
		}
		return r.entry.ID, nil
	default:
		return "", ErrClosed
	}
}

// CatchUp returns at once: updates are acknowledged only when they are in the journal.
func (l *Log) CatchUp(context.Context) error { return nil }

// Close refuses the updates that wait to be written, and closes the file.
func (l *Log) Close() error {
	l.stopped.Do(func() {
		close(l.stop)
		<-l.ended
		if err := l.release(l.broken); err != nil {
			l.closing = fmt.Errorf("history file: %w", err)
		}
	})
	return l.closing
}

// write writes updates to the file. All that wait share one transaction.
func (l *Log) write() {
	defer close(l.ended)
	batch := make([]*request, 0, batchLength)
	for {
		batch = batch[:0]
		select {
		case r := <-l.queue:
			batch = append(batch, r)
		case <-l.stop:
			return
		}
	more:
		for len(batch) < batchLength {
			select {
			case r := <-l.queue:
				batch = append(batch, r)
			default:
				break more
			}
		}
		l.commit(batch)
	}
}

// commit writes a batch to the file and then to the journal. Entries that the journal has
// removed leave the file with the next batch.
func (l *Log) commit(batch []*request) {
	now := time.Now()
	oldest := l.journal.Oldest()
	err := l.store(batch, now, oldest)
	if err != nil {
		err = fmt.Errorf("history file: %w", err)
	} else {
		l.oldest = max(l.oldest, oldest)
	}
	for _, r := range batch {
		if err == nil {
			r.entry, err = l.journal.AppendAt(now, r.update) // Append has checked the update
		}
		r.done <- err
	}
}

// store writes a batch to the file, whose oldest entry is then another one. Pages that were not read before may
// be damaged, too. From then on nothing is written.
func (l *Log) store(batch []*request, now time.Time, oldest uint64) (err error) {
	if l.broken != nil {
		return l.broken
	}
	defer func() {
		if errors.Is(err, ErrDamaged) {
			l.broken = err
		}
	}()
	defer recovered(&err)()
	seq := l.journal.Head()
	return l.db.Update(func(tx *bbolt.Tx) error {
		entries := tx.Bucket(bucketEntries)
		entries.FillPercent = 1 // keys only grow, so pages need no room for more
		for gone := l.oldest; gone < oldest; gone++ {
			if err := entries.Delete(key(gone)); err != nil {
				return err
			}
		}
		for i, r := range batch {
			record, err := journal.EncodeRecord(now, r.update)
			if err != nil {
				return err
			}
			if err := entries.Put(key(seq+1+uint64(i)), record); err != nil {
				return err
			}
		}
		return nil
	})
}

func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
