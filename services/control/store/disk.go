package store

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The embedded etcd ends the process when the disk takes nothing any more. So the store refuses
// writes while less is free than etcd may need for what it has begun: the next segment of its log,
// which has 64 MB, and some growth of its database. A small disk has to have an eighth free.
const (
	minFree      = 96 << 20
	minFreeShare = 8
)

// diskPeriod is how often it is looked at how much is free: within it, no other program should be
// able to write as much as must be.
const diskPeriod = 100 * time.Millisecond

// reserve is how much room the database's file has beyond its end, in bytes: it grows by 16 MiB at
// a time, and what etcd still has to write after the disk is full goes there.
const reserve = 20 << 20

// A disk is how much of one is free, in bytes, and how much must be for writes to go on.
type disk struct{ free, least uint64 }

func (d disk) full() bool { return d.free < d.least }

func (d disk) String() string {
	return fmt.Sprintf("the disk has %d MiB free, and %d MiB must be: writes are refused, and reads go on, until there is room again", d.free>>20, d.least>>20)
}

// diskOf looks at the disk that a folder is on.
func diskOf(folder string) (disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return disk{}, err
	}
	block := uint64(st.Bsize) //nolint:gosec // of a file system
	return disk{st.Bavail * block, min(minFree, st.Blocks*block/minFreeShare)}, nil
}

// alarmDisk is the alarm of a full disk among those of etcd.
const alarmDisk = "DISKFULL"

// watchDisk looks at the disk now, and until the store is closed.
func (s *Store) watchDisk() {
	database := reserved{file: filepath.Join(s.cfg.Dir, "etcd", "member", "snap", "db")}
	s.lookAtDisk(&database)
	s.background.Go(func() {
		ticker := time.NewTicker(diskPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-ticker.C:
				s.lookAtDisk(&database)
			}
		}
	})
}

func (s *Store) lookAtDisk(database *reserved) {
	look := s.cfg.diskOf
	if look == nil {
		look = diskOf
	}
	d, err := look(s.cfg.Dir)
	if err != nil {
		return // etcd finds out
	}
	s.noteDisk(d)
	if s.full.Load() == nil {
		database.extend()
	}
}

// noteDisk refuses writes or takes them again, by how the disk is. It takes them again where there
// is a quarter more than must be, so that its own writes do not fill the disk at once.
func (s *Store) noteDisk(d disk) {
	before := s.full.Load()
	switch {
	case d.full():
		s.full.Store(&d)
		if before == nil {
			s.log.Error(d.String())
		}
	case before != nil && d.free >= d.least+d.least/4:
		s.full.Store(nil)
		s.log.Info("the disk has room again: writes are taken", "free_bytes", d.free)
	}
}

// A reserved file has room on the disk beyond its end.
type reserved struct {
	file string
	size int64 // when it was extended last
}

// extend makes the room, if the file is another than before. A file system that cannot do that
// leaves it to what must be free.
func (r *reserved) extend() {
	info, err := os.Stat(r.file)
	if err != nil || info.Size() == r.size {
		return
	}
	f, err := os.OpenFile(r.file, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, info.Size()+reserve) == nil {
		r.size = info.Size()
	}
}
