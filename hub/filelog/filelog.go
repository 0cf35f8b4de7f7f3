// Package filelog keeps a hub's history in a file, so that a hub that is started
// again goes on where it ended: with the same updates, the same IDs, and sequence
// numbers that continue.
//
// An update is acknowledged when it has been written to the file, which is not
// forced to the disk. So all that was acknowledged survives a process that is killed
// at any moment, and a power cut may lose the last of it.
package filelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"dyno/hub/journal"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// A Log is a journal whose entries are in a file. Its methods may be called from any
// goroutine.
type Log struct {
	db      *bbolt.DB
	journal *journal.Journal

	queue   chan *request
	stop    chan struct{}
	ended   chan struct{} // closed when nothing is written any more
	stopped sync.Once
	closing error
	oldest  uint64 // in the file; only the writer uses it
}

// request is an update that waits to be written.
type request struct {
	update journal.Update
	done   chan error // buffered: the writer never waits for who asked
	entry  *journal.Entry
}

// Bounds of what waits to be written. When the queue is full, Append waits.
const (
	queueLength = 1024
	batchLength = 256 // of one transaction
)

// lockTimeout is how long to wait for another process that has the file open.
const lockTimeout = time.Second

// Buckets and keys of the file. Entries are by sequence number, in big endian.
var (
	bucketEntries = []byte("entries")
	bucketState   = []byte("state")
	keyEpoch      = []byte("epoch")
	keyFormat     = []byte("format")
)

const format = "dyno events 1"

// Open opens or makes the file, and reads it into a journal with c's bounds; c's
// epoch and head are the file's. Only one process at a time can have it open.
func Open(path string, c journal.Config) (*Log, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: lockTimeout, NoSync: true, NoGrowSync: true, NoFreelistSync: true,
		FreelistType: bbolt.FreelistMapType,
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("history file %s: another process has it open", path)
	}
	if err != nil {
		return nil, fmt.Errorf("history file %s: %w", path, err)
	}
	l := &Log{db: db, queue: make(chan *request, queueLength), stop: make(chan struct{}), ended: make(chan struct{})}
	if err := l.load(c); err != nil {
		return nil, errors.Join(fmt.Errorf("history file %s: %w", path, err), db.Close())
	}
	go l.write()
	return l, nil
}

// load reads the file, or makes its buckets.
func (l *Log) load(c journal.Config) error {
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
		// There is a first entry if there ever was one: entries leave the file only with
		// a batch of new ones.
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

// Journal is what subscribers read. Only the Log appends to it.
func (l *Log) Journal() *journal.Journal { return l.journal }

// ErrClosed is returned for updates that come after Close.
var ErrClosed = errors.New("history file is closed")

// Append writes u to the file and then to the journal, and returns its ID. When ctx
// ends first, it may be written all the same.
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
	case err := <-r.done: // with the last batch
		if err != nil {
			return "", err
		}
		return r.entry.ID, nil
	default:
		return "", ErrClosed
	}
}

// CatchUp returns at once: nothing is acknowledged before it is in the journal.
func (l *Log) CatchUp(context.Context) error { return nil }

// Close refuses what waits to be written and closes the file.
func (l *Log) Close() error {
	l.stopped.Do(func() {
		close(l.stop)
		<-l.ended
		if err := l.db.Close(); err != nil {
			l.closing = fmt.Errorf("history file: %w", err)
		}
	})
	return l.closing
}

// write puts updates into the file, all that wait in one transaction.
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

// commit writes a batch to the file and then to the journal. What the journal has
// removed leaves the file with the next batch.
func (l *Log) commit(batch []*request) {
	now := time.Now()
	seq := l.journal.Head()
	oldest := l.journal.Oldest()
	err := l.db.Update(func(tx *bbolt.Tx) error {
		entries := tx.Bucket(bucketEntries)
		entries.FillPercent = 1 // keys only grow: pages need no room for more
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
	if err != nil {
		err = fmt.Errorf("history file: %w", err)
	} else {
		l.oldest = max(l.oldest, oldest)
	}
	for _, r := range batch {
		if err == nil {
			r.entry, err = l.journal.AppendAt(now, r.update) // Append has checked it
		}
		r.done <- err
	}
}

func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
